/** An owner of places on a clock that a test drives, with jobs of both lanes whose ends the test decides. */
import { laneDefaults, type LaneSettings } from '../../src/admit/lane-settings.ts';
import {
  createOwner,
  type Ask,
  type Choice,
  type LoadView,
  type Owner,
  type Permit,
  type Ticket,
} from '../../src/admit/owner.ts';
import type { BackendView } from '../../src/domain/fleet.ts';
import type { Job } from '../../src/domain/job.ts';
import type { BatchRule } from '../../src/domain/lanes.ts';
import { isRefusal, type Refusal } from '../../src/domain/refusal.ts';
import { modelNotFound } from '../../src/route/refusals.ts';
import { createFakeClock, type FakeClock } from './fake-clock.ts';
import { sampleJob } from './sample.ts';

export interface LaneAsked {
  result?: Permit | Refusal;
  ticket?: Ticket;
  /** It was told to leave. */
  taken: boolean;
}

export interface LaneWorld {
  readonly clock: FakeClock;
  readonly owner: Owner;
  /** Names of the jobs in the order in which they started. */
  readonly started: string[];
  backends: BackendView[];
  readonly rules: Map<string, BatchRule>;
  /** Of the backends that could take it, to how many a job may go. */
  ranks: (job: Job) => number;
  /** All jobs are held back. */
  hold: boolean;
  /** The first token of the job of that name should have come long ago. */
  overdue(requestId: string): void;
  ask(over?: Partial<Job>, how?: LaneAsk): LaneAsked;
  online(name?: string, how?: LaneAsk): LaneAsked;
  batch(name?: string, how?: LaneAsk): LaneAsked;
}

export interface LaneAsk extends Partial<Omit<Ask, 'job'>> {
  readonly job?: Partial<Job>;
  /** Its place can be had back: so many tokens are lost then. */
  readonly loses?: number | (() => number | undefined);
  /** What its prompt alone should take; ms. */
  readonly promptMs?: number;
  /** It stays for a while when it is told to leave; else it leaves at once. */
  readonly lingers?: boolean;
}

interface LaneOver {
  readonly maxQueuedJobs?: number;
  readonly queueTimeoutMs?: number;
  /** Hears at each choice what the job is shown of the backends' loads. */
  readonly sees?: (job: Job, load: (backend: string) => LoadView) => void;
  readonly lanes?: Partial<Omit<LaneSettings, 'batch'>> & { readonly batch?: Partial<LaneSettings['batch']> };
}

export function createLaneWorld(backends: BackendView[], over: LaneOver = {}): LaneWorld {
  const clock = createFakeClock();
  const { maxQueuedJobs = 1000, queueTimeoutMs = 0, lanes = {} } = over;
  const rules = new Map<string, BatchRule>();
  const started: string[] = [];
  const promptTimes = new Map<Job, number>();
  const overdue = new Map<string, () => void>();

  function choose({ job, exclude, affinity }: Ask, load: (backend: string) => LoadView): Choice | Refusal {
    over.sees?.(job, load);
    const able = world.backends.filter(
      ({ name, models, health }) =>
        health !== 'down' &&
        !exclude.includes(name) &&
        (affinity === undefined || affinity === name) &&
        (models.length === 0 || models.includes(job.model ?? '')),
    );
    if (able.length === 0) return modelNotFound(job.model ?? '', world.backends);
    return {
      ranked: able.slice(0, world.ranks(job)).map((backend) => ({ backend, reason: 'least_load' })),
      hold: world.hold,
    };
  }

  const owner = createOwner(
    {
      maxQueuedJobs,
      queueTimeoutMs,
      lanes: { ...laneDefaults, ...lanes, batch: { ...laneDefaults.batch, ...lanes.batch } },
    },
    {
      clock,
      fleet: () => ({ atMs: clock.nowMs(), backends: world.backends }),
      choose,
      batchOn: (backend) => rules.get(backend) ?? { cap: Infinity, reserveSlots: 0, gate: false },
      sent({ job }, _target, granted) {
        const tokens = job.bodyBytes / 4;
        overdue.set(job.requestId, () => granted?.overdue());
        const promptMs = promptTimes.get(job) ?? 0;
        return { promptTokens: tokens, uncachedTokens: tokens, promptMs, ended() {} };
      },
    },
  );

  function ask(jobOver: Partial<Job> = {}, { job: more, loses, promptMs, lingers, ...how }: LaneAsk = {}): LaneAsked {
    const asked: LaneAsked = { taken: false };
    const job = sampleJob({ ...jobOver, ...more });
    if (promptMs !== undefined) promptTimes.set(job, promptMs);
    const take = () => {
      if (asked.taken) throw new Error('taken twice');
      asked.taken = true;
      if (lingers !== true) permitOf(asked).settle();
    };
    const reclaim =
      loses === undefined ? {} : { reclaim: { loses: () => (typeof loses === 'function' ? loses() : loses), take } };
    asked.ticket = owner.ask({ exclude: [], again: false, ...how, ...reclaim, job }, (result) => {
      if (asked.result !== undefined) throw new Error('answered twice');
      asked.result = result;
      if (!isRefusal(result)) started.push(job.requestId);
    });
    return asked;
  }

  const world: LaneWorld = {
    clock,
    owner,
    started,
    backends,
    rules,
    ranks: () => Infinity,
    hold: false,
    overdue: (requestId) => overdue.get(requestId)?.(),
    ask,
    online: (requestId = 'online', how = {}) => ask({ requestId }, how),
    batch: (requestId = 'batch', how = {}) => ask({ requestId, lane: 'batch' }, how),
  };
  return world;
}

/** The permit of a job that must have one. */
export function permitOf({ result }: LaneAsked): Permit {
  if (result === undefined || isRefusal(result)) throw new Error('no permit was given');
  return result;
}

export function isRunning({ result }: LaneAsked): boolean {
  return result !== undefined && !isRefusal(result);
}
