/**
 * Prefill ahead of time: a backend that starts or comes back is sent the prompts that the config names, and by opt-in the
 * hottest beginnings seen, before users' requests need them. In the batch lane, one at a time on each backend, only while it
 * idles; a request that comes meanwhile ends it at once. Bounded in number, in time and in tries; what fails costs nothing.
 *
 * Decides when and what; `app.ts` gives it the way to send, which is the pipeline that clients' requests take.
 */
import { createHash } from 'node:crypto';
import type { BackendView, FleetSnapshot } from './domain/fleet.ts';
import type { Job } from './domain/job.ts';
import { isWarmUp, type RequestRecord } from './domain/record.ts';
import { type WarmUpEnd, type WarmUpFigures, warmUpEnds } from './domain/warm-up-figures.ts';
import type { Clock, Timer } from './platform/clock.ts';
import type { Log } from './platform/log.ts';
import { createWarmed } from './route/warmed.ts';
import type { WarmUpSettings } from './route/warm-up-settings.ts';

/** One prompt on its way into caches. */
export interface WarmRequest {
  /** for logs */
  readonly name: string;
  /** path with query */
  readonly path: string;
  readonly body: Buffer;
  /** Messages from the first that clients' prompts share; undefined: all that it has. */
  readonly messages?: number;
}

export interface WarmUpDeps {
  readonly clock: Clock;
  readonly log: Log;
  readonly prompts: readonly WarmRequest[];
  /** The hottest beginnings, asked for when a backend comes. */
  readonly hottest: () => readonly WarmRequest[];
  /** Nobody runs there, nobody waits. */
  readonly isIdle: (backend: string) => boolean;
  /** It could serve a request with this body. */
  readonly serves: (backend: BackendView, request: WarmRequest) => boolean;
  /**
   * Sends it there and nowhere else. `madeWay` is called when somebody else wants the place, `booked` with its record, `over`
   * at its end whatever became of the record.
   */
  readonly send: (request: WarmRequest, backend: string, told: WarmUpTold) => { abort(): void };
}

export interface WarmUpTold {
  readonly madeWay: () => void;
  readonly booked: (record: RequestRecord, job: Job | undefined) => void;
  readonly over: () => void;
}

export interface WarmUp {
  /** To be told of each change of the fleet. */
  fleetChanged(snapshot: FleetSnapshot): void;
  /** To be told of each finished request. */
  recorded(record: RequestRecord, job: Job | undefined): void;
  stats(): readonly WarmUpFigures[];
  /** Ends what runs; nothing begins any more. */
  stop(): void;
}

const pollMs = 250;
const tries = 2;
/** A backend that has not idled for so long has been warmed by its users. */
const giveUpMs = 600_000;
/** A prompt that failed is left in peace there, each time twice as long: it may be what brings the backend down. */
const firstRestMs = 60_000;
const longestRestMs = 3_600_000;

interface Rest {
  readonly failures: number;
  readonly untilMs: number;
}

interface Waiting {
  readonly request: WarmRequest;
  tried: number;
}

interface Running {
  readonly waiting: Waiting;
  readonly timer: Timer;
  /** Of the backend's starts, the one that it is for. */
  readonly start: number;
  abort: () => void;
  why: 'made_way' | 'timeout' | 'stopped' | undefined;
}

interface Known {
  isUp: boolean;
  restarts: number;
  /** How often it was seen to start, and when last. */
  starts: number;
  sinceMs: number;
  queue: Waiting[];
  running: Running | undefined;
  /** By what is sent: prompts that failed there, the one that failed last behind the others. */
  readonly resting: Map<string, Rest>;
  readonly ended: Record<WarmUpEnd, number>;
  tokens: number;
  used: number;
  savedSeconds: number;
}

