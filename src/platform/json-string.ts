/**
 * Where a JSON string ends, found without looking at each of its bytes. Its content is not checked.
 */

/** The chunk ends inside the string. */
export const openText = -1;
/** So it does, and its last byte begins an escape. */
export const openEscape = -2;

/**
 * Index of the closing quote, or `openText` or `openEscape`.
 * @param escaped the bytes before `from` end in a backslash that begins an escape
 */
export function findStringEnd(chunk: Buffer, from: number, escaped: boolean): number {
  let search = from;
  for (;;) {
    const quote = indexOfQuote(chunk, search);
    const end = quote < 0 ? chunk.length : quote;
    let slash = end - 1;
    while (slash >= search && chunk[slash] === 0x5c) slash -= 1;
    const run = end - 1 - slash;
    // A run reaches back beyond this chunk only at `from`: after a quote it stops at that quote.
    const odd = (slash < from && escaped ? run + 1 : run) % 2 === 1;
    if (quote < 0) return odd ? openEscape : openText;
    if (!odd) return quote;
    search = quote + 1;
  }
}

/** A native call costs more than looking at a few bytes, and most strings are short. */
const probedBytes = 24;

function indexOfQuote(chunk: Buffer, from: number): number {
  const probeEnd = Math.min(from + probedBytes, chunk.length);
  for (let at = from; at < probeEnd; at += 1) if (chunk[at] === 0x22) return at;
  return probeEnd === chunk.length ? -1 : chunk.indexOf(0x22, probeEnd);
}
