/**
 * The circuit breaker of one backend: weighs how attempts on it end, and says when it is to be left alone (open), when one
 * job at a time may try it again (trial), and when it is as any other (closed). Knows no sockets, keeps no timer: the
 * caller asks `dueMs` and calls `tick`.
 *
 * What is neither good nor bad (any 4xx, a full queue, a client that left) never gets here: it neither resets a run of
 * failures nor closes a trial (C062, C065).
 */
import type { BreakerSettings } from './settings.ts';

export type BreakerState = 'closed' | 'open' | 'trial';

export interface Breaker {
  readonly state: BreakerState;
  /** Monotonic ms of the last change of `state`; -Infinity before the first. */
  readonly sinceMs: number;
  /** How often it has opened. */
  readonly openings: number;
  /** An attempt that began at `startedMs` has ended. @returns the state is another one now */
  tried(how: 'good' | 'bad', startedMs: number, nowMs: number): boolean;
  /** The backend was up and is gone. The second time within a while counts as flapping. @returns as `tried` */
  fell(nowMs: number): boolean;
  /** When the trial begins; undefined unless open. */
  dueMs(): number | undefined;
  /** @returns as `tried` */
  tick(nowMs: number): boolean;
}

/** The window is this many slots that are dropped one by one. */
const slots = 10;
/** A delay is drawn from this much around its length, so that proxies don't come back all at once. */
const jitter = 0.2;

interface Slot {
  number: number;
  good: number;
  bad: number;
}

/** @param random 0 up to 1 */
export function createBreaker(settings: BreakerSettings, random: () => number): Breaker {
  const slotMs = settings.windowMs / slots;
  /** After so long without opening or falling a backend counts as calm: its next backoff is the first one again. */
  const calmMs = 2 * settings.maxBackoffMs;
  let window: Slot[] = [];
  let state: BreakerState = 'closed';
  let sinceMs = -Infinity;
  let openedMs = -Infinity;
  let untilMs = Infinity;
  let troubledMs = -Infinity;
  let fellMs = -Infinity;
  let level = 0;
  let openings = 0;
  let run = 0;

  function move(next: BreakerState, nowMs: number): true {
    state = next;
    sinceMs = nowMs;
    run = 0;
    window = [];
    return true;
  }

  function open(nowMs: number): true {
    level = nowMs - troubledMs > calmMs ? 0 : level + 1;
    troubledMs = nowMs;
    openedMs = nowMs;
    openings += 1;
    const fullMs = Math.min(settings.maxBackoffMs, settings.backoffMs * 2 ** Math.min(level, 30));
    untilMs = nowMs + fullMs * (1 - jitter + 2 * jitter * random());
    return move('open', nowMs);
  }

  function close(nowMs: number): true {
    troubledMs = nowMs;
    return move('closed', nowMs);
  }

  function count(how: 'good' | 'bad', nowMs: number): void {
    const number = Math.floor(nowMs / slotMs);
    const last = window.at(-1);
    const slot = last?.number === number ? last : { number, good: 0, bad: 0 };
    if (slot !== last) window = [...window, slot].filter((one) => one.number > number - slots);
    slot[how] += 1;
    run = how === 'good' ? 0 : run + 1;
  }

  function isTooBad(): boolean {
    if (run >= settings.failures) return true;
    const bad = window.reduce((sum, slot) => sum + slot.bad, 0);
    const all = window.reduce((sum, slot) => sum + slot.bad + slot.good, 0);
    return all >= settings.minRequests && bad >= all * settings.share;
  }

  return {
    get state() {
      return state;
    },
    get sinceMs() {
      return sinceMs;
    },
    get openings() {
      return openings;
    },
    tried(how, startedMs, nowMs) {
      if (!settings.enabled) return false;
      switch (state) {
        case 'closed':
          // What began in another time says nothing of this one.
          if (startedMs < sinceMs) return false;
          count(how, nowMs);
          return how === 'bad' && isTooBad() ? open(nowMs) : false;
        case 'open':
          return how === 'good' && startedMs >= openedMs ? close(nowMs) : false;
        case 'trial':
          if (how === 'good') return startedMs >= openedMs ? close(nowMs) : false;
          return startedMs >= sinceMs ? open(nowMs) : false;
      }
    },
    fell(nowMs) {
      const again = nowMs - fellMs <= calmMs;
      fellMs = nowMs;
      return settings.enabled && again ? open(nowMs) : false;
    },
    dueMs: () => (state === 'open' ? untilMs : undefined),
    tick: (nowMs) => (state === 'open' && nowMs >= untilMs ? move('trial', nowMs) : false),
  };
}
