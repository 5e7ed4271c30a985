/**
 * Smooth goodput: what an answer was worth to someone who reads it as it comes. Pure.
 *
 * Source: the idea of token deadlines and the reader's idle time is Wang et al., arXiv 2410.14257; this form is warmlane's:
 * the reader begins at T (the bound on the first token) and takes V for each token. With t_i the arrival of token i,
 *   p_0 = T;  p_i = max(p_{i−1} + V, t_i);  idle = max(0, p_n − (T + n·V));  benefit = n − α·idle,  α = 1/V unless given.
 * An answer that broke off or was left gives −α·idle, and its end stands for a token that never came: silence counts.
 */
import type { RequestRecord } from '../../domain/record.ts';
import { limitsOf } from './limits.ts';
import type { SloProfile } from './slo-settings.ts';
import { beginOf, endOf } from './time-spent.ts';

/**
 * 238 words a minute (Brysbaert, 2019, "How many words do we read per minute?", silent reading of English) at 4 tokens for
 * 3 words make 189 ms a token.
 */
export const usualReadTokenMs = 189;

export interface SmoothGoodput {
  /** Tokens that came, of several choices all; absent where nobody counted them. */
  readonly tokens?: number;
  /** The waiting that the reader felt. */
  readonly idleMs: number;
  /** Absent for a whole answer whose tokens nobody counted. */
  readonly benefitTokens?: number;
}

export function smoothGoodput(record: RequestRecord, profile: SloProfile): SmoothGoodput {
  const limits = limitsOf(profile, record);
  const readMs = profile.readTokenMs ?? limits.itl ?? limits.tpot ?? usualReadTokenMs;
  const beginMs = beginOf(record);
  const firstMs = limits.ttft ?? limits.ttfa ?? limits.e2e;
  const startMs = firstMs === undefined ? firstCame(record) : beginMs + firstMs;
  const whole = record.outcome === 'ok';
  const readers = readAll(record, startMs, readMs);
  const known = record.stamps !== undefined || record.tokens.output !== undefined;
  let tokens = 0;
  let idleMs = 0;
  for (const reader of readers) {
    tokens += reader.tokens;
    idleMs += reader.idleMs(whole ? undefined : endOf(record));
  }
  const cost = (idleMs / 1000) * (profile.waitCostTokensPerSecond ?? 1000 / readMs);
  if (!whole) return { ...(known ? { tokens } : {}), idleMs, benefitTokens: 0 - cost };
  return known ? { tokens, idleMs, benefitTokens: tokens - cost } : { idleMs };
}

function firstCame(record: RequestRecord): number {
  return (record.streamed ? record.timeline.firstToken : undefined) ?? endOf(record);
}

/** Reads one choice. */
class Reader {
  tokens = 0;
  readonly #startMs: number;
  readonly #readMs: number;
  /** When the latest token's turn was (p_i). */
  #playedMs: number;

  constructor(startMs: number, readMs: number) {
    this.#startMs = startMs;
    this.#readMs = readMs;
    this.#playedMs = startMs;
  }

  /** So many tokens come at once. */
  take(tokens: number, atMs: number): void {
    if (tokens <= 0) return;
    this.tokens += tokens;
    this.#playedMs = Math.max(this.#playedMs + this.#readMs, atMs) + (tokens - 1) * this.#readMs;
  }

  /** @param brokenMs when the answer ended without being whole */
  idleMs(brokenMs: number | undefined): number {
    const turnsMs = this.tokens * this.#readMs;
    if (brokenMs === undefined) return Math.max(0, this.#playedMs - (this.#startMs + turnsMs));
    const playedMs = Math.max(this.#playedMs + this.#readMs, brokenMs);
    return Math.max(0, playedMs - (this.#startMs + turnsMs + this.#readMs));
  }
}

/** Each choice has a reader of its own; there is at least one. */
function readAll(record: RequestRecord, startMs: number, readMs: number): Reader[] {
  const { stamps, timeline, marks } = record;
  const visible = visibleTokens(record) ?? 0;
  if (!record.streamed || stamps === undefined) {
    const reader = new Reader(startMs, readMs);
    reader.take(visible, (record.streamed ? timeline.lastToken : undefined) ?? endOf(record));
    return [reader];
  }
  const { atMs, choice, tokens } = stamps;
  const readers: (Reader | undefined)[] = [];
  const readerOf = (index: number) => (readers[index] ??= new Reader(startMs, readMs));
  const events = atMs.length;
  const capped = marks.includes('stamps_capped');
  // The events didn't tell: what the engine counted is spread over them evenly.
  const spread = tokens === undefined && !capped && visible > 0 ? visible : events;
  for (let i = 0; i < events; i += 1) {
    const even = spread === events ? 1 : Math.floor(((i + 1) * spread) / events) - Math.floor((i * spread) / events);
    readerOf(choice === undefined ? 0 : (choice[i] ?? 0)).take(
      tokens === undefined ? even : (tokens[i] ?? 0),
      atMs[i] ?? 0,
    );
  }
  if (capped) readerOf(choice?.[events - 1] ?? 0).take(visible - events, timeline.lastToken ?? endOf(record));
  return readers.filter((reader) => reader !== undefined);
}

/** Tokens that could be read, where somebody counted them. */
function visibleTokens({ tokens, marks }: RequestRecord): number | undefined {
  const { output, reasoning } = tokens;
  const hidden = marks.includes('hidden_reasoning') ? (reasoning?.value ?? 0) : 0;
  return output === undefined ? undefined : Math.max(0, output.value - hidden);
}
