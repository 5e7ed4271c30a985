/**
 * Hands out permits: what is booked when a job gets a place, what its first token changes, and what its settling gives back.
 * Whom to give which place is decided before (`serving.ts`).
 */
import type { Errand } from '../domain/routing.ts';
import type { Clock } from '../platform/clock.ts';
import { learnPlace } from './forecast.ts';
import { type Loads, Share, slotsOf } from './load.ts';
import type { Granted, OwnerDeps, Permit, RankedTarget } from './owner.ts';
import type { Reclaims } from './reclaim.ts';
import type { Waiter } from './waiter.ts';
import type { Fairness } from './fairness.ts';

export interface GrantingDeps {
  readonly clock: Clock;
  readonly sent: OwnerDeps['sent'] | undefined;
  readonly loads: Loads;
  readonly reclaims: Reclaims;
  /** Of the job's lane. */
  readonly fairness: (waiter: Waiter) => Fairness;
  /** What runs there only while nobody else does is told to leave. */
  readonly makeWay: (backend: string) => void;
  /** Somebody may be able to start now. */
  readonly changed: () => void;
}

/** @returns gives a job its place and answers it; it doesn't wait any more by then */
export function createGranting(deps: GrantingDeps): (waiter: Waiter, target: RankedTarget) => void {
  const { clock, loads, reclaims } = deps;
  let grants = 0;

  return (waiter, target) => {
    const { ask } = waiter;
    const { job } = ask;
    const { name } = target.backend;
    const slots = slotsOf(job, target.backend);
    const held = loads.heldOn(target.backend);
    const grantedMs = clock.nowMs();
    if (job.generates) deps.makeWay(name);
    const share = new Share(held, job, slots);
    let open = true;
    const decoding = () => {
      if (!open || !share.decoding(clock.nowMs())) return;
      errand?.computed?.();
      deps.changed();
    };
    const granted: Granted = {
      load: held.load,
      computed: decoding,
      overdue() {
        if (share.overdue()) deps.changed();
      },
      used: (told) => bill.correct(told),
    };
    const errand: Errand | undefined = job.generates ? deps.sent?.(ask, target, granted) : undefined;
    const order = (grants += 1);
    share.begin(errand, order);
    const bill = deps.fairness(waiter).charge(waiter.tenant, ask, errand?.uncachedTokens ?? waiter.tokens);
    const running =
      job.lane === 'batch' && ask.reclaim !== undefined
        ? reclaims.started(held, ask.reclaim, {
            slots,
            order,
            share,
            sentMs: grantedMs,
            promptMs: errand?.promptMs ?? 0,
          })
        : undefined;
    if (job.lane !== 'batch' && job.generates) {
      held.disturbedMs = grantedMs;
      reclaims.forPrompt(target.backend, held, { ttftBoundMs: ask.ttftBoundMs, nowMs: grantedMs });
    }
    const permit: Permit = {
      backend: target.backend,
      reason: target.reason,
      slots,
      waitedMs: grantedMs - waiter.sinceMs,
      ...(errand === undefined ? {} : { errand }),
      decoding,
      settle(used) {
        if (!open) return;
        open = false;
        share.end();
        if (running !== undefined) reclaims.ended(held, running);
        if (used !== undefined) bill.correct(used);
        if (job.generates && running?.taken !== true) learnPlace(held, clock.nowMs() - grantedMs);
        loads.released(name, held);
        deps.changed();
      },
    };
    waiter.answer(permit);
  };
}
