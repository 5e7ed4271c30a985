/**
 * Prefill insertion stalls (R20, R21): running streams stood still while their engine computed another request's prompt.
 * The record of each stream says by whom and for how long; here they are taken together, so that a busy server has one
 * finding and not one for each prompt. Pure.
 */
import type { PrefillStall } from '../../domain/record.ts';
import type { Digest } from './digest.ts';
import type { Sighting } from './finding.ts';
import { preemptedWithin } from './preemption.ts';
import { lastDigests, round, type Window } from './window.ts';

const lookBackMs = 60_000;
/** One stall of this length is felt by a reader. */
const leastMs = 250;
const timesUsual = 4;
/** The slowest engine computes a prompt at 40 tokens/s: a short prompt that stands beside a long gap only waited, too. */
const slowestMsPerToken = 25;
/** Or so much of all decoding time went to stalls, over at least so many streams. */
const leastShare = 0.1;
const leastStreams = 3;

interface Held {
  readonly stream: Digest;
  readonly stall: PrefillStall;
}

export function findPrefillStall(window: Window): Sighting | undefined {
  const digests = lastDigests(window, lookBackMs);
  const held: Held[] = [];
  let decodeMs = 0;
  for (const stream of digests) {
    decodeMs += stream.decodeMs;
    for (const stall of stream.stalls) if (isCaused(stall, window)) held.push({ stream, stall });
  }
  const worst = held.toSorted((a, b) => b.stall.durationMs - a.stall.durationMs)[0];
  if (worst === undefined) return undefined;
  const stalledMs = held.reduce((sum, { stall }) => sum + stall.durationMs, 0);
  const streams = new Set(held.map(({ stream }) => stream)).size;
  const share = decodeMs > 0 ? stalledMs / decodeMs : 0;
  const { stall, stream } = worst;
  const felt = stall.durationMs >= leastMs && stall.durationMs >= timesUsual * (stream.usualGapMs ?? 0);
  if (!felt && !(share >= leastShare && streams >= leastStreams)) return undefined;
  const prompt =
    stall.promptTokens === undefined ? 'its prompt' : `its prompt of ${stall.promptTokens} computed tokens`;
  return {
    weight: stalledMs,
    says:
      `request ${stream.requestId} stood still for ${round(stall.durationMs)} ms while the engine computed ` +
      `request ${stall.requestId}: ${prompt}`,
    evidence: {
      stalls: held.length,
      streams,
      stalledMs: round(stalledMs),
      decodeShare: round(share, 3),
      worstMs: round(stall.durationMs),
      worstStream: stream.requestId,
      worstCause: stall.requestId,
      ...(stall.promptTokens === undefined ? {} : { worstPromptTokens: stall.promptTokens }),
    },
  };
}

/** Of vLLM a prefill is known from its request's sending on, its time in the queue included: it is not always the cause. */
function isCaused({ atMs, durationMs, promptTokens }: PrefillStall, window: Window): boolean {
  const plausible = promptTokens === undefined || durationMs <= leastMs + slowestMsPerToken * promptTokens;
  return plausible && !preemptedWithin(window, atMs, atMs + durationMs);
}
