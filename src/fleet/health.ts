/**
 * The health of one backend as a pure state machine: (state, event, nowMs) → state, with the reason.
 * Events are probe results and what the traffic itself shows. It knows no sockets and keeps no clock. A breaker that
 * weighs failure rates would be one more function over the same events.
 *
 * The rules, in the order in which they were learned: a refusal is death, a slow answer is not while requests run (R12);
 * loading is not death; a 4xx says nothing about health; draining ends with the port, and by a new try after a minute,
 * since the port of a load balancer never refuses; everything recovers by itself.
 */
import type { BackendHealth } from '../domain/fleet.ts';
import type { ProbeFailureKind } from './probe-port.ts';

export type HealthReason =
  | 'not_probed'
  | 'answers'
  | 'tried_again'
  | 'model_loading'
  | 'shutting_down'
  | 'key_refused'
  | 'engine_dead'
  | 'bad_status'
  | ProbeFailureKind;

export type ProbeOutcome =
  | { readonly kind: 'ok' | 'loading' | 'auth' | 'engine_dead' | 'bad_status' }
  | { readonly kind: 'failed'; readonly failure: ProbeFailureKind };

/** What traffic shows of a backend. A 4xx is no signal, so there is none for it. */
export type FleetSignal =
  /** No connection came about; `fault` as the upstream client names it. */
  | { readonly kind: 'connectFailed'; readonly fault: 'refused' | 'connect_timeout' | 'dns' | 'tls' }
  /** A fresh connection broke before the response's head. A stale pooled one is no sign. */
  | { readonly kind: 'resetBeforeHead' }
  /** It answers that it shuts down (R05). */
  | { readonly kind: 'drainingAnswer' }
  /** It reported its engine's death inside a stream (R06). */
  | { readonly kind: 'engineDied' }
  /** 503 while its model loads. */
  | { readonly kind: 'loadingAnswer' }
  /** A good head, for a request that was sent at `sentMs` (monotonic); `generates`: so an engine slot took it. */
  | { readonly kind: 'answered'; readonly sentMs: number; readonly generates: boolean }
  /** Something was changed there on purpose (a model loaded): its facts are to be read anew. No sign of health. */
  | { readonly kind: 'changed' };

export type HealthEvent =
  | FleetSignal
  | {
      readonly kind: 'probe';
      readonly startedMs: number;
      readonly outcome: ProbeOutcome;
      /** Requests of ours are there, or may still be. */
      readonly busy: boolean;
    };

export interface HealthState {
  readonly health: BackendHealth;
  /** Monotonic ms of the last change of `health`. */
  readonly sinceMs: number;
  readonly reason: HealthReason;
  /** Doubtful failures in a row, without a sign of life between them. */
  readonly misses: number;
  /** Its port refused, and nothing has answered since. */
  readonly refusing: boolean;
}

/** So many doubtful failures in a row are a death: one may be an accident. */
const fatalMisses = 2;
/** A draining backend that is still there after so long gets a request again; if it drains still, that one says so. */
export const drainingRetryMs = 60_000;

export function initialHealth(nowMs: number): HealthState {
  return { health: 'unknown', sinceMs: nowMs, reason: 'not_probed', misses: 0, refusing: false };
}

/** Returns the same object when nothing changed. */
export function nextHealth(state: HealthState, event: HealthEvent, nowMs: number): HealthState {
  switch (event.kind) {
    case 'probe':
      return afterProbe(state, event, nowMs);
    case 'answered':
      return afterAnswer(state, event, nowMs);
    case 'loadingAnswer':
      return move(state, 'loading', 'model_loading', nowMs);
    case 'drainingAnswer':
      return move(state, 'draining', 'shutting_down', nowMs);
    case 'engineDied':
      return move(state, 'down', 'engine_dead', nowMs);
    case 'connectFailed':
      return event.fault === 'refused' ? refuse(state, nowMs) : miss(state, event.fault, nowMs);
    case 'resetBeforeHead':
      return miss(state, 'reset', nowMs);
    case 'changed':
      return state;
  }
}

function afterProbe(state: HealthState, event: HealthEvent & { kind: 'probe' }, nowMs: number): HealthState {
  const { outcome } = event;
  // Traffic told something newer than what this probe can have seen.
  const stale = event.startedMs < state.sinceMs;
  switch (outcome.kind) {
    case 'ok':
      return stale ? state : afterGoodProbe(state, nowMs);
    case 'loading':
      return stale ? state : move(state, 'loading', 'model_loading', nowMs);
    case 'auth':
      return stale ? state : move(state, 'auth', 'key_refused', nowMs);
    case 'engine_dead':
      return move(state, 'down', 'engine_dead', nowMs);
    case 'bad_status':
      return miss(state, 'bad_status', nowMs);
    case 'failed':
      if (outcome.failure === 'refused') return refuse(state, nowMs);
      if (outcome.failure === 'timeout' && event.busy) return state;
      return miss(state, outcome.failure, nowMs);
  }
}

function afterGoodProbe(state: HealthState, nowMs: number): HealthState {
  if (state.health !== 'draining') return move(state, 'up', 'answers', nowMs);
  if (nowMs - state.sinceMs >= drainingRetryMs) return move(state, 'up', 'tried_again', nowMs);
  return same(state, { ...state, misses: 0, refusing: false });
}

/**
 * Any answer is a sign of life, but only a generating one that was sent since the last change shows that new work is
 * taken: a draining or dead engine still lists its models, and finishes what runs.
 */
function afterAnswer(state: HealthState, event: HealthEvent & { kind: 'answered' }, nowMs: number): HealthState {
  const { health } = state;
  const takesWork = health === 'unknown' || health === 'up' || (event.generates && event.sentMs > state.sinceMs);
  // A client's own key may pass where ours doesn't, so `auth` isn't mended by an answer.
  if (!takesWork || health === 'auth') return same(state, { ...state, misses: 0, refusing: false });
  return move(state, 'up', 'answers', nowMs);
}

function refuse(state: HealthState, nowMs: number): HealthState {
  const down = move(state, 'down', 'refused', nowMs);
  return same(state, { ...down, refusing: true });
}

function miss(state: HealthState, reason: HealthReason, nowMs: number): HealthState {
  const misses = Math.min(state.misses + 1, fatalMisses);
  if (state.health !== 'unknown' && misses < fatalMisses && state.health !== 'down') return { ...state, misses };
  // A port that refused doesn't refuse any more once something else happens to it.
  return same(state, { ...move(state, 'down', reason, nowMs), misses });
}

function move(state: HealthState, health: BackendHealth, reason: HealthReason, nowMs: number): HealthState {
  const sinceMs = health === state.health ? state.sinceMs : nowMs;
  return same(state, { health, sinceMs, reason, misses: 0, refusing: false });
}

function same(before: HealthState, after: HealthState): HealthState {
  const equal =
    before.health === after.health &&
    before.sinceMs === after.sinceMs &&
    before.reason === after.reason &&
    before.misses === after.misses &&
    before.refusing === after.refusing;
  return equal ? before : after;
}
