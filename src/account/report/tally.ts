/**
 * Counts by name, bounded: names beyond the bound are counted together as `other`, and the bound's being reached is told.
 */

export const otherName = '(other)';
const mostNames = 200;

export interface TallyEntry {
  readonly name: string;
  readonly count: number;
}

export class Tally {
  readonly #counts = new Map<string, number>();
  readonly #most: number;

  constructor(most = mostNames) {
    this.#most = most;
  }

  add(name: string, count = 1): void {
    const known = this.#counts.get(name);
    if (known !== undefined) this.#counts.set(name, known + count);
    else if (this.#counts.size < this.#most) this.#counts.set(ownText(name), count);
    else this.#counts.set(otherName, (this.#counts.get(otherName) ?? 0) + count);
  }

  get(name: string): number {
    return this.#counts.get(name) ?? 0;
  }

  get size(): number {
    return this.#counts.size;
  }

  /** Most frequent first; equal ones by name. */
  entries(): readonly TallyEntry[] {
    return [...this.#counts]
      .map(([name, count]) => ({ name, count }))
      .toSorted((a, b) => b.count - a.count || (a.name < b.name ? -1 : 1));
  }

  toJson(): Readonly<Record<string, number>> {
    return Object.fromEntries(this.entries().map(({ name, count }) => [name, count]));
  }
}

/** A copy: what is cut from a line keeps the whole line, and what was read with it, alive. */
export function ownText(text: string): string {
  return Buffer.from(text).toString();
}
