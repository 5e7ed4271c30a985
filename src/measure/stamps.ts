/**
 * The moment of every token event of one request, in growing typed arrays with a bound. Past it events are counted
 * elsewhere and no longer stamped. The side arrays exist only once they would say something.
 */
import type { TokenStamps } from '../domain/record.ts';

const firstSize = 16;
const most16 = 65_535;
/** Shared: an array of its own, even an empty one, is dear to the garbage collector. */
const noStamps = new Float64Array(0);

export interface StampOf {
  readonly choice: number;
  /** Tokens that the event carries, or undefined when the wire doesn't say. */
  readonly tokens: number | undefined;
  readonly coalesced: boolean;
}

export class StampLog {
  /** Some stamps were not kept. */
  capped = false;
  readonly #maxStamps: number;
  #atMs = noStamps;
  #choices: Uint16Array | undefined;
  #tokens: Uint16Array | undefined;
  #coalesced: Uint8Array | undefined;
  #length = 0;
  #someUntold = false;

  constructor(maxStamps: number) {
    this.#maxStamps = maxStamps;
  }

  add(atMs: number, { choice, tokens, coalesced }: StampOf): void {
    const at = this.#length;
    if (at >= this.#maxStamps) {
      this.capped = true;
      return;
    }
    if (at === this.#atMs.length) this.#grow();
    this.#length = at + 1;
    this.#atMs[at] = atMs;
    if (choice !== 0) (this.#choices ??= new Uint16Array(this.#atMs.length))[at] = choice;
    if (coalesced) (this.#coalesced ??= new Uint8Array(this.#atMs.length))[at] = 1;
    if (tokens === undefined) this.#someUntold = true;
    else if (tokens !== 1 || this.#tokens !== undefined) {
      this.#tokens ??= new Uint16Array(this.#atMs.length).fill(1);
      this.#tokens[at] = Math.min(tokens, most16);
    }
  }

  /** Copies of exactly the used length; absent when there is no stamp. */
  take(): TokenStamps | undefined {
    const end = this.#length;
    if (end === 0) return undefined;
    return {
      atMs: this.#atMs.slice(0, end),
      ...(this.#choices === undefined ? {} : { choice: this.#choices.slice(0, end) }),
      ...(this.#tokens === undefined || this.#someUntold ? {} : { tokens: this.#tokens.slice(0, end) }),
      ...(this.#coalesced === undefined ? {} : { coalesced: this.#coalesced.slice(0, end) }),
    };
  }

  #grow(): void {
    const size = Math.min(this.#maxStamps, Math.max(firstSize, this.#atMs.length * 2));
    const larger = new Float64Array(size);
    larger.set(this.#atMs);
    this.#atMs = larger;
    this.#choices = this.#choices && widen(this.#choices, new Uint16Array(size));
    this.#tokens = this.#tokens && widen(this.#tokens, new Uint16Array(size));
    this.#coalesced = this.#coalesced && widen(this.#coalesced, new Uint8Array(size));
  }
}

function widen<T extends Uint16Array | Uint8Array>(from: T, to: T): T {
  to.set(from);
  return to;
}
