/**
 * What one step of decoding takes on engines of one kind: base + perStream × streams + perContextToken × live KV tokens, and
 * beside that perPrefillToken × tokens of others' prompts computed between two of its own. These come with streams and would be
 * taken for their doing, several times what it is; so they are a term of their own, which nobody needs further.
 * Least squares over their answers with forgetting, drawn to a prior, no term below nothing. Streams, tokens and prompts mostly
 * grow together: how their effect is shared out is then the prior's to say, and only its sum is learnt. Of prompts the prior is what
 * prefill was seen to take, as soon as that is known: a token of them takes about as long between two steps as before the first.
 */

export interface DecodeSample {
  readonly tpotMs: number;
  readonly streams: number;
  readonly contextTokens: number;
  /** of others' prompts, computed there meanwhile: tokens for each token of the answer; absent: 0 */
  readonly prefillTokens?: number;
}

/** Milliseconds. */
export type DecodeTerms = readonly [base: number, perStream: number, perContextToken: number, perPrefillToken: number];

/** So that the terms are of one size: a stream is counted in tens, tokens of context in ten thousands, of prompts in hundreds. */
const scale = [1, 10, 10_000, 100] as const;
const size = scale.length;
/** Of a row of the equations: the terms, and what they come to. */
const width = size + 1;
/** The equations and what they were last solved to, used anew each time: nothing waits between the two. */
const rows = new Float64Array(size * width);
const tried = new Float64Array(size);
const features = new Float64Array(size);
/** All bits: none is left out. */
const everyTerm = 2 ** size - 1;
/** About the last two hundred answers count. */
const forgetting = 0.995;
/** How many answers the prior is worth, each at ten streams of a thousand tokens. */
const priorAnswers = 0.1;
/** …and what is known of prefill, each beside a hundred tokens of prompts. */
const prefillAnswers = 0.5;
/** What is slower than expected was mostly held up by something that isn't counted: it says less of the steps. */
const slowerWeight = 0.3;
/** A step that takes longer was a stall, a preemption or a stopped machine. */
const outlier = 8;
const fewSamples = 8;
/** No engine that is of use takes a minute for a token. */
const longestStepMs = 60_000;

export class DecodeModel {
  readonly #prior: Float64Array;
  /** Sums of products of the scaled features, and of these with the times; both weighted. */
  readonly #squares = new Float64Array(size * size);
  readonly #products = new Float64Array(size);
  readonly #scaled: Float64Array;
  /** How strongly each term is drawn to its prior. */
  readonly #drawn = new Float64Array(size).fill(priorAnswers);
  samples = 0;

  constructor(prior: DecodeTerms) {
    this.#prior = Float64Array.from(prior, (term, index) => term * (scale[index] ?? 1));
    this.#scaled = this.#prior.slice();
  }

