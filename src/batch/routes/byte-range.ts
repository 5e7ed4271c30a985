/** One range of bytes asked for by `Range` (RFC 9110, 14.2), so that a broken download can go on. Pure. */

export interface ByteRange {
  readonly at: number;
  readonly bytes: number;
}

/**
 * @param size of the whole
 * @returns undefined: the whole is to be sent, also where several ranges or other units are asked for
 */
export function rangeOf(header: string | undefined, size: number): ByteRange | 'unsatisfiable' | undefined {
  const [, first, last] = /^bytes=(\d{0,15})-(\d{0,15})$/.exec(header ?? '') ?? [];
  if (first === undefined || last === undefined || (first === '' && last === '')) return undefined;
  if (first === '') {
    const bytes = Math.min(Number(last), size);
    return bytes === 0 ? 'unsatisfiable' : { at: size - bytes, bytes };
  }
  const at = Number(first);
  if (last !== '' && Number(last) < at) return undefined;
  if (at >= size) return 'unsatisfiable';
  const end = last === '' ? size : Math.min(Number(last) + 1, size);
  return { at, bytes: end - at };
}
