/**
 * "Did you mean …": the known word nearest to an unknown one, if one is near enough. Pure.
 */

/** Unknown words past this length are nobody's typing mistake. */
const longestWord = 64;

/** @returns the nearest of `known`, or undefined when none is near: a third of the letters may differ, at least one */
export function nearest(word: string, known: Iterable<string>): string | undefined {
  const plain = bare(word);
  if (plain === '' || word.length > longestWord) return undefined;
  let best: string | undefined;
  let bestDistance = Math.max(1, Math.floor(plain.length / 3)) + 1;
  for (const candidate of known) {
    const distance = editDistance(plain, bare(candidate));
    if (distance < bestDistance) {
      best = candidate;
      bestDistance = distance;
    }
  }
  return best;
}

/** `max_in_flight`, `max-in-flight` and `MaxInFlight` are all meant as `maxInFlight`. */
export function bare(word: string): string {
  return word.toLowerCase().replace(/[^a-z0-9]/g, '');
}

/** Optimal string alignment: insertions, deletions, replacements, and swaps of two neighbours count one each. */
function editDistance(a: string, b: string): number {
  let beforeLast: number[] = [];
  let last = Array.from({ length: b.length + 1 }, (_, index) => index);
  for (let row = 1; row <= a.length; row += 1) {
    const current = [row];
    for (let column = 1; column <= b.length; column += 1) {
      const same = a[row - 1] === b[column - 1];
      let cost = Math.min(at(last, column) + 1, at(current, column - 1) + 1, at(last, column - 1) + (same ? 0 : 1));
      const swapped = row > 1 && column > 1 && a[row - 1] === b[column - 2] && a[row - 2] === b[column - 1];
      if (swapped) cost = Math.min(cost, at(beforeLast, column - 2) + 1);
      current.push(cost);
    }
    beforeLast = last;
    last = current;
  }
  return at(last, b.length);
}

function at(row: readonly number[], index: number): number {
  return row[index] ?? Number.POSITIVE_INFINITY;
}