  get terms(): DecodeTerms {
    return [this.#termOf(0), this.#termOf(1), this.#termOf(2), this.#termOf(3)];
  }

  expectedMs({ streams, contextTokens, prefillTokens = 0 }: Omit<DecodeSample, 'tpotMs'>): number {
    return (
      this.#termOf(0) + this.#termOf(1) * streams + this.#termOf(2) * contextTokens + this.#termOf(3) * prefillTokens
    );
  }

  /** A token of a prompt was seen to take so long. */
  expectPrefill(perPrefillTokenMs: number): void {
    if (!(perPrefillTokenMs > 0 && perPrefillTokenMs < longestStepMs)) return;
    this.#prior[3] = perPrefillTokenMs * scale[3];
    this.#drawn[3] = prefillAnswers;
    if (this.samples === 0) this.#scaled.set(this.#prior);
  }

  #termOf(index: 0 | 1 | 2 | 3): number {
    return (this.#scaled[index] ?? 0) / scale[index];
  }

  learn(sample: DecodeSample): void {
    const { tpotMs, streams, contextTokens, prefillTokens = 0 } = sample;
    if (!(tpotMs > 0 && tpotMs < longestStepMs && streams >= 0 && contextTokens >= 0)) return;
    if (!(prefillTokens >= 0 && prefillTokens < Infinity)) return;
    const expectedMs = this.expectedMs(sample);
    if (this.samples >= fewSamples && tpotMs > outlier * Math.max(expectedMs, 1)) return;
    this.samples += 1;
    const weight = this.samples >= fewSamples && tpotMs > expectedMs ? slowerWeight : 1;
    features[0] = 1;
    features[1] = streams / scale[1];
    features[2] = contextTokens / scale[2];
    features[3] = prefillTokens / scale[3];
    for (let i = 0; i < size; i += 1) {
      for (let j = 0; j < size; j += 1) {
        const sum = this.#squares[size * i + j] ?? 0;
        this.#squares[size * i + j] = forgetting * sum + weight * (features[i] ?? 0) * (features[j] ?? 0);
      }
      this.#products[i] = forgetting * (this.#products[i] ?? 0) + weight * (features[i] ?? 0) * tpotMs;
    }
    this.#solve();
  }

  /** The best of all ways to leave terms out among those in which no term is below nothing. That is to leave out none, if that is one. */
  #solve(): void {
    const best = this.#scaled;
    if (this.#tries(everyTerm)) {
      best.set(tried);
      return;
    }
    best.set(this.#prior);
    let least = Infinity;
    for (let kept = 1; kept < everyTerm; kept += 1) {
      if (!this.#tries(kept)) continue;
      const error = this.#error(tried);
      if (error >= least) continue;
      best.set(tried);
      least = error;
    }
  }

  /** Sum of squared errors and of distances from the prior, but for what is the same for all. */
  #error(terms: Float64Array): number {
    let sum = 0;
    for (let i = 0; i < size; i += 1) {
      const term = terms[i] ?? 0;
      sum += (this.#drawn[i] ?? 0) * (term - (this.#prior[i] ?? 0)) ** 2 - 2 * term * (this.#products[i] ?? 0);
      for (let j = 0; j < size; j += 1) sum += term * (terms[j] ?? 0) * (this.#squares[size * i + j] ?? 0);
    }
    return sum;
  }

  /**
   * Solves for the terms that are not left out, into `tried`.
   * @param kept their bits
   * @returns false where a term is below nothing, or there is no solution
   */
  #tries(kept: number): boolean {
    for (let i = 0; i < size; i += 1) {
      if (((kept >> i) & 1) === 0) continue;
      const row = width * i;
      for (let j = 0; j < size; j += 1) rows[row + j] = this.#squares[size * i + j] ?? 0;
      rows[row + i] = (rows[row + i] ?? 0) + (this.#drawn[i] ?? 0);
      rows[row + size] = (this.#products[i] ?? 0) + (this.#drawn[i] ?? 0) * (this.#prior[i] ?? 0);
    }
    return eliminate(kept);
  }
}

/**
 * Gauss, on the rows and columns that are kept. The matrix is positive definite: its diagonal will do for pivots. Plain loops
 * on numbers that are there already, since this runs at the end of each answer.
 */
function eliminate(kept: number): boolean {
  for (let i = 0; i < size; i += 1) {
    if (((kept >> i) & 1) === 0) continue;
    const pivot = rows[width * i + i] ?? 0;
    if (!(pivot > 0)) return false;
    for (let r = 0; r < size; r += 1) {
      if (r === i || ((kept >> r) & 1) === 0) continue;
      const factor = (rows[width * r + i] ?? 0) / pivot;
      if (factor === 0) continue;
      for (let c = i; c <= size; c += 1) {
        if (c < size && ((kept >> c) & 1) === 0) continue;
        rows[width * r + c] = (rows[width * r + c] ?? 0) - factor * (rows[width * i + c] ?? 0);
      }
    }
  }
  for (let i = 0; i < size; i += 1) {
    const term = ((kept >> i) & 1) === 0 ? 0 : (rows[width * i + size] ?? 0) / (rows[width * i + i] ?? 1);
    if (!(term >= 0 && term < Infinity)) return false;
    tried[i] = term;
  }
  return true;
}
