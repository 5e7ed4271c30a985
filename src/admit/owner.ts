/**
 * The one owner of places: jobs ask it for a permit, wait here, and settle (decision 1).
 * Questions and answers are plain data, one round trip before the first byte, none per token.
 * Here: what others see of it, and the door of the waiting room with its bounds and deadlines. Who is next is `lane-queue.ts`
 * (order within a lane) and `serving.ts` (order between lanes, who may start); places are booked by `granting.ts`.
 */
import type { BackendView, FleetSnapshot } from '../domain/fleet.ts';
import type { Job } from '../domain/job.ts';
import type { BatchRule, LaneDepth } from '../domain/lanes.ts';
import type { Refusal } from '../domain/refusal.ts';
import type { AnswerTold, Errand, RouteNote } from '../domain/routing.ts';
import type { Clock } from '../platform/clock.ts';
import { openRule } from './batch-room.ts';
import { createFairness } from './fairness.ts';
import { createForecast } from './forecast.ts';
import { createGranting } from './granting.ts';
import { laneDefaults } from './lane-settings.ts';
import { createLaneQueue } from './lane-queue.ts';
import { createLoads } from './load.ts';
import { createReclaims } from './reclaim.ts';
import { createServing } from './serving.ts';
import type { AdmitSettings } from './settings.ts';
import { promptTokensOf, type Waiter } from './waiter.ts';
import { createWaitingBounds } from './waiting-bounds.ts';
import { createYielding } from './yielding.ts';

export interface RankedTarget {
  readonly backend: BackendView;
  readonly reason: string;
  /** the decision behind it, for its errand and the record; absent where nothing is known of the prompt */
  readonly note?: RouteNote;
}

/** Backends for one job. */
export interface Choice {
  /** Best first, never empty: the job goes to the first that has room, or waits for one of them. */
  readonly ranked: readonly RankedTarget[];
  /** Not now, wherever there is room: the job waits until something changes (late binding). */
  readonly hold: boolean;
  /** After so long the choice is made anew, even if nothing changed. */
  readonly againMs?: number;
}

/** What permits are out on one backend, and what of it their prompts and streams hold. */
export interface LoadView {
  readonly jobs: number;
  readonly slots: number;
  readonly lastUsed: number;
  /** uncached prompt tokens of permits whose first token has not come */
  readonly pendingTokens: number;
  /** of those, permits */
  readonly pendingJobs: number;
  /** sequences of permits whose first token has come, and the prompt tokens of these */
  readonly decoding: number;
  readonly contextTokens: number;
}

/** What a batch job offers: its place can be had back. */
export interface Reclaimable {
  /** Tokens that would have to be computed again; undefined: it can't be taken back (any more, or now). */
  loses(): number | undefined;
  /** It is to leave its place now; its permit settles as soon as it has. Called at most once. */
  take(): void;
}

export interface Ask {
  readonly job: Job;
  readonly exclude: readonly string[];
  readonly affinity?: string;
  /** A job that already held a permit and lost its backend goes before the others. */
  readonly again: boolean;
  /** The job runs only while the backend idles, and is told by this call to leave when another wants it (`yielding.ts`). */
  readonly yields?: () => void;
  /** Of batch jobs whose place can be had back while they run. */
  readonly reclaim?: Reclaimable;
  /** How often its place was taken while its prompt was computed: it waits for longer and longer quiet (`batch-room.ts`). */
  readonly promptsTaken?: number;
  /** Nobody's patience is at stake (a line of a batch): it waits as long as it must. */
  readonly patient?: boolean;
  /** Bound on the time to its first token by its SLO; ms. Absent: none, and it is never refused by a predicted wait. */
  readonly ttftBoundMs?: number;
}

/** Batch jobs that were told to leave, and the tokens that are computed again for it. */
export interface Reclaimed {
  readonly jobs: number;
  readonly lostTokens: number;
}

/** How a job stands that is chosen for. */
export interface AskPlace {
  /** since it was asked for first */
  readonly waitedMs: number;
  /** By backend: jobs that came before it and wait for a place there. */
  readonly ahead: ReadonlyMap<string, number>;
}

