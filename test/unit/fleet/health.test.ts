import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  drainingRetryMs,
  initialHealth,
  nextHealth,
  type FleetSignal,
  type HealthEvent,
  type HealthState,
  type ProbeOutcome,
} from '../../../src/fleet/health.ts';

/** Feeds events one second apart, from 1 s on; probes start when they end unless they say otherwise. */
function after(...events: (HealthEvent | ProbeOutcome)[]): HealthState {
  return events.reduce((state, event, index) => {
    const nowMs = (index + 1) * 1000;
    const whole = isEvent(event) ? event : { kind: 'probe' as const, startedMs: nowMs, outcome: event, busy: false };
    return nextHealth(state, whole, nowMs);
  }, initialHealth(1));
}

const signals = [
  'connectFailed',
  'resetBeforeHead',
  'drainingAnswer',
  'engineDied',
  'loadingAnswer',
  'answered',
  'changed',
];

function isEvent(event: HealthEvent | ProbeOutcome): event is HealthEvent {
  return event.kind === 'probe' || signals.includes(event.kind);
}

const ok: ProbeOutcome = { kind: 'ok' };
const loading: ProbeOutcome = { kind: 'loading' };
const refused: ProbeOutcome = { kind: 'failed', failure: 'refused' };
const timeout: ProbeOutcome = { kind: 'failed', failure: 'timeout' };
const draining: FleetSignal = { kind: 'drainingAnswer' };
const reset: FleetSignal = { kind: 'resetBeforeHead' };

const answered = (sentMs: number, generates = true): FleetSignal => ({ kind: 'answered', sentMs, generates });

describe('probes', () => {
  it('a good one makes it up, and the moment of the change stays', () => {
    expect(after(ok, ok)).toEqual({ health: 'up', sinceMs: 1000, reason: 'answers', misses: 0, refusing: false });
  });

  it('a refusal is death at once, however busy it is', () => {
    const busy: HealthEvent = { kind: 'probe', startedMs: 2000, outcome: refused, busy: true };
    expect(after(ok, busy)).toMatchObject({ health: 'down', reason: 'refused', refusing: true });
  });

  it('R12 C068 a slow one while our requests run is not death, however often it happens', () => {
    const slow: HealthEvent = { kind: 'probe', startedMs: 2000, outcome: timeout, busy: true };
    const up = after(ok);
    expect(after(ok, slow, slow, slow, slow)).toEqual(up);
  });

  it('a slow one of an idle backend is a doubt, and a second one its death', () => {
    expect(after(ok, timeout)).toMatchObject({ health: 'up', misses: 1 });
    expect(after(ok, timeout, timeout)).toMatchObject({ health: 'down', reason: 'timeout', refusing: false });
  });

  it('a good one between two slow ones takes the doubt away', () => {
    expect(after(ok, timeout, ok, timeout)).toMatchObject({ health: 'up', misses: 1 });
  });

  it('a connection that does not come about counts, however busy we are: a host that is gone must not stay up', () => {
    const unreachable: ProbeOutcome = { kind: 'failed', failure: 'connect_timeout' };
    const busy: HealthEvent = { kind: 'probe', startedMs: 2000, outcome: unreachable, busy: true };
    expect(after(ok, busy, busy)).toMatchObject({ health: 'down', reason: 'connect_timeout' });
  });

  it('a first one that fails is enough to know that it is down', () => {
    expect(after(timeout)).toMatchObject({ health: 'down', reason: 'timeout' });
    expect(after({ kind: 'failed', failure: 'dns' })).toMatchObject({ health: 'down', reason: 'dns' });
  });

  it('loading is not death, from the start and after a restart', () => {
    expect(after(loading)).toMatchObject({ health: 'loading', reason: 'model_loading' });
    expect(after(ok, refused, loading)).toMatchObject({ health: 'loading', refusing: false });
    expect(after(ok, refused, loading, ok)).toMatchObject({ health: 'up', sinceMs: 4000 });
  });

  it('R06 one that says that the engine is dead is death at once', () => {
    expect(after(ok, { kind: 'engine_dead' })).toMatchObject({ health: 'down', reason: 'engine_dead' });
  });

  it('one other bad status is a doubt', () => {
    expect(after(ok, { kind: 'bad_status' })).toMatchObject({ health: 'up', misses: 1 });
    expect(after(ok, { kind: 'bad_status' }, { kind: 'bad_status' })).toMatchObject({
      health: 'down',
      reason: 'bad_status',
    });
  });

  it('C069 a refused key is auth, not endless loading, and a mended one makes it up', () => {
    expect(after({ kind: 'auth' })).toMatchObject({ health: 'auth', reason: 'key_refused' });
    expect(after({ kind: 'auth' }, ok)).toMatchObject({ health: 'up' });
  });

  it('a good one that began before traffic told of a death does not undo it', () => {
    const old: HealthEvent = { kind: 'probe', startedMs: 1500, outcome: ok, busy: false };
    const state = after(ok, { kind: 'engineDied' }, old);
    expect(state).toMatchObject({ health: 'down', reason: 'engine_dead' });
    expect(nextHealth(state, { ...old, startedMs: 3500 }, 4000)).toMatchObject({ health: 'up' });
  });
});