export function createWarmUp(settings: WarmUpSettings, deps: WarmUpDeps): WarmUp {
  const { clock, log } = deps;
  const { maxConcurrentPerFleet, timeoutMs, hottest } = settings;
  const known = new Map<string, Known>();
  const mostPrompts = deps.prompts.length + hottest.count;
  const warmed = createWarmed(mostPrompts);
  // Hot beginnings change: some more than are sent at one time.
  const mostResting = 2 * mostPrompts;
  const failuresTold = new Set<string>();
  let poll: Timer | undefined;
  let stopped = false;

  function began(backend: BackendView, state: Known): void {
    warmed.forget(backend.name);
    giveUp(state);
    const requests = [...deps.prompts, ...deps.hottest()].filter(
      (request) => deps.serves(backend, request) && !isResting(state, request),
    );
    state.queue = requests.map((request) => ({ request, tried: 0 }));
    state.starts += 1;
    state.sinceMs = clock.nowMs();
  }

  function giveUp(state: Known): void {
    state.ended.given_up += state.queue.length;
    state.queue = [];
  }

  function isResting({ resting }: Known, request: WarmRequest): boolean {
    return resting.size > 0 && clock.nowMs() < (resting.get(digestOf(request))?.untilMs ?? 0);
  }

  function rest({ resting }: Known, request: WarmRequest): void {
    const digest = digestOf(request);
    const failures = (resting.get(digest)?.failures ?? 0) + 1;
    const restMs = Math.min(longestRestMs, firstRestMs * 2 ** (failures - 1));
    resting.delete(digest);
    resting.set(digest, { failures, untilMs: clock.nowMs() + restMs });
    const [oldest] = resting.keys();
    if (resting.size > mostResting && oldest !== undefined) resting.delete(oldest);
  }

  /** Begins what can begin now; looks again in a while if anything is left. */
  function pump(): void {
    if (stopped) return;
    poll?.cancel();
    poll = undefined;
    let running = 0;
    for (const state of known.values()) if (state.running !== undefined) running += 1;
    for (const [backend, state] of known) {
      if (state.queue.length === 0 || state.running !== undefined || !state.isUp) continue;
      if (clock.nowMs() - state.sinceMs > giveUpMs) giveUp(state);
      else if (running < maxConcurrentPerFleet && deps.isIdle(backend) && start(backend, state)) running += 1;
    }
    const isLeft = [...known.values()].some(({ queue, isUp }) => isUp && queue.length > 0);
    if (isLeft) poll = clock.timer(pollMs, pump);
  }

  function start(backend: string, state: Known): boolean {
    const waiting = state.queue.shift();
    if (waiting === undefined) return false;
    const running: Running = {
      waiting,
      start: state.starts,
      why: undefined,
      abort() {},
      timer: clock.timer(timeoutMs, () => {
        running.why = 'timeout';
        running.abort();
      }),
    };
    state.running = running;
    const { abort } = deps.send(waiting.request, backend, {
      madeWay: () => (running.why = 'made_way'),
      booked: (record, job) => booked(backend, { state, running, record, job }),
      over: () => over(state, running),
    });
    running.abort = abort;
    return true;
  }

  /** @param running the one that is over: where it was booked, the next one may run already */
  function over(state: Known, running: Running): void {
    if (state.running !== running) return;
    // What became of it nobody knows; the log says why. The place must not stay taken.
    running.timer.cancel();
    state.running = undefined;
    state.ended.failed += 1;
    pump();
  }

  function booked(
    backend: string,
    ended: { state: Known; running: Running; record: RequestRecord; job: Job | undefined },
  ): void {
    const { state, running, record, job } = ended;
    running.timer.cancel();
    state.running = undefined;
    const { waiting, why } = running;
    // The process that it was for may be gone.
    const isPresent = running.start === state.starts && state.isUp;
    if (record.outcome === 'ok') {
      state.ended.done += 1;
      if (state.resting.size > 0) state.resting.delete(digestOf(waiting.request));
      if (isPresent) learn(backend, { state, request: waiting.request, record, job });
    } else if (record.reason === 'not_idle') {
      // Somebody was quicker: that was no try.
      if (isPresent) state.queue.unshift(waiting);
      poll ??= clock.timer(pollMs, pump);
      return;
    } else {
      waiting.tried += 1;
      if (why === 'made_way') state.ended.aborted += 1;
      else if (why !== 'stopped') {
        state.ended.failed += 1;
        rest(state, waiting.request);
        tellFailure(backend, waiting.request, why ?? record.reason ?? record.outcome);
      }
      if (waiting.tried < tries && isPresent) state.queue.push(waiting);
    }
    pump();
  }

  function learn(
    backend: string,
    {
      state,
      request,
      record,
      job,
    }: { state: Known; request: WarmRequest; record: RequestRecord; job: Job | undefined },
  ): void {
    const { prompt, cached } = record.tokens;
    // An engine that doesn't tell its cached tokens won't tell later ones either.
    if (prompt === undefined || cached === undefined) return;
    const computed = prompt.value - cached.value;
    if (computed <= 0) return;
    state.tokens += computed;
    const chunk = lastShared(job, request.messages);
    const { prefillMs, upstreamTtftMs } = record.figures;
    const tookMs = prefillMs ?? upstreamTtftMs;
    const key = chunk === undefined ? undefined : job?.prefix?.keys[chunk];
    if (chunk === undefined || key === undefined || tookMs === undefined || tookMs <= 0) return;
    const tokensPerSecond = (computed * 1000) / tookMs;
    warmed.add(backend, { chunk, key, fromTokens: cached.value, toTokens: prompt.value, tokensPerSecond });
  }

  function tellFailure(backend: string, { name }: WarmRequest, reason: string): void {
    const id = `${backend} ${name}`;
    if (failuresTold.has(id) || failuresTold.size >= mostFailuresTold) return;
    failuresTold.add(id);
    log.warn('a prompt could not be brought into a cache ahead of time; said once', { backend, prompt: name, reason });
  }

  return {
    fleetChanged({ backends }) {
      if (stopped) return;
      const names = new Set(backends.map(({ name }) => name));
      for (const [name, state] of known) {
        if (names.has(name)) continue;
        state.isUp = false;
        state.running?.abort();
        warmed.forget(name);
        known.delete(name);
      }
      for (const backend of backends) {
        const state = known.get(backend.name) ?? unknown();
        known.set(backend.name, state);
        const isUp = backend.health === 'up';
        const restarts = backend.restarts ?? 0;
        const isNew = isUp && (!state.isUp || restarts > state.restarts);
        if (!isUp && state.isUp) giveUp(state);
        state.isUp = isUp;
        state.restarts = restarts;
        if (isNew) began(backend, state);
      }
      pump();
    },
    recorded(record, job) {
      const { backend, lane, timeline, outcome, tokens } = record;
      if (backend === undefined || lane !== 'online' || isWarmUp(record) || job?.prefix === undefined) return;
      if (outcome !== 'ok' && timeline.firstToken === undefined) return;
      const seconds = warmed.used(backend, job.prefix, tokens.cached?.value);
      const state = known.get(backend);
      if (seconds === undefined || seconds === 0 || state === undefined) return;
      state.used += 1;
      state.savedSeconds += seconds;
    },
    stats: () =>
      Array.from(known, ([backend, { ended, tokens, used, savedSeconds }]) => ({
        backend,
        ended,
        tokens,
        used,
        savedSeconds,
      })),
    stop() {
      stopped = true;
      poll?.cancel();
      for (const state of known.values()) {
        state.queue = [];
        if (state.running === undefined) continue;
        state.running.why = 'stopped';
        state.running.abort();
      }
    },
  };
}

const mostFailuresTold = 1000;

function digestOf({ path, body }: WarmRequest): string {
  return createHash('sha256').update(path).update('\n').update(body).digest('base64');
}

function unknown(): Known {
  return {
    isUp: false,
    restarts: 0,
    starts: 0,
    sinceMs: 0,
    queue: [],
    running: undefined,
    resting: new Map(),
    ended: noneEnded(),
    tokens: 0,
    used: 0,
    savedSeconds: 0,
  };
}

function noneEnded(): Record<WarmUpEnd, number> {
  const ended: Partial<Record<WarmUpEnd, number>> = {};
  for (const end of warmUpEnds) ended[end] = 0;
  // Every word of the closed set was just given a number.
  return ended as Record<WarmUpEnd, number>;
}

/** The last chunk of what clients' prompts share with it. */
function lastShared(job: Job | undefined, messages: number | undefined): number | undefined {
  const parts = job?.prefix?.parts;
  if (parts === undefined) return undefined;
  if (messages === undefined) return parts.length - 1;
  let last: number | undefined;
  for (let at = 0; at < parts.length && (parts[at] ?? 0) < messages; at += 1) last = at;
  return last;
}
