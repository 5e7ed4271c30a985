/**
 * Who of those that wait may start: walks the queue whenever something has changed. Online jobs first, then batch; before both
 * what a minimum share guarantees batch, and between online jobs those of batch that have waited for too long.
 * A job that can't start yet claims the backends that it waits for: those that come after it, and all of batch behind an online
 * one, get no place there. Decides only; `granting.ts` books.
 */
import type { BackendView } from '../domain/fleet.ts';
import type { Job } from '../domain/job.ts';
import { isRefusal } from '../domain/refusal.ts';
import type { Clock, Timer } from '../platform/clock.ts';
import {
  type BatchStand,
  type Demand,
  isAllowed,
  isShort,
  mayStart,
  openRule,
  settlesIn,
  shareOf,
} from './batch-room.ts';
import type { LaneQueue } from './lane-queue.ts';
import type { LaneSettings } from './lane-settings.ts';
import { hasRoom, type Loads } from './load.ts';
import type { LoadView, OwnerDeps, RankedTarget } from './owner.ts';
import { createQuiet } from './quiet.ts';
import { isOrdinary, modelOf, type Waiter } from './waiter.ts';

/** By backend, how many wait for a place there. */
type Claims = Map<string, number>;
type ClaimsView = ReadonlyMap<string, number>;

const none: ClaimsView = new Map();

export interface Serving {
  /** Grants or refuses at once if it can. @returns false when the job must wait */
  tryNow(waiter: Waiter): boolean;
  /** It waits from now on, for what it wanted at its last attempt. */
  claim(waiter: Waiter): void;
  /** It may not be tried by itself: others must be looked at with it. */
  isServedInTurn(waiter: Waiter): boolean;
  /** It waits already, as of now: all are looked at, and it as well. */
  serveNew(waiter: Waiter): void;
  /** Somebody may be able to start. */
  serve(): void;
  /** Who may take which job may be another matter now: each is chosen for, if only to be refused. */
  fleetChanged(): void;
  isWanted(backend: string): boolean;
}

export interface ServingDeps extends Pick<OwnerDeps, 'fleet' | 'choose'> {
  readonly clock: Clock;
  readonly batchOn: OwnerDeps['batchOn'];
  readonly lanes: () => LaneSettings;
  readonly loads: Loads;
  readonly online: LaneQueue;
  readonly batch: LaneQueue;
  readonly grant: (waiter: Waiter, target: RankedTarget) => void;
  /** Online jobs wait that batch could make room for. */
  readonly reclaim: () => void;
}

/** Batch jobs of one line that a walk passes; those behind them want much the same. Choosing for thousands would hold up the streams. */
const mostPassed = 16;
/** The least that a batch job takes, with and without a place. */
const leastDemand: Demand = { generates: true, endpoint: 'chat', choices: 1 };
const lightDemand: Demand = { generates: false, endpoint: 'embeddings', choices: 1 };

