/**
 * What a finished request tells of its decoding, in the few numbers that the concurrency table (here and in a report), the
 * ceiling and the prefill rate all need. Pure; undefined where the request doesn't say enough.
 */
import type { RequestRecord } from '../domain/record.ts';

/** A decoded stream as the concurrency table counts it. */
export interface DecodedStream {
  readonly backend: string;
  /** Choices that decoded side by side. */
  readonly sequences: number;
  /** Mean number of sequences that decoded on the backend meanwhile. */
  readonly concurrency: number;
  /** First token → last token. */
  readonly seconds: number;
  /** Tokens of all its choices after their first ones. */
  readonly tokens: number;
  readonly tpotSeconds: number;
  /** The backend's first answer after its start. */
  readonly cold: boolean;
}

export interface Decoded extends DecodedStream {
  /** One step of the engine, as seen from outside: TPOT, or the mean gap where events carry several tokens. */
  readonly stepSeconds: number;
}

/** As a record or its log line has them; absent: not known. */
export interface DecodeFacts {
  readonly backend: string | undefined;
  readonly warmth: string;
  /** Choices that finished. */
  readonly choices: number;
  readonly concurrency: number | undefined;
  /** First token → last token, ms. */
  readonly decodeMs: number | undefined;
  readonly outputTokens: number | undefined;
  readonly tpotMs: number | undefined;
}

/**
 * Records marked `loop_lag` count: over a whole stream a lag of milliseconds is little, and long streams all see one.
 * @returns undefined without at least one step that can be timed
 */
export function decodedOf(record: RequestRecord): Decoded | undefined {
  const { timeline, figures, tokens, marks } = record;
  const { firstToken, lastToken } = timeline;
  const stream = decodedStream({
    backend: record.backend,
    warmth: record.warmth,
    choices: record.finishReasons.length,
    concurrency: record.assessment?.decodeConcurrency,
    decodeMs: firstToken === undefined || lastToken === undefined ? undefined : lastToken - firstToken,
    outputTokens: tokens.output?.value,
    tpotMs: figures.tpotMs,
  });
  if (stream === undefined) return undefined;
  const { backend, sequences, concurrency, seconds, tpotSeconds, cold } = stream;
  const gaps = record.events - sequences;
  const several = marks.includes('several_tokens_per_event') && gaps > 0;
  const stepSeconds = several ? (seconds * sequences) / gaps : tpotSeconds;
  return { backend, sequences, concurrency, seconds, tokens: stream.tokens, tpotSeconds, cold, stepSeconds };
}

export function decodedStream(facts: DecodeFacts): DecodedStream | undefined {
  const { backend, warmth, concurrency, decodeMs, outputTokens, tpotMs } = facts;
  if (backend === undefined || concurrency === undefined || outputTokens === undefined) return undefined;
  if (decodeMs === undefined || decodeMs <= 0 || tpotMs === undefined || warmth === 'replayed') return undefined;
  const sequences = Math.max(1, facts.choices);
  return {
    backend,
    sequences,
    concurrency: Math.max(concurrency, sequences),
    seconds: decodeMs / 1000,
    tokens: Math.max(0, outputTokens - sequences),
    tpotSeconds: tpotMs / 1000,
    cold: warmth === 'cold_start',
  };
}

/** A record names each choice that finished. */
export function sequencesOf(record: RequestRecord): number {
  return Math.max(1, record.finishReasons.length);
}
