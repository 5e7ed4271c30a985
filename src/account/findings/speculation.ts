/**
 * Speculative decoding, by the engine's own counters: that it is on, and how many of its proposals are accepted. And what
 * only the stream shows: several tokens in one event, which may come of speculation, of vLLM's `--stream-interval`, or of
 * something between that joins events; it is called by what was seen. Pure.
 */
import type { Sighting } from './finding.ts';
import { lastDigests, lastPoints, round, sumOf, type Window } from './window.ts';

const lookBackMs = 300_000;
/** So many tokens made without a draft since the last one: it is off. */
const offTokens = 64;
const leastEvents = 64;
const leastMean = 1.15;
const leastSeveralShare = 0.1;

export function findSpeculation(window: Window): Sighting | undefined {
  const points = lastPoints(window, lookBackMs);
  const last = points.findLastIndex(({ deltas }) => (deltas.drafts ?? 0) > 0 || (deltas.draftTokens ?? 0) > 0);
  if (last < 0) return undefined;
  if (sumOf(points.slice(last + 1), ({ deltas }) => deltas.generatedTokens) >= offTokens) return undefined;
  const drafts = sumOf(points, ({ deltas }) => deltas.drafts);
  const draftTokens = sumOf(points, ({ deltas }) => deltas.draftTokens);
  const accepted = sumOf(points, ({ deltas }) => deltas.acceptedTokens);
  const acceptance = draftTokens > 0 ? accepted / draftTokens : undefined;
  const perStep = drafts > 0 ? 1 + accepted / drafts : undefined;
  const share =
    acceptance === undefined ? 'acceptance is not told' : `${round(100 * acceptance)} % of its proposals accepted`;
  const steps = perStep === undefined ? '' : `, ${round(perStep, 2)} tokens per step`;
  return {
    weight: window.nowMs,
    says: `speculative decoding is on: ${share}${steps}`,
    evidence: {
      source: 'engine',
      drafts,
      ...(draftTokens > 0 ? { draftTokens, acceptedTokens: accepted } : {}),
      ...(acceptance === undefined ? {} : { acceptedPercent: round(100 * acceptance, 1) }),
      ...(perStep === undefined ? {} : { tokensPerStep: round(perStep, 2) }),
    },
  };
}

/** Not named where the engine's counters show that it speculates: then that is the name. */
export function findSeveralTokensPerEvent(window: Window): Sighting | undefined {
  if (findSpeculation(window) !== undefined) return undefined;
  let events = 0;
  let tokens = 0;
  let toldEvents = 0;
  let severalEvents = 0;
  for (const digest of lastDigests(window, lookBackMs)) {
    if (digest.eventTokens === undefined) continue;
    events += digest.events;
    tokens += digest.eventTokens;
    if (digest.severalEvents === undefined) continue;
    toldEvents += digest.events;
    severalEvents += digest.severalEvents;
  }
  if (events < leastEvents || tokens < leastMean * events) return undefined;
  if (toldEvents === events && severalEvents < leastSeveralShare * events) return undefined;
  const counters = lastPoints(window, lookBackMs).some(({ deltas }) => deltas.generatedTokens !== undefined);
  const cause = counters
    ? "the engine's counters show no speculation: perhaps --stream-interval"
    : 'speculation, --stream-interval, or something that joins events';
  return {
    weight: window.nowMs,
    says: `events carry ${round(tokens / events, 2)} tokens on average (${cause}); gaps between events are not gaps between tokens`,
    evidence: { source: 'stream', events, tokens, tokensPerEvent: round(tokens / events, 2) },
  };
}