export function createServing(deps: ServingDeps): Serving {
  const { clock, fleet, choose, lanes, loads, online, batch, grant } = deps;
  /** What online jobs wait for, and batch jobs whose turn is before theirs. */
  let claimed: Claims = new Map();
  /** The same and what batch waits for; the same map while no batch job waits. */
  let claimedInAll: Claims = claimed;
  /** Set for the earliest moment at which somebody's choice is to be made anew. */
  let wake: { readonly atMs: number; readonly timer: Timer } | undefined;
  let serving = false;
  let again = false;
  let changed = false;

  const waiting = () => online.jobs + batch.jobs;
  const laneOf = ({ ask }: Waiter) => (ask.job.lane === 'batch' ? batch : online);
  const quiet = createQuiet({ clock, fleet, lanes, standOf, wakeIn });

  function standOf(backend: BackendView): BatchStand {
    const stand = {
      rule: deps.batchOn?.(backend.name) ?? openRule,
      share: shareOf(backend, lanes()),
      held: loads.held(backend.name),
      load: loads.of(backend.name),
      nowMs: clock.nowMs(),
    };
    const settlesMs = settlesIn(stand);
    if (settlesMs > 0) wakeIn(settlesMs);
    return stand;
  }

  /** One that is on trial has one job at a time, of whichever lane. */
  function loadFor({ lane }: Job): (backend: string) => LoadView {
    const seesAll = lane === 'batch' || fleet().backends.some(({ onTrial }) => onTrial === true);
    return seesAll ? loads.of : loads.withoutBatch;
  }

  function isFreeForBatch(waiter: Waiter, backend: BackendView, ifShort: boolean): boolean {
    const stand = standOf(backend);
    return (!ifShort || isShort(stand)) && quiet.isEnough(waiter, stand) && mayStart(waiter.ask.job, backend, stand);
  }

  /**
   * @param ifShort only where batch has less than its guaranteed share
   * @returns false when the job must wait
   */
  function attempt(waiter: Waiter, blocked: ClaimsView, ifShort = false): boolean {
    const waitedMs = clock.nowMs() - waiter.sinceMs;
    const choice = choose(waiter.ask, loadFor(waiter.ask.job), { waitedMs, ahead: blocked });
    if (isRefusal(choice)) {
      settle(waiter);
      waiter.answer(choice);
      return true;
    }
    waiter.wants = choice.ranked;
    waiter.holds = choice.hold;
    waiter.chosenUntilMs = clock.nowMs() + (choice.againMs ?? Infinity);
    waiter.noisyUntilMs = -Infinity;
    const { job } = waiter.ask;
    for (const target of choice.ranked) {
      const { backend } = target;
      if (job.generates && (choice.hold || blocked.has(backend.name))) continue;
      const isFree =
        job.lane === 'batch'
          ? isFreeForBatch(waiter, backend, ifShort)
          : !job.generates || hasRoom(backend, loads.of(backend.name), job);
      if (!isFree) continue;
      settle(waiter);
      grant(waiter, target);
      return true;
    }
    if (choice.againMs !== undefined) wakeIn(choice.againMs);
    return false;
  }

  /** It is to be answered now: nothing that its asker does meanwhile may find it in the queue. */
  function settle(waiter: Waiter): void {
    waiter.timer?.cancel();
    laneOf(waiter).remove(waiter);
  }

  function wakeIn(ms: number): void {
    const atMs = clock.nowMs() + Math.max(1, ms);
    if (wake !== undefined && wake.atMs <= atMs) return;
    wake?.timer.cancel();
    const timer = clock.timer(Math.max(1, ms), () => {
      wake = undefined;
      serve();
    });
    wake = { atMs, timer };
  }

  function rest(): void {
    if (waiting() > 0) return;
    if (claimedInAll.size > 0) {
      claimed = new Map();
      claimedInAll = claimed;
    }
    wake?.timer.cancel();
    wake = undefined;
  }

  function serve(): void {
    // A refusal or grant may settle another permit inside: that must not walk the queue a second time underneath.
    if (serving) {
      again = true;
      return;
    }
    if (waiting() === 0) return rest();
    serving = true;
    try {
      do {
        again = false;
        walk();
        deps.reclaim();
      } while (again);
    } finally {
      serving = false;
      rest();
    }
  }

  function walk(): void {
    const { minShare, agingMs } = lanes().batch;
    const mayPass = !changed;
    changed = false;
    claimed = new Map();
    claimedInAll = claimed;
    online.begin();
    batch.begin();
    if (minShare > 0 && batch.jobs > 0) {
      walkBatch(claimed, { ifShort: true, mayPass: true });
      batch.begin();
    }
    walkOnline(claimed, { mayPass, agingMs });
    if (batch.jobs === 0) return;
    if (agingMs > 0) batch.begin();
    claimedInAll = new Map(claimed);
    walkBatch(claimedInAll, { ifShort: false, mayPass });
    // Left early: all are still to be chosen for.
    if (again && !mayPass) changed = true;
    if (agingMs > 0 && online.jobs > 0) wakeIn(nextAgedMs(agingMs));
  }

  function walkOnline(blocked: Claims, { mayPass, agingMs }: { readonly mayPass: boolean; readonly agingMs: number }) {
    /** Models whose jobs can't start: of a long queue for one of them only the first few are chosen for. */
    const stuck = new Set<string>();
    const isBlocked = ({ name }: BackendView) => blocked.has(name);
    while (!mayPass || blocked.size < fleet().backends.length) {
      const waiter = online.next();
      if (waiter === undefined) return;
      if (agingMs > 0 && serveAged(waiter.sinceMs, blocked, agingMs)) continue;
      const mayBeStuck = mayPass && isOrdinary(waiter.ask);
      const model = modelOf(waiter.ask.job);
      if (mayBeStuck && stuck.has(model)) {
        skip(online, waiter);
        continue;
      }
      online.step(waiter);
      if (attempt(waiter, blocked)) continue;
      online.pass(waiter);
      for (const { backend } of waiter.wants) count(blocked, backend.name);
      if (mayBeStuck && fleet().backends.length > 1 && isStuck(waiter, isBlocked)) stuck.add(model);
    }
  }

  /** The batch job that waits longest goes before an online one that came after it, if it has waited for long enough. */
  function serveAged(sinceMs: number, blocked: Claims, agingMs: number): boolean {
    const waiter = batch.oldest();
    if (waiter === undefined || waiter.sinceMs >= sinceMs || clock.nowMs() - waiter.sinceMs < agingMs) return false;
    if ((waiter.line?.passed ?? 0) >= mostPassed) {
      batch.skipLine(waiter);
      return true;
    }
    batch.step(waiter);
    if (attempt(waiter, blocked)) return true;
    batch.pass(waiter);
    claimFor(waiter, blocked, isWaitingForRoom(waiter));
    return true;
  }

  function walkBatch(blocked: Claims, { ifShort, mayPass }: { readonly ifShort: boolean; readonly mayPass: boolean }) {
    quiet.begin();
    const stuck = new Set<string>();
    const isShut = (backend: BackendView) => {
      const stand = standOf(backend);
      if (ifShort && !isShort(stand)) return true;
      if (batch.light > 0) return !isAllowed(lightDemand, backend, stand);
      return blocked.has(backend.name) || !mayStart(leastDemand, backend, stand);
    };
    const isOver = () => mayPass && fleet().backends.every(isShut);
    // Whoever was answered may have asked for more, or have left: online jobs have their turn before batch goes on.
    while (!again && !isOver()) {
      const waiter = batch.next();
      if (waiter === undefined) return;
      if (mayPass && quiet.isTooSoon(waiter, isShut, ifShort)) {
        batch.step(waiter);
        continue;
      }
      const mayBeStuck = mayPass && isOrdinary(waiter.ask);
      const model = modelOf(waiter.ask.job);
      if (mayBeStuck && !stuck.has(model) && isStuck(waiter, isShut)) stuck.add(model);
      if ((mayBeStuck && stuck.has(model)) || (waiter.line?.passed ?? 0) >= mostPassed) {
        skip(batch, waiter);
        continue;
      }
      batch.step(waiter);
      if (attempt(waiter, blocked, ifShort)) continue;
      const isForRoom = isWaitingForRoom(waiter);
      const isForQuiet = isWaitingForQuiet(waiter);
      // Those behind one that waits for quiet may want none.
      if (!quiet.failed(waiter)) batch.pass(waiter);
      claimFor(
        waiter,
        blocked,
        ifShort ? (backend) => isShort(standOf(backend)) && isForRoom(backend) : (backend) => !isForQuiet(backend),
      );
    }
  }

  function claimFor({ wants }: Waiter, blocked: Claims, claims: (backend: BackendView) => boolean): void {
    for (const { backend } of wants) if (claims(backend)) count(blocked, backend.name);
  }

  /** Where cap, gate or want of quiet keep it from starting it must not keep online ones from it. */
  function isWaitingForRoom(waiter: Waiter): (backend: BackendView) => boolean {
    const { job } = waiter.ask;
    return (backend) => {
      const stand = standOf(backend);
      return !waiter.holds && job.generates && quiet.isEnough(waiter, stand) && isAllowed(job, backend, stand);
    };
  }

  /** One long prompt that waits for quiet must not keep all other batch jobs waiting for it. */
  function isWaitingForQuiet(waiter: Waiter): (backend: BackendView) => boolean {
    return (backend) => (waiter.ask.promptsTaken ?? 0) > 0 && !quiet.isEnough(waiter, standOf(backend));
  }

  function skip(lane: LaneQueue, waiter: Waiter): void {
    // The others of such a line want what this one does; those that lost a place are of all kinds.
    if (waiter.line?.isFirst === true) lane.step(waiter);
    else lane.skipLine(waiter);
  }

  /** Everybody who could take this job is not to be had: it can't start, whatever would be chosen. */
  function isStuck({ ask }: Waiter, isOut: (backend: BackendView) => boolean): boolean {
    const model = ask.job.servedModel ?? ask.job.model;
    let able = 0;
    for (const backend of fleet().backends) {
      const { models } = backend;
      if (model !== undefined && models.length > 0 && !models.includes(model)) continue;
      if (!isOut(backend)) return false;
      able += 1;
    }
    return able > 0;
  }

  /** Until the next first one of a line is old enough. */
  function nextAgedMs(agingMs: number): number {
    let leastMs = agingMs;
    for (const { first } of batch.lines) {
      const leftMs = agingMs - (clock.nowMs() - (first?.sinceMs ?? Infinity));
      if (leftMs > 0 && leftMs < leastMs) leastMs = leftMs;
    }
    return leastMs;
  }

  function tryNow(waiter: Waiter): boolean {
    const { job, again: isAgain } = waiter.ask;
    if (job.lane === 'batch') return attempt(waiter, isAgain ? claimed : claimedInAll);
    return attempt(waiter, isAgain ? none : claimed);
  }

  function claim(waiter: Waiter): void {
    const { ask, wants } = waiter;
    const isBatch = ask.job.lane === 'batch';
    if (isBatch && claimedInAll === claimed) claimedInAll = new Map(claimed);
    const isForQuiet = isWaitingForQuiet(waiter);
    for (const { backend } of wants) {
      if (isBatch && isForQuiet(backend)) continue;
      if (!isBatch) count(claimed, backend.name);
      if (claimedInAll !== claimed) count(claimedInAll, backend.name);
    }
  }

  return {
    tryNow,
    claim,
    serveNew(waiter) {
      if (serving) changed = true;
      serve();
      // A walk that found nothing free has not chosen for it: it may be one to refuse.
      if (!serving && waiter.line !== undefined && waiter.wants.length === 0 && !tryNow(waiter)) claim(waiter);
    },
    isServedInTurn({ ask }) {
      if (serving && waiting() > 0) return true;
      const { minShare, agingMs } = lanes().batch;
      return ask.job.lane === 'batch' && (minShare > 0 || agingMs > 0);
    },
    serve,
    fleetChanged() {
      changed = waiting() > 0;
      serve();
    },
    isWanted: (backend) => waiting() > 0 && claimedInAll.has(backend),
  };
}

function count(claims: Claims, backend: string): void {
  claims.set(backend, (claims.get(backend) ?? 0) + 1);
}
