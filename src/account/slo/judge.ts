/**
 * One request against one profile: met, or which bounds it broke, by how much, in which phase. Pure.
 *
 * - ok: met when no bound is broken. A figure that isn't there since there was nothing to wait for (one token: no gap, no
 *   TPOT) passes its bound. A bound that such an answer can't have (TTFT of one that isn't streamed) is not looked at; where
 *   none could be looked at, the request isn't judged.
 * - failed by a backend's or warmlane's fault, refused a place, too late, cut at shutdown: not met, whatever its figures.
 * - left by its client: judged by what was there. Not met once it had waited past a bound; not judged when it left before all
 *   bounds could be known.
 * - the client's own error, or more than its key may ask: not judged.
 */
import type { SloBound, SloBreach, SloVerdict } from '../../domain/assessment.ts';
import { failedOutcomes, tenantLimits } from '../../domain/names.ts';
import type { RequestRecord } from '../../domain/record.ts';
import { gapShare, toleranceMs } from './gap-share.ts';
import { type Limits, limitsOf } from './limits.ts';
import type { SloProfile } from './slo-settings.ts';
import { smoothGoodput } from './smooth.ts';
import { beginOf, endOf, longestPhase, stalledMs } from './time-spent.ts';

/** `unasked`: such an answer has no such figure. `unknown`: it ended before that could be known. */
type Reading = SloBreach | 'within' | 'unknown' | 'unasked';

/** @returns undefined when the request can't be judged */
export function judge(record: RequestRecord, profile: SloProfile): SloVerdict | undefined {
  const { outcome, reason } = record;
  if (outcome === 'client_error' || (reason !== undefined && tenantLimits.has(reason))) return undefined;
  const limits = limitsOf(profile, record);
  const readings = readAll(record, limits, profile.itlShare);
  const breaches = readings.filter((reading) => typeof reading === 'object').toSorted(byExcess);
  if (!failedOutcomes.has(outcome)) {
    if (breaches.length === 0 && outcome === 'client_abort' && readings.includes('unknown')) return undefined;
    if (readings.every((reading) => reading === 'unasked')) return undefined;
  }
  const met = breaches.length === 0 && !failedOutcomes.has(outcome);
  const { benefitTokens } = smoothGoodput(record, profile);
  return { profile: profile.name, met, breaches, ...(benefitTokens === undefined ? {} : { benefitTokens }) };
}

function byExcess(a: SloBreach, b: SloBreach): number {
  return b.valueMs / Math.max(b.limitMs, toleranceMs) - a.valueMs / Math.max(a.limitMs, toleranceMs);
}

function readAll(record: RequestRecord, limits: Limits, itlShare: number): Reading[] {
  const readings: Reading[] = [];
  const { ttft, ttfa, itl, tpot, e2e } = limits;
  // What was never received whole can't have been late.
  if (record.timeline.receivedLast === undefined && record.outcome !== 'ok') return ['unknown'];
  if (ttft !== undefined) readings.push(readFirst(record, 'ttft', ttft));
  if (ttfa !== undefined) readings.push(readFirst(record, 'ttfa', ttfa));
  if (itl !== undefined) readings.push(readGaps(record, itl, itlShare));
  if (tpot !== undefined) readings.push(readTpot(record, tpot));
  if (e2e !== undefined) readings.push(readWhole(record, e2e));
  return readings;
}

/** A token that never came was waited for until the end. */
function readFirst(record: RequestRecord, bound: 'ttft' | 'ttfa', limitMs: number): Reading {
  if (!record.streamed) return 'unasked';
  const cameMs = bound === 'ttft' ? record.figures.ttftMs : record.figures.ttfaMs;
  return readWait(record, { bound, limitMs, cameMs });
}

function readWhole(record: RequestRecord, limitMs: number): Reading {
  const cameMs = record.outcome === 'ok' ? record.figures.e2eMs : undefined;
  return readWait(record, { bound: 'e2e', limitMs, cameMs });
}

function readWait(
  record: RequestRecord,
  { bound, limitMs, cameMs }: { bound: SloBound; limitMs: number; cameMs: number | undefined },
): Reading {
  const valueMs = cameMs ?? record.figures.durationMs;
  if (valueMs > limitMs + toleranceMs)
    return { bound, limitMs, valueMs, phase: longestPhase(record, beginOf(record) + valueMs) };
  return cameMs === undefined && record.outcome !== 'ok' ? 'unknown' : 'within';
}

function readGaps(record: RequestRecord, limitMs: number, leastShare: number): Reading {
  if (!record.streamed) return 'unasked';
  const share = gapShare(record, limitMs, pendingMs(record));
  if (share.gaps === 0) return record.outcome === 'ok' ? 'within' : 'unknown';
  if (share.within + 1e-9 >= leastShare * share.gaps) return 'within';
  return {
    bound: 'itl',
    limitMs,
    valueMs: share.largestMs,
    phase: decodePhase(record, share.excessMs),
    shareWithin: share.within / share.gaps,
  };
}

function readTpot(record: RequestRecord, limitMs: number): Reading {
  const { figures, outcome } = record;
  if (!record.streamed) return 'unasked';
  const valueMs = Math.max(figures.tpotMs ?? 0, leastTpotMs(record));
  if (valueMs > limitMs + toleranceMs) {
    const steps = Math.max(1, (record.tokens.output?.value ?? record.events) - 1);
    return { bound: 'tpot', limitMs, valueMs, phase: decodePhase(record, (valueMs - limitMs) * steps) };
  }
  if (figures.tpotMs !== undefined) return 'within';
  if (outcome !== 'ok') return 'unknown';
  return figures.tpotWindow === 'none_single_token' || record.events <= 1 ? 'within' : 'unasked';
}

/** Of a stream that ended early: as if its next token had come at that moment. */
function leastTpotMs(record: RequestRecord): number {
  const { timeline, events, tokens, outcome } = record;
  if (outcome === 'ok' || timeline.firstToken === undefined || events === 0) return 0;
  return (endOf(record) - timeline.firstToken) / Math.max(events, tokens.output?.value ?? 0);
}

function pendingMs(record: RequestRecord): number | undefined {
  const { lastToken } = record.timeline;
  return record.outcome === 'ok' || lastToken === undefined ? undefined : endOf(record) - lastToken;
}

function decodePhase(record: RequestRecord, excessMs: number): 'decode' | 'stalled' {
  const lostMs = stalledMs(record, endOf(record));
  return lostMs > 0 && lostMs >= excessMs / 2 ? 'stalled' : 'decode';
}
