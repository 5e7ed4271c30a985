/**
 * How many batch jobs one backend may run, told every 250 ms by what its online users feel and by what its engine last said:
 * halved on pressure, grown when quiet, everything while nobody is online. Pure: state, signals and the time in, a state out.
 * `lanes.ts` brings the signals and hands the cap to the owner, which keeps to it. Other policies may stand in its place.
 * Source of the rule: additive increase, multiplicative decrease on the highest of several pressures, each of them a signal
 * over its bound, so that the objective's own statistic (running TPOT) and a fast one (this window's gaps) both count.
 */
import type { CapCause, Pressures } from '../domain/lanes.ts';
import type { BatchLaneSettings, ControlSettings } from './lane-settings.ts';

/** What online users of one backend feel, as `online-feel.ts` sees it. Absent: nobody there to feel it. */
export interface OnlineFeel {
  /** p90 over streams of their running TPOT over its bound */
  readonly tpot?: number;
  /** mean gap between tokens since the last tick, over its bound */
  readonly itl?: number;
  /** p95 of TTFT over its bound */
  readonly ttft?: number;
  /** the same two in ms, for policies that look for a rise instead of a bound */
  readonly itlMs?: number;
  readonly ttftMs?: number;
}

/** What the engine said last. Held between its readings. */
export interface EngineSignals {
  /** Monotonic ms of the reading: a new one may cut the cap, a held one only keeps it from growing. */
  readonly atMs: number;
  /** 0 to 1 */
  readonly kvUsage?: number;
  /** requests that it took and hasn't started, and those that it computes */
  readonly waiting?: number;
  readonly running?: number;
  /** preemptions since the reading before */
  readonly preempted?: number;
}

export interface CapSignals {
  readonly feel: OnlineFeel;
  readonly engine?: EngineSignals;
  readonly running: { readonly online: number; readonly batch: number };
  /** online jobs that wait in warmlane for a place there */
  readonly onlineWaiting: number;
  /** of the backend; absent: it says no number */
  readonly places?: number;
}

export interface CapState {
  /** batch jobs that may run; whole */
  readonly cap: number;
  /** places kept free of batch now: none while nobody is online */
  readonly reserveSlots: number;
  readonly cause: CapCause;
  /** since when that cause holds */
  readonly sinceMs: number;
  /** highest of `pressures`; absent: none is known */
  readonly pressure?: number;
  readonly pressures: Pressures;
  /** what cut the cap last, and when */
  readonly lastCut?: { readonly cause: CapCause; readonly atMs: number };
}

export interface BatchCap {
  /** To be called every `tickMs` while there is batch work. */
  tick(nowMs: number, signals: CapSignals): CapState;
  /** An online job asked for a place that could be there. */
  onlineArrived(nowMs: number): void;
  /** Batch jobs were taken back for online ones; so many still run. */
  reclaimed(remaining: number, nowMs: number): void;
  /** The backend refused a request for want of room. @param running batch jobs there, one that was refused among them */
  busy(running: number, nowMs: number): void;
  state(): CapState;
}

export interface BatchCapSettings {
  readonly control: ControlSettings;
  readonly batch: Pick<BatchLaneSettings, 'minShare' | 'reserveSlots'>;
}

/** The fuller the cache, the likelier the engine drops what runs: from here on pressure is 1. */
const fullKv = 0.9;
/** Lower than the others: a first token is late of its own prompt as well. */
const ttftWeight = 0.8;
/** Of what is wrong as soon as it is there. */
const pressed = 1.5;
/** Gaps between tokens are smoothed over about as long as an answer takes. */
const smoothMs = 4000;
/** A cut shows only when jobs have ended and streams have had some tokens: until then there is no second one. */
const cutPauseMs = 1000;
/** Less than that is none, so that growing again takes no longer after many cuts. */
const leastCap = 0.5;
/** Of how many were online at once a third still counts after so long. Batch jobs keep their places for some ten seconds. */
const peakMs = 30_000;
/** Times its root are kept beside the peak, since the next one may be higher. One who is online alone leaves batch the second place. */
const peakMargin = 0.9;
/**
 * More are online than so many times as many as there were these last seconds, and so many besides (one who comes alone is no burst):
 * a burst has begun. What runs of batch ends only in seconds, so it is cut before anybody feels it.
 */
const riseTimes = 1.5;
const riseJobs = 1.5;
const usualMs = 4000;
/** Before anything is known of the backend, once somebody is online. */
const firstCap = 4;

const signalNames = ['tpot', 'itl', 'ttft', 'kv', 'waiting', 'preemptions', 'busy', 'rise'] as const;

