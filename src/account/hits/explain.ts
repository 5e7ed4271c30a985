/**
 * One request explained: who was considered, what each would have cost, why it went where it went, what was predicted and
 * what came. From its record alone, so it can be told as long as the record is kept. Pure.
 */
import type { FailedAttempt, RequestRecord } from '../../domain/record.ts';
import type { ConsideredBackend, RouteCost, RouteNote } from '../../domain/routing.ts';
import { decisionText } from './decision-text.ts';
import { missedView } from './hits-view.ts';
import { placeText } from './place-text.ts';

export function explained(record: RequestRecord): object {
  const { requestId, startedAtEpochMs, routing, tokens, outcome, model, backend, engine } = record;
  const told = record.assessment?.missed;
  return {
    requestId,
    startedAt: new Date(startedAtEpochMs).toISOString(),
    outcome,
    model,
    backend,
    engine,
    says: decisionText(record),
    decision: { reason: record.routeReason, ...(routing === undefined ? {} : decisionOf(routing, backend)) },
    told: {
      promptTokens: tokens.prompt?.value,
      deliveredTokens: tokens.cached?.value,
      clamped: record.marks.includes('cached_clamped') ? true : undefined,
    },
    missed: told === undefined ? undefined : missedOf(told),
    divergence: routing?.divergence === undefined ? undefined : divergenceOf(routing.divergence),
    attempts: attemptsOf(record),
    times: timesOf(record),
  };
}

function decisionOf(note: RouteNote, sentTo: string | undefined): object {
  const { policy, promptTokens, reusableTokens, reusableAt, predictedTokens, cause, cost, considered } = note;
  return {
    policy,
    promptTokens,
    reusableTokens,
    reusableAt,
    predictedTokens,
    cause,
    cost: cost === undefined ? undefined : costView(cost),
    considered: considered?.map((one) => consideredView(one, sentTo)),
  };
}

function consideredView(one: ConsideredBackend, sentTo: string | undefined): object {
  const { backend, heldTokens, cost, weight, startsSlowly, left } = one;
  return {
    backend,
    sentThere: backend === sentTo ? true : undefined,
    heldTokens,
    cost: cost === undefined ? undefined : costView(cost),
    weight,
    startsSlowly,
    left,
  };
}

function costView({ total, queue, slot, prefill, copy, stall, decode, burden, network, bonus }: RouteCost): object {
  return {
    totalSeconds: total,
    queueSeconds: queue,
    slotSeconds: slot,
    prefillSeconds: prefill,
    copySeconds: copy,
    stallSeconds: stall,
    decodeSeconds: decode,
    burdenSeconds: burden,
    networkSeconds: network,
    bonusSeconds: bonus,
  };
}

function missedOf(missed: NonNullable<NonNullable<RequestRecord['assessment']>['missed']>): object {
  return missedView((cause) => missed.find((one) => one.cause === cause)?.tokens ?? 0);
}

function divergenceOf(place: NonNullable<RouteNote['divergence']>): object {
  return { place: placeText(place), ...place };
}

/** In order; the last one ended as the request did, unless it is among those that failed. */
function attemptsOf({ failedAttempts = [], attempts, backend, outcome, reason }: RequestRecord): readonly object[] {
  const failed: readonly FailedAttempt[] = failedAttempts;
  return failed.length >= attempts || backend === undefined ? failed : [...failed, { backend, outcome, reason }];
}

function timesOf({ figures }: RequestRecord): object {
  const { queueMs, connectMs, overheadMs, upstreamTtftMs, ttftMs, prefillMs, prefillKind, durationMs } = figures;
  return { queueMs, connectMs, overheadMs, upstreamTtftMs, ttftMs, prefillMs, prefillKind, durationMs };
}
