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

export interface Ask {
  readonly job: Job;
  readonly exclude: readonly string[];
  readonly affinity?: string;
  /** A job that already held a permit and lost its backend goes before the others. */
  readonly again: boolean;
  /** The job runs only while the backend idles, and is told by this call to leave when another wants it (`yielding.ts`). */
  readonly yields?: () => void;
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
  readonly choose: (ask: Ask, load: (backend: string) => LoadView, place?: AskPlace) => Choice | Refusal;
  /** A job is on its way from now on. Called within the grant, in the turn of its choice, before the permit is answered. */
  readonly sent?: (ask: Ask, target: RankedTarget, granted?: Granted) => Errand | undefined;
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
const none: ReadonlyMap<string, number> = new Map();

export function createOwner(settings: AdmitSettings, deps: OwnerDeps): Owner {
  const { clock } = deps;
  const queue: Waiter[] = [];
  /** With the URL: another server under the same name has none of it. */
  const loads = new Map<string, { readonly url: string; readonly load: Load }>();
  /** Backends that somebody in the queue waits for, and how many do: not for later jobs. */
  let claimed = new Map<string, number>();
  let grants = 0;
  /** Set for the earliest moment at which somebody's choice is to be made anew. */
  let wake: { readonly atMs: number; readonly timer: Timer } | undefined;

  const load = (backend: string): LoadView => loads.get(backend)?.load ?? idle;
  const isWanted = (backend: string) => queue.length > 0 && claimed.has(backend);
  const yielding = createYielding({ choose: deps.choose, sent: deps.sent, load, isWanted });

  function grant(waiter: Waiter, target: RankedTarget): void {
    const { job } = waiter.ask;
    const { name } = target.backend;
    const slots = slotsOf(job, target.backend);
    const held = heldOn(target.backend);
    waiter.timer?.cancel();
    if (job.generates) yielding.makeWay(name);
    let open = true;
    const decoding = () => {
      if (!open || !share.decoding()) return;
      errand?.computed?.();
      if (queue.length > 0) serveQueue();
    };
    const share = shareIn(held, job.generates ? job.choices : 0);
    const overdue = () => {
      if (share.overdue() && queue.length > 0) serveQueue();
    };
    const granted = { load: held, computed: decoding, overdue };
    const errand: Errand | undefined = job.generates ? deps.sent?.(waiter.ask, target, granted) : undefined;
    held.jobs += 1;
    held.slots += slots;
    held.lastUsed = grants += 1;
    share.begin(errand);
    waiter.answer({
      backend: target.backend,
      reason: target.reason,
      slots,
      waitedMs: clock.nowMs() - waiter.sinceMs,
      ...(errand === undefined ? {} : { errand }),
      decoding,
      settle() {
        if (!open) return;
        open = false;
        share.end();
        held.jobs -= 1;
        held.slots -= slots;
        const isLast = held.jobs === 0 && loads.get(name)?.load === held;
        if (isLast && !deps.fleet().backends.some((backend) => backend.name === name)) loads.delete(name);
        serveQueue();
      },
    });
  }

  function heldOn({ name, url }: BackendView): Load {
    const known = loads.get(name);
    if (known?.url === url) return known.load;
    const made = { ...idle };
    loads.set(name, { url, load: made });
    return made;
  }

  /** Forgets who left and holds nothing any more, and who is another server now; permits that are out settle on their own. */
  function followFleet(): void {
    if (loads.size === 0) return;
    const urls = new Map(deps.fleet().backends.map(({ name, url }) => [name, url]));
    for (const [name, held] of loads) {
      const url = urls.get(name);
      if (url === undefined ? held.load.jobs === 0 : url !== held.url) loads.delete(name);
    }
  }

  /** Everybody who could take this job is waited for by one before it: it can't start, whatever would be chosen. */
  function isStuck({ job }: Ask, blocked: ReadonlyMap<string, number>): boolean {
    const { backends } = deps.fleet();
    const model = job.servedModel ?? job.model;
    const serving = backends.filter(
      ({ models }) => model === undefined || models.length === 0 || models.includes(model),
    );
    return backends.length > 1 && serving.length > 0 && serving.every(({ name }) => blocked.has(name));
  }

  /** Grants or refuses at once if it can; else names the backends that the job waits for. */
  function attempt(waiter: Waiter, blocked: ReadonlyMap<string, number>): readonly RankedTarget[] | 'settled' {
    const waitedMs = clock.nowMs() - waiter.sinceMs;
    const choice = deps.choose(waiter.ask, load, { waitedMs, ahead: blocked });
    if (isRefusal(choice)) {
      waiter.timer?.cancel();
      waiter.answer(choice);
      return 'settled';
    }
    const { ranked, hold, againMs } = choice;
    const free = ranked.find(
      ({ backend }) =>
        !waiter.ask.job.generates ||
        (!hold && !blocked.has(backend.name) && hasRoom(backend, load(backend.name), waiter.ask.job)),
    );
    if (free === undefined) {
      if (againMs !== undefined) wakeIn(againMs);
      return ranked;
    }
    grant(waiter, free);
    return 'settled';
  }

  function wakeIn(ms: number): void {
    const atMs = clock.nowMs() + Math.max(1, ms);
    if (wake !== undefined && wake.atMs <= atMs) return;
    wake?.timer.cancel();
    const timer = clock.timer(Math.max(1, ms), () => {
      wake = undefined;
      serveQueue();
    });
    wake = { atMs, timer };
  }

  function rest(): void {
    if (queue.length > 0) return;
    wake?.timer.cancel();
    wake = undefined;
  }

  let serving = false;
  let again = false;
  /** Who may take which job may be another matter now: each is chosen for, if only to be refused. */
  let changed = false;
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
      rest();
    }
  }

  function walkQueue(): void {
    const blocked = new Map<string, number>();
    claimed = blocked;
    /** Models whose jobs can't start: of a long queue for one of them only the first few are chosen for. */
    const stuck = new Set<string>();
    const mayPass = !changed;
    changed = false;
    for (let i = 0; i < queue.length && blocked.size < deps.fleet().backends.length;) {
      const waiter = queue[i];
      if (waiter === undefined) return;
      const { job, affinity, exclude } = waiter.ask;
      const model = job.servedModel ?? job.model ?? '';
      // Where it is at home need not serve its model, and where it failed it may not go: it may have nobody to wait for.
      const isOrdinary = affinity === undefined && exclude.length === 0;
      if (mayPass && isOrdinary && stuck.has(model)) {
        i += 1;
        continue;
      }
      queue.splice(i, 1);
      const result = attempt(waiter, blocked);
      if (result === 'settled') continue;
      queue.splice(i, 0, waiter);
      for (const { backend } of result) count(blocked, backend.name);
      if (mayPass && isOrdinary && isStuck(waiter.ask, blocked)) stuck.add(model);
      i += 1;
    }
  }

  return {
    ask(ask, answer) {
      if (ask.yields !== undefined) {
        yielding.ask(ask, answer);
        return { leave() {} };
      }
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
      if (queue.length === 0) claimed = new Map();
      for (const { backend } of result) count(claimed, backend.name);
      if (ask.again) queue.unshift(waiter);
      else queue.push(waiter);
      return {
        leave() {
          waiter.timer?.cancel();
          if (!remove(queue, waiter)) return;
          serveQueue();
        },
      };
    },
    fleetChanged() {
      followFleet();
      changed = true;
      serveQueue();
    },
    load,
    waiting: () => queue.length,
    close(refusal) {
      for (const waiter of queue.splice(0)) {
        waiter.timer?.cancel();
        waiter.answer(refusal);
      }
      rest();
    },
  };
}

