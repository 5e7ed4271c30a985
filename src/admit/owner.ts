/**
 * The one owner of places: jobs ask it for a permit, wait here, and settle (decision 1).
 * Questions and answers are plain data, one round trip before the first byte, none per token.
 * The queue is first come, first served; a job that can't start yet keeps later ones from taking the places that it waits
 * for. Lanes will order this queue; nothing outside this folder depends on how.
 */
import type { BackendView, FleetSnapshot } from '../domain/fleet.ts';
import type { Job } from '../domain/job.ts';
import { isRefusal, type Refusal } from '../domain/refusal.ts';
import type { Clock, Timer } from '../platform/clock.ts';
import { queueFull, queueTimeout } from './refusals.ts';
import type { AdmitSettings } from './settings.ts';

export interface RankedTarget {
  readonly backend: BackendView;
  readonly reason: string;
}

export interface LoadView {
  readonly jobs: number;
  readonly slots: number;
  readonly lastUsed: number;
}

export interface Ask {
  readonly job: Job;
  readonly exclude: readonly string[];
  readonly affinity?: string;
  /** A job that already held a permit and lost its backend goes before the others. */
  readonly again: boolean;
}

/** The right to run one job on one backend. Settles exactly once; load is what permits are out. */
export interface Permit {
  readonly backend: BackendView;
  readonly reason: string;
  readonly slots: number;
  readonly waitedMs: number;
  settle(): void;
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
  load(backend: string): LoadView;
  waiting(): number;
  /** Refuses all that wait. */
  close(refusal: Refusal): void;
}

export interface OwnerDeps {
  readonly clock: Clock;
  readonly fleet: () => FleetSnapshot;
  readonly choose: (ask: Ask, load: (backend: string) => LoadView) => readonly RankedTarget[] | Refusal;
}

interface Waiter {
  readonly ask: Ask;
  readonly answer: (result: Permit | Refusal) => void;
  readonly sinceMs: number;
  timer: Timer | undefined;
}

interface Load {
  jobs: number;
  slots: number;
  lastUsed: number;
}

const idle: LoadView = { jobs: 0, slots: 0, lastUsed: 0 };
const none: ReadonlySet<string> = new Set();

export function createOwner(settings: AdmitSettings, deps: OwnerDeps): Owner {
  const { clock } = deps;
  const queue: Waiter[] = [];
  const loads = new Map<string, Load>();
  /** Backends that somebody in the queue waits for: not for later jobs. */
  let claimed = new Set<string>();
  let grants = 0;

  const load = (backend: string): LoadView => loads.get(backend) ?? idle;

  function grant(waiter: Waiter, target: RankedTarget): void {
    const { name } = target.backend;
    const slots = slotsOf(waiter.ask.job, target.backend);
    const held = loads.get(name) ?? { jobs: 0, slots: 0, lastUsed: 0 };
    loads.set(name, held);
    held.jobs += 1;
    held.slots += slots;
    held.lastUsed = grants += 1;
    waiter.timer?.cancel();
    let open = true;
    waiter.answer({
      backend: target.backend,
      reason: target.reason,
      slots,
      waitedMs: clock.nowMs() - waiter.sinceMs,
      settle() {
        if (!open) return;
        open = false;
        held.jobs -= 1;
        held.slots -= slots;
        if (held.jobs === 0 && !deps.fleet().backends.some((backend) => backend.name === name)) loads.delete(name);
        serveQueue();
      },
    });
  }

  /** Grants or refuses at once if it can; else names the backends that the job waits for. */
  function attempt(waiter: Waiter, blocked: ReadonlySet<string>): readonly RankedTarget[] | 'settled' {
    const ranked = deps.choose(waiter.ask, load);
    if (isRefusal(ranked)) {
      waiter.timer?.cancel();
      waiter.answer(ranked);
      return 'settled';
    }
    const free = ranked.find(
      ({ backend }) =>
        !waiter.ask.job.generates ||
        (!blocked.has(backend.name) && hasRoom(backend, load(backend.name), waiter.ask.job)),
    );
    if (free === undefined) return ranked;
    grant(waiter, free);
    return 'settled';
  }

  let serving = false;
  let again = false;
  function serveQueue(): void {
    // A refusal or grant may settle another permit inside: that must not walk the queue a second time underneath.
    if (serving) {
      again = true;
      return;
    }
    serving = true;
    try {
      do {
        again = false;
        walkQueue();
      } while (again);
    } finally {
      serving = false;
    }
  }

  function walkQueue(): void {
    const blocked = new Set<string>();
    claimed = blocked;
    for (let i = 0; i < queue.length && blocked.size < deps.fleet().backends.length;) {
      const waiter = queue[i];
      if (waiter === undefined) return;
      queue.splice(i, 1);
      const result = attempt(waiter, blocked);
      if (result === 'settled') continue;
      queue.splice(i, 0, waiter);
      for (const { backend } of result) blocked.add(backend.name);
      i += 1;
    }
  }

  return {
    ask(ask, answer) {
      const waiter: Waiter = { ask, answer, sinceMs: clock.nowMs(), timer: undefined };
      const result = attempt(waiter, ask.again || queue.length === 0 ? none : claimed);
      if (result === 'settled') return { leave() {} };
      if (queue.length >= settings.maxQueuedJobs) {
        answer(queueFull(settings.maxQueuedJobs));
        return { leave() {} };
      }
      if (settings.queueTimeoutMs > 0) {
        waiter.timer = clock.timer(settings.queueTimeoutMs, () => {
          if (remove(queue, waiter)) answer(queueTimeout(settings.queueTimeoutMs));
          serveQueue();
        });
      }
      if (queue.length === 0) claimed = new Set();
      for (const { backend } of result) claimed.add(backend.name);
      if (ask.again) queue.unshift(waiter);
      else queue.push(waiter);
      return {
        leave() {
          waiter.timer?.cancel();
          if (remove(queue, waiter)) serveQueue();
        },
      };
    },
    fleetChanged: serveQueue,
    load,
    waiting: () => queue.length,
    close(refusal) {
      for (const waiter of queue.splice(0)) {
        waiter.timer?.cancel();
        waiter.answer(refusal);
      }
    },
  };
}

/** A generating job takes a slot per choice; more than the backend has is its to refuse. */
function slotsOf(job: Job, backend: BackendView): number {
  if (!job.generates) return 0;
  return backend.slots === undefined ? job.choices : Math.min(job.choices, Math.max(1, backend.slots));
}

function hasRoom(backend: BackendView, held: LoadView, job: Job): boolean {
  if (backend.slots === undefined) return true;
  return held.slots + backend.ghostSlots + slotsOf(job, backend) <= Math.max(1, backend.slots);
}

function remove(queue: Waiter[], waiter: Waiter): boolean {
  const at = queue.indexOf(waiter);
  if (at < 0) return false;
  queue.splice(at, 1);
  return true;
}
