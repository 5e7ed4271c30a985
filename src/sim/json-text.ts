/**
 * JSON of short texts that repeat with each token: escaped once, then kept, up to a bound.
 * A simulated answer is made of few words, so nearly every event finds its text here.
 */

const escaped = new Map<string, string>();
const maxEscaped = 4096;

/** The text as a JSON string, quotes included. */
export function jsonText(text: string): string {
  const known = escaped.get(text);
  if (known !== undefined) return known;
  const json = JSON.stringify(text);
  if (escaped.size < maxEscaped) escaped.set(text, json);
  return json;
}
