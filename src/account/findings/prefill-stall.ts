/**
 * Prefill insertion stalls (R20, R21): running streams stood still while their engine computed another request's prompt.
 * The record of each stream says by whom and for how long; here they are taken together, so that a busy server has one
 * finding and not one for each prompt. Pure.
 */
import type { PrefillStall } from '../../domain/record.ts';
import type { EnginePoint } from '../engines/engine-point.ts';
import type { Digest } from './digest.ts';
import type { Sighting } from './finding.ts';
import type { Said } from './ledger.ts';
import { preemptedWithin, preempting } from './preemption.ts';
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
  const preemptions = preempting(window);
  const held: Held[] = [];
  let decodeMs = 0;
  for (const stream of digests) {
    decodeMs += stream.decodeMs;
    for (const stall of stream.stalls) if (isCaused(stall, preemptions)) held.push({ stream, stall });
  }
  const worst = held.toSorted((a, b) => b.stall.durationMs - a.stall.durationMs)[0];
  if (worst === undefined) return undefined;
  const stalledMs = held.reduce((sum, { stall }) => sum + stall.durationMs, 0);
  const streams = new Set(held.map(({ stream }) => stream)).size;
  const share = decodeMs > 0 ? stalledMs / decodeMs : 0;
  const { stall, stream } = worst;
  const felt = stall.durationMs >= leastMs && stall.durationMs >= timesUsual * (stream.usualGapMs ?? 0);
  if (!felt && !(share >= leastShare && streams >= leastStreams)) return undefined;
  return {
    weight: stalledMs,
    says:
      `request ${stream.requestId} stood still for ${round(stall.durationMs)} ms while the engine computed ` +
      `the prompt of request ${stall.requestId}${sizeOf(stall.promptTokens)}`,
    evidence: {
      stalls: held.length,
      streams,
      stalledMs: round(stalledMs),
      decodePercent: round(100 * share, 1),
      worstMs: round(stall.durationMs),
      worstStream: stream.requestId,
      worstCause: stall.requestId,
      ...(stall.promptTokens === undefined ? {} : { worstPromptTokens: stall.promptTokens }),
    },
  };
}

function sizeOf(promptTokens: number | undefined): string {
  return promptTokens === undefined ? '' : ` (${promptTokens} computed tokens)`;
}

/** Computed prompt tokens of a request, by its id; undefined while they aren't known. */
export type ToldPrompts = (requestId: string) => number | undefined;

/** Streams mostly end before the request that held them up: what its prompt came to is known when it ends, too. */
export function withCauses(digest: Digest, told: ToldPrompts): Digest {
  if (!lacksCause(digest)) return digest;
  const stalls = digest.stalls.map((stall) => {
    const promptTokens = stall.promptTokens ?? told(stall.requestId);
    return promptTokens === undefined ? stall : { ...stall, promptTokens };
  });
  return { ...digest, stalls };
}

export function lacksCause({ stalls }: Digest): boolean {
  return stalls.some(({ promptTokens }) => promptTokens === undefined);
}

/** The same for what was said before it was known. @returns undefined: nothing new */
export function sayCause({ says, evidence }: Said, told: ToldPrompts): Said | undefined {
  const cause = evidence['worstCause'];
  if (typeof cause !== 'string' || evidence['worstPromptTokens'] !== undefined) return undefined;
  const worstPromptTokens = told(cause);
  if (worstPromptTokens === undefined) return undefined;
  return { says: says + sizeOf(worstPromptTokens), evidence: { ...evidence, worstPromptTokens } };
}

/** Of vLLM a prefill is known from its request's sending on, its time in the queue included: it is not always the cause. */
function isCaused({ atMs, durationMs, promptTokens }: PrefillStall, preemptions: readonly EnginePoint[]): boolean {
  const plausible = promptTokens === undefined || durationMs <= leastMs + slowestMsPerToken * promptTokens;
  return plausible && !preemptedWithin(preemptions, atMs, atMs + durationMs);
}