export function createBatchCap(settings: BatchCapSettings, beganMs: number): BatchCap {
  const { control, batch } = settings;
  const { threshold, decrease, increase, idleMs, maxPerBackend } = control;
  const fixed = control.cap === 'adaptive' ? undefined : control.cap;
  /** A real number; what counts is the whole part. Kept while nobody is online. */
  let cap = fixed ?? firstCap;
  let isIdle = fixed === undefined;
  let isAlone = true;
  let onlineMs = -Infinity;
  /** The backend refused a request last. */
  let busyMs = -Infinity;
  /** The engine's reading that was acted on last. */
  let actedMs = -Infinity;
  /** Fixed cap that something was taken back from: on its way up again. */
  let isShort = false;
  let places: number | undefined;
  /** Online jobs at once there, the most of late: what came a while ago counts for less. */
  let onlinePeak = 0;
  /** Online jobs there on average of these last seconds; undefined before the first look. */
  let onlineUsual: number | undefined;
  /** Over its bound, smoothed. */
  let itl = 0;
  let tickedMs = beganMs;
  let cutMs = -Infinity;
  let lastCut: CapState['lastCut'];
  let since: { readonly cause: CapCause; readonly atMs: number } | undefined;
  let state = stateOf(isIdle ? 'no_online' : 'fixed', beganMs, {});

  /** All that there is. */
  function limit(): number {
    return places ?? maxPerBackend;
  }

  /** What batch has whatever online feels. */
  function least(): number {
    return batch.minShare <= 0 ? 0 : Math.max(1, Math.ceil(batch.minShare * limit()));
  }

  /** Places that online will want again within the time that a batch job keeps one. */
  function kept(): number {
    if (places === undefined) return 0;
    return Math.max(
      isAlone && fixed === undefined ? 0 : batch.reserveSlots,
      fixed === undefined ? Math.floor(onlinePeak + peakMargin * Math.sqrt(onlinePeak)) : 0,
    );
  }

  function most(): number {
    return Math.max(least(), Math.min(limit() - kept(), fixed ?? Infinity));
  }

  /** Nobody is online, and the backend takes what comes. */
  function hasAll(nowMs: number): boolean {
    return fixed === undefined && isAlone && nowMs - busyMs >= idleMs;
  }

  /** What is felt just now says little of one stream's pace: a step with a long prompt in it is one gap among hundreds. */
  function smooth(nowMs: number, { feel, running, onlineWaiting }: CapSignals): OnlineFeel {
    const keptShare = (ms: number) => Math.exp((tickedMs - nowMs) / ms);
    const online = running.online + onlineWaiting;
    onlinePeak = Math.max(online, onlinePeak * keptShare(peakMs));
    onlineUsual = online + ((onlineUsual ?? online) - online) * keptShare(usualMs);
    itl = (feel.itl ?? 0) + (itl - (feel.itl ?? 0)) * keptShare(smoothMs);
    tickedMs = nowMs;
    return feel.itl === undefined ? feel : { ...feel, itl };
  }

  function isRising({ running, onlineWaiting }: CapSignals): boolean {
    return running.online + onlineWaiting > riseTimes * (onlineUsual ?? 0) + riseJobs;
  }

  function stateOf(cause: CapCause, nowMs: number, pressures: Pressures): CapState {
    const pressure = highest(pressures);
    if (since?.cause !== cause) since = { cause, atMs: nowMs };
    return {
      cap: isIdle ? limit() : Math.floor(cap + rounding),
      reserveSlots: isAlone && fixed === undefined ? 0 : batch.reserveSlots,
      cause,
      sinceMs: since.atMs,
      pressures,
      ...(pressure === undefined ? {} : { pressure }),
      ...(lastCut === undefined ? {} : { lastCut }),
    };
  }

  /** @param running what the cap allows beyond it nobody uses */
  function cut(cause: CapCause, nowMs: number, running: number): CapCause {
    if (nowMs - cutMs >= cutPauseMs) {
      cutMs = nowMs;
      const left = Math.min(cap, Math.max(1, running)) * decrease;
      cap = Math.max(least(), left < leastCap ? 0 : left);
      lastCut = { cause, atMs: nowMs };
    }
    return cap === least() && cap > 0 ? 'min_share' : cause;
  }

  function grow(pressure: number, signals: CapSignals): CapCause {
    if (cap >= 1 && signals.running.batch < cap / 2) return 'app_limited';
    cap = Math.min(most(), cap + increase * Math.max(0, 1 - pressure / threshold));
    return cap === most() ? 'slots' : 'growing';
  }

  function adapt(nowMs: number, signals: CapSignals, pressures: Pressures): CapCause {
    const { engine } = signals;
    const pressure = highest(pressures) ?? 0;
    if (pressure <= threshold) return grow(pressure, signals);
    const isNews = engine !== undefined && engine.atMs > actedMs;
    const acting = isNews ? pressures : withoutHeld(pressures, signals);
    const isActing = (highest(acting) ?? 0) > threshold;
    if (engine !== undefined) actedMs = engine.atMs;
    const cause = nameOf(isActing ? acting : pressures);
    // What the engine said a while ago is no reason to cut again, nor to grow.
    return isActing ? cut(cause, nowMs, signals.running.batch) : cause;
  }

  /** Back to the fixed number, where something was taken back. */
  function keep(): CapCause {
    cap = Math.min(most(), cap + increase);
    isShort &&= cap < most();
    return isShort ? 'reclaimed' : 'fixed';
  }

  return {
    tick(nowMs, signals) {
      places = signals.places;
      if (signals.running.online > 0 || signals.onlineWaiting > 0) onlineMs = nowMs;
      const pressures = pressuresOf({ ...signals, feel: smooth(nowMs, signals) });
      if (nowMs - busyMs < cutPauseMs) pressures.busy = pressed;
      if (isRising(signals)) pressures.rise = pressed;
      isAlone = nowMs - onlineMs >= idleMs;
      isIdle = hasAll(nowMs);
      // What it was saved with may not fit any more.
      cap = Math.max(least(), Math.min(cap, most()));
      let cause: CapCause;
      if (isIdle) cause = 'no_online';
      else cause = fixed === undefined ? adapt(nowMs, signals, pressures) : keep();
      state = stateOf(cause, nowMs, pressures);
      return state;
    },
    onlineArrived(nowMs) {
      onlineMs = Math.max(onlineMs, nowMs);
      if (!isAlone || fixed !== undefined) return;
      const cause = isIdle ? 'growing' : state.cause;
      isAlone = false;
      isIdle = false;
      state = stateOf(cause, nowMs, state.pressures);
    },
    reclaimed(remaining, nowMs) {
      cap = Math.max(least(), Math.min(cap, remaining));
      isShort = true;
      lastCut = { cause: 'reclaimed', atMs: nowMs };
      state = stateOf('reclaimed', nowMs, state.pressures);
    },
    busy(running, nowMs) {
      busyMs = nowMs;
      if (fixed !== undefined) return;
      // It had all while nobody was online: what it had is what was too much.
      if (isIdle) cap = running;
      isIdle = false;
      const cause = cut('busy', nowMs, running);
      state = stateOf(cause, nowMs, { ...state.pressures, busy: pressed });
    },
    state: () => state,
  };
}