/** What goes with a grant. */
export interface Granted {
  /** Of the backend, without the job; the same object from now on, so that it can be read again later. */
  readonly load: LoadView;
  /** As `Permit.decoding`: for answers whose first token can't be seen. */
  computed(): void;
  /** Its first token should have come long ago: whatever it waits for, it isn't the computing of its prompt. */
  overdue(): void;
  /** What it really took, once that is known, also after it settled; tenants are charged by it. */
  used?(told: AnswerTold): void;
}

/** The right to run one job on one backend. Settles exactly once; load is what permits are out. */
export interface Permit {
  readonly backend: BackendView;
  readonly reason: string;
  readonly slots: number;
  readonly waitedMs: number;
  /** absent for jobs that take no engine place */
  readonly errand?: Errand;
  /** Its first token came: the prompt is computed, its streams decode. The first call counts. */
  decoding(): void;
  /** @param used what it took, where the one who settles knows; else an estimate stands until `Granted.used` says better */
  settle(used?: { readonly outputTokens?: number }): void;
}

export interface Ticket {
  /** The asker has left: it is forgotten at once, wherever it stands. Idempotent. */
  leave(): void;
}

export interface Owner {
  /** `answer` is called exactly once unless `leave` came first; at once when a place is free. */
  ask(ask: Ask, answer: (result: Permit | Refusal) => void): Ticket;
  /** Something about the fleet changed: those who wait may start now. */
  fleetChanged(): void;
  /** What `batchOn` says has changed: batch may have more now. */
  capsChanged(): void;
  load(backend: string): LoadView;
  /** of both lanes */
  waiting(): number;
  /** Both lanes, online first. */
  depths(): readonly LaneDepth[];
  /** By backend, online jobs that wait for a place there; one that could go to several is counted at each. */
  wanted(): ReadonlyMap<string, number>;
  /** By lane, permits that are out on a backend and keep its engine busy. */
  running(backend: string): { readonly online: number; readonly batch: number };
  /**
   * So many of a backend's batch jobs are to leave, those that lose least first. Those that were told before and haven't left
   * yet are among them; those of the minimum share are left alone. @returns how many were told now
   */
  reclaim(backend: string, jobs: number): Reclaimed;
  /**
   * An online job's first token is late there: batch prompts that keep it waiting are to leave.
   * @param ttftBoundMs the tightest bound of those that are late; absent: the one of jobs whose SLO says nothing
   * @returns how many were told now
   */
  reclaimPrompts(backend: string, ttftBoundMs?: number): Reclaimed;
  /** Taken back on a backend for as long as it has been in the fleet, whoever wanted it. */
  reclaimed(backend: string): Reclaimed;
  /** Refuses all that wait. */
  close(refusal: Refusal): void;
}

export interface OwnerDeps {
  readonly clock: Clock;
  readonly fleet: () => FleetSnapshot;
  readonly choose: (ask: Ask, load: (backend: string) => LoadView, place?: AskPlace) => Choice | Refusal;
  /** What batch may use of a backend now; asked at each choice. Absent: as much as online. */
  readonly batchOn?: (backend: string) => BatchRule;
  /** A job is on its way from now on. Called within the grant, in the turn of its choice, before the permit is answered. */
  readonly sent?: (ask: Ask, target: RankedTarget, granted?: Granted) => Errand | undefined;
}

/** Far more names than a config has. */
const maxTenants = 1000;
const left: Ticket = { leave() {} };

