/**
 * Header names in lower case, each made once: the same few dozen names come with every request, and a new string for each
 * of them is dear to make and to look up. Bounded, since clients make up names.
 */

const most = 512;
const longest = 64;
let known = new Map<string, string>();

/** The same as `name.toLowerCase()`. */
export function lowerName(name: string): string {
  const lower = known.get(name);
  if (lower !== undefined) return lower;
  const made = name.toLowerCase();
  if (name.length > longest) return made;
  if (known.size >= most) known = new Map();
  known.set(name, made);
  return made;
}
