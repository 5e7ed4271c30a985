/**
 * Goes away from requests, in each phase of their life, and looks at the engine's counters before, meanwhile and after.
 * Looks seldom: some engines notice a closed client only when nobody asks them anything (R13). Effects only.
 */
import type { Asker } from './asker.ts';
import { countingMessages } from './chat-body.ts';
import { fillerWords } from './words.ts';
import type { EngineCounters } from './counters.ts';
import { ttftOf } from './wire.ts';

export interface AbortSample {
  /** Since we went away. */
  readonly atMs: number;
  readonly counters: EngineCounters;
}

export interface AbortEvidence {
  readonly phase: 'decode' | 'prefill' | 'queued';
  readonly maxTokens: number;
  /** Token events that came before we went. */
  readonly tokensSeen: number;
  readonly before?: EngineCounters;
  readonly during?: EngineCounters;
  readonly after: readonly AbortSample[];
  /** Without counters: time to first token of a request right behind it. */
  readonly nextTtftMs?: number;
  /** queued: requests that were sent first, to take all slots. */
  readonly slots?: number;
}

export interface Pace {
  readonly ttftMs: number;
  readonly itlMs: number;
  /** Whole answers arrive at once: no token tells that one is under way. */
  readonly lumped?: boolean;
}

const looksMs = [300, 700, 1500, 3000] as const;
/** A prompt's batch may have to be finished first: on a CPU a thousand tokens take some seconds. */
const prefillLooksMs = [...looksMs, 5000, 8000, 12_000, 20_000] as const;
/** An abandoned request that runs on should be seen to do so. */
const wantedMs = 5000;

/** Answer long enough to be caught running, if its abort is lost. */
export function longAnswer({ itlMs }: Pace, contextTokens: number | undefined): number {
  const most = Math.min(3000, Math.floor((contextTokens ?? 2048) / 2));
  return Math.max(48, Math.min(most, Math.ceil(wantedMs / Math.max(itlMs, 0.1))));
}

export async function abortDecoding(asker: Asker, pace: Pace): Promise<AbortEvidence | undefined> {
  const maxTokens = longAnswer(pace, asker.endpoint.facts?.contextTokens);
  const before = await asker.endpoint.counters();
  let during: Promise<EngineCounters | undefined> | undefined;
  const call = asker.open(
    { messages: countingMessages(asker.nonce()), maxTokens, stream: true, promptTokens: 60 },
    {
      onToken(count) {
        if (count >= 3) during ??= asker.endpoint.counters();
      },
    },
  );
  if (call === undefined) return undefined;
  // Whichever comes first: the look at its counters, its end, or time enough: a hop that buffers shows no token.
  await Promise.race([call.done, untilLooked(asker, () => during), asker.pause(untilUnderway(pace))]);
  during ??= asker.endpoint.counters();
  await during;
  call.abort();
  const seen = await call.done;
  const known = { phase: 'decode' as const, maxTokens, tokensSeen: seen.tokenMs.length };
  if (before === undefined) {
    const next = await asker.chat({
      messages: countingMessages(asker.nonce()),
      maxTokens: 4,
      stream: true,
      promptTokens: 60,
    });
    const nextTtftMs = next === undefined ? undefined : ttftOf(next);
    return { ...known, after: [], ...(nextTtftMs === undefined ? {} : { nextTtftMs }) };
  }
  const meanwhile = await during;
  return {
    ...known,
    before,
    ...(meanwhile === undefined ? {} : { during: meanwhile }),
    after: await lookAfter(asker, before),
  };
}

/** Time in which a request will have begun, and not be over. */
function untilUnderway({ ttftMs, lumped }: Pace): number {
  return lumped === true ? wantedMs / 3 : 1500 + 3 * ttftMs;
}

async function untilLooked(asker: Asker, looked: () => Promise<unknown> | undefined): Promise<void> {
  const endMs = asker.clock.nowMs() + 30_000;
  while (looked() === undefined && asker.purse.leftMs() > 0 && asker.clock.nowMs() < endMs) await asker.pause(20);
  await looked();
}

export async function abortPrefill(asker: Asker, pace: Pace): Promise<AbortEvidence | undefined> {
  const before = await asker.endpoint.counters();
  if (before === undefined) return undefined;
  const { contextTokens } = asker.endpoint.facts ?? {};
  const promptTokens = prefillTokens(contextTokens);
  const room = contextTokens === undefined ? 2048 : contextTokens - promptTokens - 200;
  const maxTokens = Math.max(16, Math.min(longAnswer(pace, contextTokens), room));
  const nonce = asker.nonce();
  const content = `${nonce} ${fillerWords(nonce, promptTokens)}\nCount from 1 to 200.`;
  const call = asker.open(
    { messages: [{ role: 'user', content }], maxTokens, stream: true, promptTokens: promptTokens + 50 },
    { abortAfterMs: 60, abortAfterTokens: 1 },
  );
  if (call === undefined) return undefined;
  const seen = await call.done;
  const after = await lookAfter(asker, before, prefillLooksMs);
  return { phase: 'prefill', maxTokens, tokensSeen: seen.tokenMs.length, before, after };
}

export function prefillTokens(contextTokens: number | undefined): number {
  return Math.min(1000, Math.floor((contextTokens ?? 2048) / 2));
}

/** Takes every slot with a stream, then goes away from one more. */
export async function abortQueued(asker: Asker, pace: Pace, slots: number): Promise<AbortEvidence | undefined> {
  const before = await asker.endpoint.counters();
  if (before === undefined) return undefined;
  const maxTokens = longAnswer(pace, asker.endpoint.facts?.contextTokens);
  const ask = () => ({ messages: countingMessages(asker.nonce()), maxTokens, stream: true, promptTokens: 60 });
  const running = Array.from({ length: slots }, () => asker.open(ask()));
  try {
    await asker.pause(pace.lumped === true ? wantedMs / 3 : 400 + Math.min(3 * pace.ttftMs, wantedMs / 2));
    const queued = asker.open({ ...ask(), maxTokens: 16 });
    if (queued === undefined || running.includes(undefined)) return undefined;
    await asker.pause(400);
    const during = await asker.endpoint.counters();
    queued.abort();
    const seen = await queued.done;
    await asker.pause(1500);
    const counters = await asker.endpoint.counters();
    return {
      phase: 'queued',
      maxTokens,
      tokensSeen: seen.tokenMs.length,
      slots,
      before,
      ...(during === undefined ? {} : { during }),
      after: counters === undefined ? [] : [{ atMs: 1500, counters }],
    };
  } finally {
    for (const call of running) call?.abort();
  }
}

/** Until it runs no more than before, or long enough. */
async function lookAfter(
  asker: Asker,
  before: EngineCounters,
  moments: readonly number[] = looksMs,
): Promise<readonly AbortSample[]> {
  const leftMs = asker.clock.nowMs();
  const samples: AbortSample[] = [];
  for (const atMs of moments) {
    await asker.pause(atMs - (asker.clock.nowMs() - leftMs));
    const counters = await asker.endpoint.counters();
    if (counters === undefined) continue;
    samples.push({ atMs: Math.round(asker.clock.nowMs() - leftMs), counters });
    if ((counters.running ?? 0) <= (before.running ?? 0)) break;
  }
  return samples;
}
