/** What becomes of a source's backends while it can't be read: words for the log. Pure. */

/** @param count of the backends that it named last */
export function keptText(count: number): string {
  if (count === 0) return 'no backends come from there';
  return count === 1 ? 'its last backend stays' : `its last ${count} backends stay`;
}