/** @param settings read at each use: whoever keeps the object may change it */
export function createOwner(settings: AdmitSettings, deps: OwnerDeps): Owner {
  const { clock, fleet } = deps;
  const lanes = () => settings.lanes ?? laneDefaults;
  const loads = createLoads(fleet);
  const online = createLaneQueue('online', createFairness(maxTenants));
  const batch = createLaneQueue('batch', createFairness(maxTenants));
  const laneOf = ({ lane }: Job) => (lane === 'batch' ? batch : online);
  const waiting = () => online.jobs + batch.jobs;
  const reclaims = createReclaims({
    lanes,
    fleet,
    loads,
    ruleOf: (backend) => deps.batchOn?.(backend) ?? openRule,
  });
  const grant = createGranting({
    clock,
    sent: deps.sent,
    loads,
    reclaims,
    fairness: ({ ask }) => laneOf(ask.job).fairness,
    makeWay: (backend) => yielding.makeWay(backend),
    changed() {
      if (waiting() > 0) serving.serve();
    },
  });
  const serving = createServing({
    clock,
    fleet,
    choose: deps.choose,
    batchOn: deps.batchOn,
    lanes,
    loads,
    online,
    batch,
    grant,
    reclaim: () => reclaims.forOnline(online),
  });
  const yielding = createYielding({ choose: deps.choose, sent: deps.sent, load: loads.of, isWanted: serving.isWanted });
  const bounds = createWaitingBounds(settings, {
    lanes,
    forecast: createForecast({ loads, reclaims: () => lanes().reclaim.enabled }),
  });

  /** @returns whether it waits now */
  function enqueue(waiter: Waiter): boolean {
    const { ask, answer } = waiter;
    const lane = laneOf(ask.job);
    const inTurn = serving.isServedInTurn(waiter);
    if (inTurn) {
      lane.add(waiter);
      serving.serveNew(waiter);
      if (waiter.line === undefined) return false;
    } else if (serving.tryNow(waiter)) return false;
    const refusal = bounds.refusalOf(waiter, lane);
    if (refusal !== undefined) {
      const wasIn = lane.remove(waiter);
      answer(refusal);
      if (wasIn) serving.serve();
      return false;
    }
    const limitMs = bounds.limitMs(ask);
    if (limitMs > 0) {
      waiter.timer = clock.timer(limitMs, () => {
        if (lane.remove(waiter)) answer(bounds.lateRefusal(waiter, lane));
        serving.serve();
      });
    }
    if (inTurn) return true;
    serving.claim(waiter);
    lane.add(waiter);
    if (lane === online) reclaims.forOnline(online);
    return true;
  }

  return {
    ask(ask, answer) {
      if (ask.yields !== undefined) {
        yielding.ask(ask, answer);
        return left;
      }
      const { job } = ask;
      const lane = laneOf(job);
      const waiter: Waiter = {
        ask,
        answer,
        sinceMs: clock.nowMs(),
        tokens: promptTokensOf(job),
        tenant: lane.fairness.arrives(job, lane.jobs > 0),
        timer: undefined,
        wants: [],
        holds: false,
        chosenUntilMs: Infinity,
        noisyUntilMs: -Infinity,
        line: undefined,
        order: 0,
        previous: undefined,
        next: undefined,
      };
      if (!enqueue(waiter)) return left;
      return {
        leave() {
          waiter.timer?.cancel();
          if (lane.remove(waiter)) serving.serve();
        },
      };
    },
    fleetChanged() {
      loads.followFleet();
      serving.fleetChanged();
    },
    capsChanged() {
      if (batch.jobs > 0) serving.serve();
    },
    load: loads.of,
    waiting,
    depths: () => [online.depth(clock.nowMs()), batch.depth(clock.nowMs())],
    wanted() {
      const jobs = new Map<string, number>();
      for (const line of [online.again, ...online.lines]) {
        for (let waiter = line.first; waiter !== undefined; waiter = waiter.next) {
          const count = line.isOrdinary ? line.jobs : 1;
          // One that holds waits for prompts to be computed, wherever there is room.
          if (!waiter.holds)
            for (const { backend } of waiter.wants) jobs.set(backend.name, (jobs.get(backend.name) ?? 0) + count);
          // The others of such a line want what this one does.
          if (line.isOrdinary) break;
        }
      }
      return jobs;
    },
    running(backend) {
      const held = loads.held(backend);
      if (held === undefined) return { online: 0, batch: 0 };
      return { online: held.load.jobs - held.batchJobs - held.otherJobs, batch: held.batchJobs };
    },
    reclaim: reclaims.take,
    reclaimPrompts: (backend, ttftBoundMs) => reclaims.forLatePrompt(backend, { ttftBoundMs, nowMs: clock.nowMs() }),
    reclaimed(backend) {
      const held = loads.held(backend);
      return { jobs: held?.reclaimedJobs ?? 0, lostTokens: held?.lostTokens ?? 0 };
    },
    close(refusal) {
      for (const waiter of [...online.toArray(), ...batch.toArray()]) {
        if (!laneOf(waiter.ask.job).remove(waiter)) continue;
        waiter.timer?.cancel();
        waiter.answer(refusal);
      }
      serving.serve();
    },
  };
}
