/**
 * What a prompt is to a prefix cache, before any tokeniser has seen it: chained hashes of its canonical bytes.
 * Canonical: what a chat template renders first comes first (model, adapter, salt, tools, template inputs), then message by
 * message. Holds no text. Plain data, so that it may cross a process border.
 */

/** Parts of a prompt that are no message. */
export const partHead = -1;
export const partTools = -2;

export interface PrefixChain {
  /**
   * One 53-bit whole number for each chunk: equal keys mean equal beginnings up to the chunk's end (xxhash: a collision costs a
   * miss). The grid of chunks begins anew at each part. Model, adapter and salt are in the first key.
   */
  readonly keys: Float64Array;
  /** Of each chunk by itself: equal texts have equal keys wherever they stand. As long as `keys`; absent where nobody compares them. */
  readonly loose?: Float64Array;
  /** Canonical bytes up to and including each chunk; ascending, as long as `keys`. */
  readonly ends: Float64Array;
  /** Which part each chunk lies in: a message's index (or a list's element), `partTools` or `partHead`; as long as `keys`. */
  readonly parts: Int32Array;
  /** Canonical bytes of the whole prompt. More than the last end where the prompt has more chunks than are kept. */
  readonly bytes: number;
  /** Of them those that are no ASCII, or lie in `\u` escapes: tokenisers make more tokens of them. */
  readonly wideBytes: number;
}

/** Where in a prompt something was found. */
export interface PromptPlace {
  /** A message's index, `partTools` or `partHead`. */
  readonly part: number;
  /** Bytes into that part: `[start, end)`. */
  readonly startBytes: number;
  readonly endBytes: number;
}

/** The place of chunk `index`. @throws RangeError for an index that the chain has not */
export function placeOf(chain: PrefixChain, index: number): PromptPlace {
  const part = chain.parts[index];
  const end = chain.ends[index];
  if (part === undefined || end === undefined) throw new RangeError(`no chunk ${index}`);
  let first = index;
  while (first > 0 && chain.parts[first - 1] === part) first -= 1;
  const partStart = first === 0 ? 0 : (chain.ends[first - 1] ?? 0);
  const start = index === 0 ? 0 : (chain.ends[index - 1] ?? 0);
  return { part, startBytes: start - partStart, endBytes: end - partStart };
}