type MutablePressures = { -readonly [signal in keyof Pressures]: Pressures[signal] };

/** Tenths that are added up come to a little less than one. */
const rounding = 1e-9;

/** Each signal over its bound. */
export function pressuresOf({ feel, engine, onlineWaiting }: CapSignals): MutablePressures {
  const pressures: MutablePressures = {};
  if (feel.tpot !== undefined) pressures.tpot = feel.tpot;
  if (feel.itl !== undefined) pressures.itl = feel.itl;
  if (feel.ttft !== undefined) pressures.ttft = ttftWeight * feel.ttft;
  if (engine?.kvUsage !== undefined) pressures.kv = engine.kvUsage / fullKv;
  if (onlineWaiting > 0) pressures.waiting = pressed;
  else if (engine?.waiting !== undefined) pressures.waiting = engine.waiting > 0 ? pressed : 0;
  if (engine?.preempted !== undefined) pressures.preemptions = engine.preempted > 0 ? pressed : 0;
  return pressures;
}

/** Without what only repeats the engine's last reading. */
function withoutHeld(pressures: Pressures, { onlineWaiting }: CapSignals): Pressures {
  const { kv: _kv, preemptions: _preemptions, waiting, ...own } = pressures;
  return onlineWaiting > 0 && waiting !== undefined ? { ...own, waiting } : own;
}

function highest(pressures: Pressures): number | undefined {
  let found: number | undefined;
  for (const name of signalNames) {
    const value = pressures[name];
    if (value !== undefined && (found === undefined || value > found)) found = value;
  }
  return found;
}

/** The signal that is highest; to be asked where there is one. */
function nameOf(pressures: Pressures): CapCause {
  const top = highest(pressures);
  return signalNames.find((name) => pressures[name] === top) ?? 'waiting';
}
