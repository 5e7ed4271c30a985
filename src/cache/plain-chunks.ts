/**
 * The payload of whole, plain chunks of chunked coding (RFC 9112, 7.1): no extension, no last chunk, nothing cut. That is what
 * a relay passes on verbatim; the grammar was checked when it was read. Pure.
 */

const cr = 13;
const lf = 10;

/** @returns views into `wire`; undefined when it is something else */
export function plainChunks(wire: Buffer): readonly Buffer[] | undefined {
  const pieces: Buffer[] = [];
  let at = 0;
  while (at < wire.length) {
    const lineEnd = wire.indexOf(cr, at);
    if (lineEnd < 0 || wire[lineEnd + 1] !== lf) return undefined;
    const digits = wire.toString('latin1', at, lineEnd);
    if (!/^[0-9a-f]{1,8}$/i.test(digits)) return undefined;
    const start = lineEnd + 2;
    const end = start + Number.parseInt(digits, 16);
    if (end === start || wire[end] !== cr || wire[end + 1] !== lf) return undefined;
    pieces.push(wire.subarray(start, end));
    at = end + 2;
  }
  return pieces;
}
