/**
 * What a finished record tells of its decoding, in the few numbers that the concurrency table, the ceiling and the prefill
 * rate all need. Pure; undefined where the record doesn't say enough.
 */
import type { RequestRecord } from '../domain/record.ts';

export interface Decoded {
  readonly backend: string;
  /** Choices that decoded side by side. */
  readonly sequences: number;
  /** Mean number of sequences that decoded on the backend meanwhile. */
  readonly concurrency: number;
  /** First token → last token. */
  readonly seconds: number;
  /** Tokens of all its choices after their first ones. */
  readonly tokens: number;
  /** One step of the engine, as seen from outside: TPOT, or the mean gap where events carry several tokens. */
  readonly stepSeconds: number;
}

/**
 * Records marked `loop_lag` count: over a whole stream a lag of milliseconds is little, and long streams all see one.
 * @returns undefined without at least one step that can be timed
 */
export function decodedOf(record: RequestRecord): Decoded | undefined {
  const { backend, timeline, figures, tokens, marks } = record;
  const concurrency = record.assessment?.decodeConcurrency;
  const { firstToken, lastToken } = timeline;
  const output = tokens.output?.value;
  if (backend === undefined || concurrency === undefined || output === undefined) return undefined;
  if (firstToken === undefined || lastToken === undefined || lastToken <= firstToken) return undefined;
  if (figures.tpotMs === undefined || record.warmth === 'replayed') return undefined;
  const sequences = sequencesOf(record);
  const seconds = (lastToken - firstToken) / 1000;
  const gaps = record.events - sequences;
  const several = marks.includes('several_tokens_per_event') && gaps > 0;
  return {
    backend,
    sequences,
    concurrency: Math.max(concurrency, sequences),
    seconds,
    tokens: Math.max(0, output - sequences),
    stepSeconds: several ? (seconds * sequences) / gaps : figures.tpotMs / 1000,
  };
}

/** A record names each choice that finished. */
export function sequencesOf(record: RequestRecord): number {
  return Math.max(1, record.finishReasons.length);
}