describe('traffic', () => {
  it('a refused connection is death at once', () => {
    expect(after(ok, { kind: 'connectFailed', fault: 'refused' })).toMatchObject({ health: 'down', refusing: true });
  });

  it.each(['connect_timeout', 'dns', 'tls'] as const)('one %s is a doubt, two are death', (fault) => {
    expect(after(ok, { kind: 'connectFailed', fault })).toMatchObject({ health: 'up', misses: 1 });
    expect(after(ok, { kind: 'connectFailed', fault }, { kind: 'connectFailed', fault })).toMatchObject({
      health: 'down',
      reason: fault,
    });
  });

  it('one reset is a doubt, two without an answer between them are death', () => {
    expect(after(ok, reset)).toMatchObject({ health: 'up', misses: 1 });
    expect(after(ok, reset, answered(2500), reset)).toMatchObject({ health: 'up', misses: 1 });
    expect(after(ok, reset, reset)).toMatchObject({ health: 'down', reason: 'reset' });
  });

  it('R06 an engine that reported its death is down at once', () => {
    expect(after(ok, { kind: 'engineDied' })).toMatchObject({ health: 'down', reason: 'engine_dead', sinceMs: 2000 });
  });

  it('a 503 while loading is loading', () => {
    expect(after(ok, { kind: 'loadingAnswer' })).toMatchObject({ health: 'loading' });
  });

  it('an answer makes one that nobody has probed up', () => {
    expect(after(answered(500, false))).toMatchObject({ health: 'up' });
  });

  it('a generating answer sent since the change brings it back', () => {
    expect(after(ok, { kind: 'engineDied' }, answered(2500))).toMatchObject({ health: 'up', sinceMs: 3000 });
  });

  it('C069 an answer to a client that has its own key does not hide that ours is wrong', () => {
    expect(after({ kind: 'auth' }, answered(1500))).toMatchObject({ health: 'auth' });
  });

  it('a change made on purpose says nothing about health', () => {
    const up = after(ok, timeout);
    expect(nextHealth(up, { kind: 'changed' }, 9000)).toBe(up);
  });
});

