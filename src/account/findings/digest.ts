/**
 * What the detectors need of a finished request, in one pass over its stamps: its place in time, its gaps, and how its
 * tokens came. Pure, and small enough to be kept by the hundred.
 */
import type { PrefillStall, RequestRecord, TokenStamps } from '../../domain/record.ts';

export interface Gap {
  /** of the token before it */
  readonly atMs: number;
  readonly gapMs: number;
}

export interface Digest {
  readonly requestId: string;
  readonly fromMs: number;
  readonly endMs: number;
  /** first → last token */
  readonly decodeMs: number;
  /** mean gap without the largest one; absent with fewer than three gaps */
  readonly usualGapMs?: number;
  readonly largestGap?: Gap;
  readonly stalls: readonly PrefillStall[];
  /** How its tokens came; absent where that says nothing of the way (too few, several choices, our own lag). */
  readonly arrival?: 'spread' | 'burst' | 'lumps';
  /** For `burst` and `lumps`. */
  readonly waitMs: number;
  readonly events: number;
  /** Tokens of these events, and events of several tokens; absent unless it is known for certain. */
  readonly eventTokens?: number;
  readonly severalEvents?: number;
  /** Prompt and answer; where the prompt's tokens weren't told, a quarter of its bytes. */
  readonly contextTokens: number;
  /** Prompt tokens that were computed for it; absent where nobody told. */
  readonly computedTokens?: number;
  /** It failed while its answer was under way. */
  readonly brokeOff: boolean;
}

/** An answer of fewer events may well come at once. */
const leastEvents = 8;
/** Of an answer that came in lumps. */
const leastLumpEvents = 48;
const lumpEvents = 8;
/** A shorter wait may be a short prefill. */
const leastWaitMs = 200;
/** No engine decodes one stream faster than this. */
const fastestMsPerToken = 0.4;

export function digestOf(record: RequestRecord): Digest | undefined {
  const { timeline, stamps, figures, tokens } = record;
  const fromMs = timeline.sent;
  if (fromMs === undefined) return undefined;
  const atMs = stamps?.atMs;
  const firstMs = atMs?.[0];
  const lastMs = atMs?.at(-1);
  const waitMs = firstMs === undefined ? 0 : firstMs - fromMs;
  const seen = stamps === undefined ? undefined : gapsOf(stamps);
  const arrival = stamps === undefined || seen === undefined ? undefined : arrivalOf(record, stamps, seen.moments);
  const counted = eventTokensOf(record);
  const broken = record.outcome === 'upstream_error' || record.outcome === 'upstream_truncated';
  return {
    requestId: record.requestId,
    fromMs,
    endMs: timeline.end ?? lastMs ?? fromMs + figures.durationMs,
    decodeMs: firstMs === undefined || lastMs === undefined ? 0 : lastMs - firstMs,
    stalls: record.stalls ?? [],
    waitMs,
    events: record.events,
    contextTokens: (tokens.prompt?.value ?? (record.requestBytes ?? 0) / 4) + record.events,
    brokeOff: broken && record.events > 0,
    ...(tokens.prompt === undefined ? {} : { computedTokens: tokens.prompt.value - (tokens.cached?.value ?? 0) }),
    ...(seen?.largest === undefined ? {} : { largestGap: seen.largest }),
    ...(seen?.usualMs === undefined ? {} : { usualGapMs: seen.usualMs }),
    ...(arrival === undefined ? {} : { arrival }),
    ...counted,
  };
}

interface Gaps {
  readonly largest: Gap | undefined;
  readonly usualMs: number | undefined;
  /** distinct moments at which tokens came */
  readonly moments: number;
}

/** Gaps between moments, whatever choice: while one choice's tokens come, the engine doesn't stand still. */
function gapsOf({ atMs }: TokenStamps): Gaps {
  let moments = atMs.length === 0 ? 0 : 1;
  let largestMs = 0;
  let largestAtMs = 0;
  let before = atMs[0] ?? 0;
  for (let i = 1; i < atMs.length; i += 1) {
    const at = atMs[i] ?? 0;
    const gapMs = at - before;
    if (gapMs > 0) moments += 1;
    if (gapMs > largestMs) {
      largestMs = gapMs;
      largestAtMs = before;
    }
    before = at;
  }
  const wholeMs = before - (atMs[0] ?? 0);
  return {
    moments,
    largest: largestMs > 0 ? { atMs: largestAtMs, gapMs: largestMs } : undefined,
    usualMs: moments < 4 ? undefined : (wholeMs - largestMs) / (moments - 2),
  };
}

function arrivalOf(record: RequestRecord, stamps: TokenStamps, moments: number): Digest['arrival'] {
  const { atMs, choice } = stamps;
  const events = atMs.length;
  const { marks, timeline, warmth } = record;
  const sayNothing = marks.includes('loop_lag') || marks.includes('fewer_events_than_tokens') || warmth === 'replayed';
  if (!record.streamed || choice !== undefined || events < leastEvents || sayNothing) return undefined;
  const at = (share: number) => atMs[Math.min(events - 1, Math.max(0, Math.round(share * (events - 1))))] ?? 0;
  // Nine of ten at the end, or nine of ten at the beginning: one event may have come apart from the others.
  const spanMs = Math.min(at(1) - at(0.1), at(0.9) - at(0));
  const burstStart = at(1) - at(0.1) <= at(0.9) - at(0) ? at(0.1) : at(0);
  const waitMs = burstStart - (timeline.sent ?? burstStart);
  const atOnce = spanMs <= fastestMsPerToken * 0.9 * events;
  if (atOnce && waitMs >= leastWaitMs && spanMs * 20 <= waitMs) return 'burst';
  const wholeMs = at(1) - at(0);
  if (events >= leastLumpEvents && moments * lumpEvents <= events && wholeMs >= leastWaitMs) return 'lumps';
  return 'spread';
}

/** Tokens for sure: told event by event, or counted by the engine and known to be in the events. */
function eventTokensOf(record: RequestRecord): { eventTokens?: number; severalEvents?: number } {
  const { marks, stamps, tokens, events } = record;
  if (!record.streamed || events === 0) return {};
  if (marks.includes('fewer_events_than_tokens') || marks.includes('hidden_reasoning')) return {};
  const told = stamps?.tokens;
  if (told !== undefined) {
    let sum = 0;
    let several = 0;
    for (const count of told) {
      sum += count;
      if (count > 1) several += 1;
    }
    return { eventTokens: sum, severalEvents: several };
  }
  // The end token has no event of its own: without the mark, events and tokens are one for one.
  if (!marks.includes('several_tokens_per_event')) return { eventTokens: events, severalEvents: 0 };
  const output = tokens.output;
  return output === undefined || output.source === 'events_estimate' ? {} : { eventTokens: output.value };
}