function count(claims: Map<string, number>, backend: string): void {
  claims.set(backend, (claims.get(backend) ?? 0) + 1);
}

/** One permit's part in its backend's load: first among what is to be computed, then among what decodes; taken out once. */
function shareIn(held: Load, sequences: number) {
  let promptTokens = 0;
  let uncachedTokens = 0;
  /** Of these, what still counts as to be computed. */
  let backlogTokens = 0;
  let stage: 'none' | 'pending' | 'decoding' | 'ended' = 'none';
  const leave = () => {
    if (stage === 'pending') {
      if (sequences > 0) held.pendingJobs -= 1;
      held.pendingTokens -= backlogTokens;
    } else if (stage === 'decoding') {
      held.decoding -= sequences;
      held.contextTokens -= promptTokens;
    }
  };
  return {
    begin(errand: Errand | undefined) {
      ({ promptTokens, uncachedTokens } = errand ?? { promptTokens: 0, uncachedTokens: 0 });
      stage = 'pending';
      if (sequences > 0) held.pendingJobs += 1;
      backlogTokens = uncachedTokens;
      held.pendingTokens += backlogTokens;
    },
    /** @returns false when it was none of the backlog any more */
    overdue(): boolean {
      if (stage !== 'pending' || backlogTokens === 0) return false;
      held.pendingTokens -= backlogTokens;
      backlogTokens = 0;
      return true;
    },
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
export function slotsOf(job: Job, backend: BackendView): number {
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