describe('draining', () => {
  it('R05 an answer that says so means no new work, while /health is good', () => {
    expect(after(ok, draining)).toMatchObject({ health: 'draining', reason: 'shutting_down' });
    expect(after(ok, draining, ok, ok)).toMatchObject({ health: 'draining', sinceMs: 2000 });
  });

  it('R05 streams that finish meanwhile, and answers that generate nothing, do not end it', () => {
    expect(after(ok, draining, answered(1500), answered(2500, false))).toMatchObject({ health: 'draining' });
  });

  it('R05 ends with the port, and with its coming back', () => {
    expect(after(ok, draining, refused)).toMatchObject({ health: 'down', reason: 'refused' });
    expect(after(ok, draining, refused, ok)).toMatchObject({ health: 'up' });
  });

  it('R05 ends when it loads again, or when a generating request sent since was answered', () => {
    expect(after(ok, draining, loading)).toMatchObject({ health: 'loading' });
    expect(after(ok, draining, answered(2500))).toMatchObject({ health: 'up' });
  });

  it('C064 is tried again after a minute, and drains on if that is the answer', () => {
    const state = after(ok, draining);
    const probeAt = (nowMs: number) =>
      nextHealth(state, { kind: 'probe', startedMs: nowMs, outcome: ok, busy: false }, nowMs);
    expect(probeAt(2000 + drainingRetryMs - 1)).toMatchObject({ health: 'draining' });
    const tried = probeAt(2000 + drainingRetryMs);
    expect(tried).toMatchObject({ health: 'up', reason: 'tried_again' });
    expect(nextHealth(tried, draining, 70_000)).toMatchObject({ health: 'draining', sinceMs: 70_000 });
  });
});

const outcomes = fc.oneof(
  fc.constantFrom<ProbeOutcome>(ok, loading, { kind: 'auth' }, { kind: 'engine_dead' }, { kind: 'bad_status' }),
  fc
    .constantFrom('refused', 'connect_timeout', 'timeout', 'reset', 'dns', 'tls', 'other' as const)
    .map((failure): ProbeOutcome => ({ kind: 'failed', failure })),
);
const events: fc.Arbitrary<HealthEvent> = fc.oneof(
  fc.record({ kind: fc.constant('probe' as const), startedMs: fc.nat(100_000), outcome: outcomes, busy: fc.boolean() }),
  fc.constantFrom<FleetSignal>(reset, draining, { kind: 'engineDied' }, { kind: 'loadingAnswer' }, { kind: 'changed' }),
  fc
    .constantFrom('refused', 'connect_timeout', 'dns', 'tls' as const)
    .map((fault): FleetSignal => ({ kind: 'connectFailed', fault })),
  fc
    .record({ sentMs: fc.nat(100_000), generates: fc.boolean() })
    .map((answer): FleetSignal => ({ kind: 'answered', ...answer })),
);
const histories = fc.array(fc.record({ event: events, pauseMs: fc.nat(5000) }), { maxLength: 40 });

function live(history: readonly { event: HealthEvent; pauseMs: number }[]) {
  let nowMs = 1;
  let state = initialHealth(nowMs);
  for (const { event, pauseMs } of history) {
    nowMs += pauseMs;
    state = nextHealth(state, event, nowMs);
  }
  return { state, nowMs };
}

describe('whatever happened', () => {
  it('C064 a backend that answers its probes again is up within two minutes', () => {
    fc.assert(
      fc.property(histories, (history) => {
        let { state, nowMs } = live(history);
        for (let i = 0; i < 60; i += 1) {
          nowMs += 2000;
          state = nextHealth(state, { kind: 'probe', startedMs: nowMs, outcome: ok, busy: false }, nowMs);
        }
        expect(state).toMatchObject({ health: 'up', misses: 0, refusing: false });
      }),
    );
  });

  it('only a refusal is called refusing, and only while it is down', () => {
    fc.assert(
      fc.property(histories, (history) => {
        const { state } = live(history);
        if (state.refusing) expect(state).toMatchObject({ health: 'down', reason: 'refused' });
      }),
    );
  });

  it('the moment of the change moves exactly when health does, and nothing changed is the same object', () => {
    fc.assert(
      fc.property(histories, events, (history, event) => {
        const { state, nowMs } = live(history);
        const next = nextHealth(state, event, nowMs + 1);
        expect(next.sinceMs).toBe(next.health === state.health ? state.sinceMs : nowMs + 1);
        if (JSON.stringify(next) === JSON.stringify(state)) expect(next).toBe(state);
      }),
    );
  });
});
