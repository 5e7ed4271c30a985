/**
 * What one step of decoding takes on engines of one kind: base + perStream × streams + perContextToken × live KV tokens, and
 * beside that perPrefillToken × tokens of others' prompts computed between two of its own. These come with streams and would be
 * taken for their doing, several times what it is; so they are a term of their own, which nobody needs further.
 * Least squares over their answers with forgetting, drawn to a prior, no term below nothing. Streams and tokens mostly grow
 * together: how their effect is shared out is then the prior's to say, and only its sum is learnt.
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
/** About the last two hundred answers count. */
const forgetting = 0.995;
/** How many answers the prior is worth, each at ten streams of a thousand tokens. */
const priorAnswers = 0.1;
/** What is slower than expected was mostly held up by something that isn't counted: it says less of the steps. */
const slowerWeight = 0.3;
/** A step that takes longer was a stall, a preemption or a stopped machine. */
const outlier = 8;
const fewSamples = 8;
/** No engine that is of use takes a minute for a token. */
const longestStepMs = 60_000;

export class DecodeModel {
  readonly #prior: readonly number[];
  /** Sums of products of the scaled features, and of these with the times; both weighted. */
  readonly #squares = new Float64Array(size * size);
  readonly #products = new Float64Array(size);
  #scaled: readonly number[];
  samples = 0;

  constructor(prior: DecodeTerms) {
    this.#prior = prior.map((term, index) => term * (scale[index] ?? 1));
    this.#scaled = this.#prior;
  }

  get terms(): DecodeTerms {
    const [base = 0, perStream = 0, perContextToken = 0, perPrefillToken = 0] = this.#scaled;
    return [base, perStream / scale[1], perContextToken / scale[2], perPrefillToken / scale[3]];
  }

  expectedMs({ streams, contextTokens, prefillTokens = 0 }: Omit<DecodeSample, 'tpotMs'>): number {
    const [base, perStream, perContextToken, perPrefillToken] = this.terms;
    return base + perStream * streams + perContextToken * contextTokens + perPrefillToken * prefillTokens;
  }

  learn(sample: DecodeSample): void {
    const { tpotMs, streams, contextTokens, prefillTokens = 0 } = sample;
    if (!(tpotMs > 0 && tpotMs < longestStepMs && streams >= 0 && contextTokens >= 0)) return;
    if (!(prefillTokens >= 0 && prefillTokens < Infinity)) return;
    const expectedMs = this.expectedMs(sample);
    if (this.samples >= fewSamples && tpotMs > outlier * Math.max(expectedMs, 1)) return;
    this.samples += 1;
    const weight = this.samples >= fewSamples && tpotMs > expectedMs ? slowerWeight : 1;
    const features = [1, streams / scale[1], contextTokens / scale[2], prefillTokens / scale[3]];
    for (let i = 0; i < size; i += 1) {
      for (let j = 0; j < size; j += 1) {
        const sum = this.#squares[size * i + j] ?? 0;
        this.#squares[size * i + j] = forgetting * sum + weight * (features[i] ?? 0) * (features[j] ?? 0);
      }
      this.#products[i] = forgetting * (this.#products[i] ?? 0) + weight * (features[i] ?? 0) * tpotMs;
    }
    this.#solve();
  }

  /** The best of all ways to leave terms out among those in which no term is below nothing. */
  #solve(): void {
    let best = this.#prior;
    let least = Infinity;
    for (let kept = 1; kept < 2 ** size; kept += 1) {
      const terms = this.#solved(kept);
      if (terms === undefined || terms.some((term) => term < 0)) continue;
      const error = this.#error(terms);
      if (error >= least) continue;
      best = terms;
      least = error;
    }
    this.#scaled = best;
  }

  /** Sum of squared errors and of distances from the prior, but for what is the same for all. */
  #error(terms: readonly number[]): number {
    let sum = 0;
    for (let i = 0; i < size; i += 1) {
      const term = terms[i] ?? 0;
      sum += priorAnswers * (term - (this.#prior[i] ?? 0)) ** 2 - 2 * term * (this.#products[i] ?? 0);
      for (let j = 0; j < size; j += 1) sum += term * (terms[j] ?? 0) * (this.#squares[size * i + j] ?? 0);
    }
    return sum;
  }

  /** @param kept bits of the terms that are not left out */
  #solved(kept: number): number[] | undefined {
    const rows: number[][] = [];
    for (let i = 0; i < size; i += 1) {
      const row = Array.from<number>({ length: size + 1 }).fill(0);
      const isKept = (kept >> i) & 1;
      for (let j = 0; j < size; j += 1) if (isKept && (kept >> j) & 1) row[j] = this.#squares[size * i + j] ?? 0;
      row[i] = isKept ? (row[i] ?? 0) + priorAnswers : 1;
      row[size] = isKept ? (this.#products[i] ?? 0) + priorAnswers * (this.#prior[i] ?? 0) : 0;
      rows.push(row);
    }
    return eliminated(rows);
  }
}

/** Gauss. The matrix is positive definite: its diagonal will do for pivots. */
function eliminated(rows: number[][]): number[] | undefined {
  for (let i = 0; i < size; i += 1) {
    const pivot = rows[i]?.[i] ?? 0;
    if (!(pivot > 0)) return undefined;
    for (let r = 0; r < size; r += 1) {
      const row = rows[r];
      const factor = (row?.[i] ?? 0) / pivot;
      if (r === i || row === undefined || factor === 0) continue;
      for (let c = i; c <= size; c += 1) row[c] = (row[c] ?? 0) - factor * (rows[i]?.[c] ?? 0);
    }
  }
  const terms = rows.map((row, i) => (row[size] ?? 0) / (row[i] ?? 1));
  return terms.every((term) => Number.isFinite(term)) ? terms : undefined;
}
