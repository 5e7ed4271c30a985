/**
 * The one owner of places: jobs ask it for a permit, wait here, and settle (decision 1).
 * Questions and answers are plain data, one round trip before the first byte, none per token.
 * The queue is first come, first served; a job that can't start yet keeps later ones from taking the places that it waits
 * for. Lanes will order this queue; nothing outside this folder depends on how.
 */
import type { BackendView, FleetSnapshot } from '../domain/fleet.ts';
import type { Job } from '../domain/job.ts';
import { isRefusal, type Refusal } from '../domain/refusal.ts';
import type { Errand, RouteNote } from '../domain/routing.ts';
import type { Clock, Timer } from '../platform/clock.ts';
import { queueFull, queueTimeout } from './refusals.ts';
import type { AdmitSettings } from './settings.ts';

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
  /** absent for jobs that take no engine place */
  readonly errand?: Errand;
  /** Its first token came: the prompt is computed, its streams decode. The first call counts. */
  decoding(): void;
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
  readonly choose: (ask: Ask, load: (backend: string) => LoadView) => Choice | Refusal;
  /** A job is on its way from now on. Called within the grant, before the permit is answered. */
  readonly sent?: (ask: Ask, target: RankedTarget) => Errand | undefined;
}

interface Waiter {
  readonly ask: Ask;
  readonly answer: (result: Permit | Refusal) => void;
  readonly sinceMs: number;
  timer: Timer | undefined;
}

type Load = { -readonly [key in keyof LoadView]: LoadView[key] };

const idle: LoadView = {
  jobs: 0,
  slots: 0,
  lastUsed: 0,
  pendingTokens: 0,
  pendingJobs: 0,
  decoding: 0,
  contextTokens: 0,
};
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
    const { job } = waiter.ask;
    const { name } = target.backend;
    const slots = slotsOf(job, target.backend);
    const held = loads.get(name) ?? { ...idle };
    loads.set(name, held);
    held.jobs += 1;
    held.slots += slots;
    held.lastUsed = grants += 1;
    waiter.timer?.cancel();
    const errand = job.generates ? deps.sent?.(waiter.ask, target) : undefined;
    const share = shareIn(held, { errand, sequences: job.generates ? job.choices : 0 });
    let open = true;
    waiter.answer({
      backend: target.backend,
      reason: target.reason,
      slots,
      waitedMs: clock.nowMs() - waiter.sinceMs,
      ...(errand === undefined ? {} : { errand }),
      decoding() {
        if (!open || !share.decoding()) return;
        if (queue.length > 0) serveQueue();
      },
      settle() {
        if (!open) return;
        open = false;
        share.end();
        held.jobs -= 1;
        held.slots -= slots;
        if (held.jobs === 0 && !deps.fleet().backends.some((backend) => backend.name === name)) loads.delete(name);
        serveQueue();
      },
    });
  }

  /** Grants or refuses at once if it can; else names the backends that the job waits for. */
  function attempt(waiter: Waiter, blocked: ReadonlySet<string>): readonly RankedTarget[] | 'settled' {
    const choice = deps.choose(waiter.ask, load);
    if (isRefusal(choice)) {
      waiter.timer?.cancel();
      waiter.answer(choice);
      return 'settled';
    }
    const { ranked, hold } = choice;
    const free = ranked.find(
      ({ backend }) =>
        !waiter.ask.job.generates ||
        (!hold && !blocked.has(backend.name) && hasRoom(backend, load(backend.name), waiter.ask.job)),
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

/** One permit's part in its backend's load: first among what is to be computed, then among what decodes; taken out once. */
function shareIn(held: Load, { errand, sequences }: { errand: Errand | undefined; sequences: number }) {
  const { promptTokens = 0, uncachedTokens = 0 } = errand ?? {};
  let stage: 'pending' | 'decoding' | 'ended' = 'pending';
  if (sequences > 0) held.pendingJobs += 1;
  held.pendingTokens += uncachedTokens;
  const leave = () => {
    if (stage === 'pending') {
      if (sequences > 0) held.pendingJobs -= 1;
      held.pendingTokens -= uncachedTokens;
    } else if (stage === 'decoding') {
      held.decoding -= sequences;
      held.contextTokens -= promptTokens;
    }
  };
  return {
    /** @returns false when it decodes already */
    decoding(): boolean {
      if (stage !== 'pending' || sequences === 0) return false;
      leave();
      stage = 'decoding';
      held.decoding += sequences;
      held.contextTokens += promptTokens;
      return true;
    },
    end() {
      leave();
      stage = 'ended';
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
