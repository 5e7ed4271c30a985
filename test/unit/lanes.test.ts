import { beforeEach, describe, expect, it } from 'vitest';
import type { BatchCap } from '../../src/admit/batch-cap.ts';
import { laneDefaults, type LaneSettings } from '../../src/admit/lane-settings.ts';
import type { LiveStream } from '../../src/admit/online-feel.ts';
import type { EngineReading } from '../../src/domain/engine-reading.ts';
import type { BackendView, FleetSnapshot } from '../../src/domain/fleet.ts';
import { createLanes, type LaneOwner, type Lanes, lanesTold } from '../../src/lanes.ts';
import { createFakeClock, type FakeClock } from '../support/fake-clock.ts';
import { sampleBackend, sampleJob } from '../support/sample.ts';

const tickMs = 250;
type Stream = { -readonly [key in keyof LiveStream]: LiveStream[key] };

function backendOf(name: string, over: Partial<BackendView> = {}): BackendView {
  return sampleBackend(name, { engine: 'vllm', models: [], slots: 8, ...over });
}

/** What the owner of places, the fleet and the engines say, to be changed by a test at any moment. */
interface Surroundings {
  clock: FakeClock;
  snapshot: FleetSnapshot;
  settings: LaneSettings;
  streams: Stream[];
  readings: Map<string, EngineReading>;
  running: Map<string, { online: number; batch: number }>;
  wanted: Map<string, number>;
  batchWaiting: number;
  reclaimed: Map<string, { jobs: number; lostTokens: number }>;
  abortsWork: boolean | undefined;
  told: number;
  looks: number;
  /** how many jobs the owner was asked to take back, each time */
  asked: number[];
  /** backends on which it was asked to take prompts back */
  askedPrompts: string[];
  /** with which bounds */
  askedBounds: (number | undefined)[];
}

let around: Surroundings;
let lanes: Lanes;

/** Backends that were warned of, and what was said. */
let warned: (readonly [string, string])[] = [];

function open(makeCap?: () => BatchCap): Lanes {
  warned = [];
  const owner: LaneOwner = {
    running: (backend) => around.running.get(backend) ?? { online: 0, batch: 0 },
    wanted: () => around.wanted,
    depths: () => [
      { lane: 'online', jobs: 0, tokens: 0, tenants: 0 },
      { lane: 'batch', jobs: around.batchWaiting, tokens: 0, tenants: 1 },
    ],
    reclaim(backend, jobs) {
      around.asked.push(jobs);
      const before = around.reclaimed.get(backend) ?? { jobs: 0, lostTokens: 0 };
      around.reclaimed.set(backend, { jobs: before.jobs + jobs, lostTokens: before.lostTokens + 100 });
      return { jobs, lostTokens: 100 };
    },
    reclaimPrompts(backend, ttftBoundMs) {
      around.askedPrompts.push(backend);
      around.askedBounds.push(ttftBoundMs);
      return { jobs: 0, lostTokens: 0 };
    },
    reclaimed: (backend) => around.reclaimed.get(backend) ?? { jobs: 0, lostTokens: 0 },
    capsChanged: () => (around.told += 1),
  };
  return createLanes(() => around.settings, {
    warn: (backend, note) => void warned.push([backend, note]),
    clock: around.clock,
    fleet: () => around.snapshot,
    owner: () => owner,
    streams(visit) {
      around.looks += 1;
      around.streams.forEach(visit);
    },
    engine: (backend) => around.readings.get(backend),
    abortsWork: () => around.abortsWork,
    ...(makeCap === undefined ? {} : { makeCap }),
  });
}

beforeEach(() => {
  around = {
    clock: createFakeClock(),
    snapshot: { atMs: 1, backends: [backendOf('a'), backendOf('b', { models: ['m'] })] },
    settings: laneDefaults,
    streams: [],
    readings: new Map(),
    running: new Map(),
    wanted: new Map(),
    batchWaiting: 1,
    reclaimed: new Map(),
    abortsWork: true,
    told: 0,
    looks: 0,
    asked: [],
    askedPrompts: [],
    askedBounds: [],
  };
  lanes = open();
});

function waitingStream(over: Partial<Stream> = {}): Stream {
  const nowMs = around.clock.nowMs();
  return {
    backend: 'a',
    lane: 'online',
    streams: true,
    askedMs: nowMs,
    sentMs: nowMs,
    firstTokenMs: undefined,
    lastTokenMs: undefined,
    tokens: 0,
    events: 0,
    promptTokens: 100,
    bound: { ttftMs: 2000, tpotMs: 100 },
    ...over,
  };
}

function reading(over: { readonly gauges?: object; readonly counters?: object } = {}): EngineReading {
  return { atMs: around.clock.nowMs(), gauges: {}, counters: {}, ...over };
}

const ticks = (count: number) => around.clock.advance(count * tickMs);
const busy = (batch: number, online = 1) => around.running.set('a', { online, batch });
const ofA = () => lanes.state(true)[0];

describe('lanes', () => {
  it('look at nothing and set no timer while there is no batch work', () => {
    lanes.onlineAsked({});
    lanes.ended(waitingStream());
    around.clock.advance(60_000);
    expect(around.clock.pending()).toBe(0);
    expect(around.looks).toBe(0);
    expect(lanes.isTicking()).toBe(false);
  });

  it('show whoever asks what online users feel just then, also while there is no batch work', () => {
    const nowMs = around.clock.nowMs();
    const slow = { firstTokenMs: nowMs - 2000, lastTokenMs: nowMs, tokens: 21, events: 21 };
    around.streams = [waitingStream(slow), waitingStream({ askedMs: nowMs - 1000 })];
    around.readings.set('a', reading({ gauges: { kvUsage: 0.45 } }));
    expect(ofA()).toMatchObject({ watched: false, cap: 8, pressures: { tpot: 1, ttft: 0.4, kv: 0.5 }, pressure: 1 });
    around.wanted.set('a', 1);
    expect(ofA()).toMatchObject({ pressures: { waiting: 1.5 }, pressure: 1.5 });
    expect(lanes.isTicking()).toBe(false);
    expect(lanes.state(true)[1]).toMatchObject({ backend: 'b', watched: false, pressures: {} });
    expect(lanes.state(true)[1]).not.toHaveProperty('pressure');
    lanes.batchOn('a');
    expect(ofA()).toMatchObject({ watched: true });
  });

  it('tick while batch waits or runs, and for ten seconds after it', () => {
    lanes.batchOn('a');
    ticks(100);
    expect(around.looks).toBe(100);
    around.batchWaiting = 0;
    busy(1);
    ticks(10);
    expect(around.looks).toBe(110);
    around.running.clear();
    ticks(200);
    expect(around.looks).toBe(150);
    expect(around.clock.pending()).toBe(0);
  });

  it('give all places while nobody is online', () => {
    expect(lanes.batchOn('a')).toEqual({ cap: 8, reserveSlots: 0, gate: true, settleMs: 200, reclaim: true });
  });

  it('keep batch prompts out for two tokens’ time after a first token, by the tightest bound of those online', () => {
    lanes.batchOn('a');
    busy(1);
    const bounds = [60, 40].map((tpotMs) => waitingStream({ bound: { ttftMs: 1000, tpotMs } }));
    const ofBatch = waitingStream({ lane: 'batch', bound: { ttftMs: 1000, tpotMs: 10 } });
    around.streams = [...bounds, ofBatch];
    ticks(1);
    expect(lanes.batchOn('a').settleMs).toBe(80);
    expect(lanes.batchOn('b').settleMs).toBe(200);
    around.streams = [];
    ticks(1);
    expect(lanes.batchOn('a').settleMs).toBe(80);
  });

  it('hand the owner the same rule until it is another one', () => {
    const rule = lanes.batchOn('a');
    ticks(3);
    expect(lanes.batchOn('a')).toBe(rule);
  });

  it('take places back to what was saved at the very arrival of an online job', () => {
    around.settings = { ...laneDefaults, batch: { ...laneDefaults.batch, reserveSlots: 1 } };
    lanes.batchOn('a');
    lanes.onlineAsked({});
    expect(lanes.batchOn('a')).toMatchObject({ cap: 4, reserveSlots: 1 });
  });

  it('leave backends alone that do not serve the model that is asked for', () => {
    lanes.batchOn('a');
    lanes.onlineAsked({ model: 'other' });
    expect(lanes.batchOn('a').cap).toBe(4);
    expect(lanes.batchOn('b').cap).toBe(8);
    lanes.onlineAsked({ model: 'alias', servedModel: 'm' });
    expect(lanes.batchOn('b').cap).toBe(4);
  });

  it('tell the owner when batch may have more, and only then', () => {
    lanes.batchOn('a');
    lanes.onlineAsked({});
    busy(4);
    ticks(1);
    expect(around.told).toBe(1);
    around.streams = [waitingStream({ firstTokenMs: 1, lastTokenMs: 5000, tokens: 40, events: 40 })];
    ticks(1);
    expect(ofA()?.cap).toBe(2);
    expect(around.told).toBe(1);
  });

  it('keep backends apart: what is felt on one is no matter of the other', () => {
    lanes.batchOn('a');
    lanes.onlineAsked({ model: 'm' });
    around.running.set('a', { online: 1, batch: 4 });
    around.running.set('b', { online: 1, batch: 4 });
    around.streams = [waitingStream({ firstTokenMs: 1, lastTokenMs: 5000, tokens: 40, events: 40 })];
    ticks(1);
    expect(lanes.state(true).map(({ cap }) => cap)).toEqual([2, 5]);
  });

  it('cut batch down at a burst of slow streams and are back within two seconds of its end', () => {
    lanes.batchOn('a');
    lanes.onlineAsked({});
    busy(8);
    ticks(8);
    expect(ofA()?.cap).toBe(7);
    const stream = waitingStream({ firstTokenMs: around.clock.nowMs(), lastTokenMs: around.clock.nowMs() });
    around.streams = [stream];
    const decode = (paceMs: number) => {
      stream.tokens += tickMs / paceMs;
      stream.events = stream.tokens;
      ticks(1);
      stream.lastTokenMs = around.clock.nowMs();
    };
    for (let i = 0; i < 16; i += 1) decode(125);
    expect(ofA()?.cap).toBe(0);
    expect(ofA()?.pressure).toBeGreaterThan(1.2);
    around.streams = [];
    busy(0);
    const beganMs = around.clock.nowMs();
    while ((ofA()?.cap ?? 0) < 1) ticks(1);
    expect(around.clock.nowMs() - beganMs).toBeLessThanOrEqual(2000);
  });

  it('hear of online jobs that wait for a place', () => {
    lanes.batchOn('a');
    lanes.onlineAsked({});
    busy(4);
    around.wanted.set('a', 2);
    ticks(1);
    expect(ofA()).toMatchObject({ cap: 2, cause: 'waiting' });
  });

  it('take the engine’s word, llama-server’s too, and that of ten seconds ago no more', () => {
    lanes.batchOn('a');
    lanes.onlineAsked({});
    busy(4);
    around.readings.set('a', reading({ gauges: { running: 8, waiting: 2 } }));
    ticks(1);
    expect(ofA()).toMatchObject({ cap: 2, cause: 'waiting' });
    ticks(39);
    expect(ofA()).toMatchObject({ cap: 2, cause: 'waiting' });
    ticks(2);
    expect(ofA()).toMatchObject({ cause: 'growing' });
  });

  it('count preemptions from one reading to the next, an engine’s restart as none', () => {
    lanes.batchOn('a');
    lanes.onlineAsked({});
    busy(4);
    const read = (preemptions: number) => {
      around.readings.set('a', reading({ counters: { preemptions } }));
      ticks(1);
      return ofA();
    };
    expect(read(100)?.pressures.preemptions).toBeUndefined();
    expect(read(100)?.pressures.preemptions).toBe(0);
    expect(read(103)).toMatchObject({ cause: 'preemptions', pressures: { preemptions: 1.5 } });
    expect(read(2)?.pressures.preemptions).toBe(0);
  });

  describe('with an online request that got no first token in a quarter of its bound', () => {
    beforeEach(() => {
      lanes.batchOn('a');
      lanes.onlineAsked({});
      busy(4);
      around.streams = [waitingStream()];
    });

    it.each([
      ['a full KV cache', { kvUsage: 0.96 }],
      ['requests that wait in the engine', { waiting: 1 }],
    ])('have one batch job a tick taken back where the engine has %s', (_, gauges) => {
      around.readings.set('a', reading({ gauges }));
      ticks(1);
      expect(around.asked).toEqual([]);
      ticks(2);
      expect(around.asked).toEqual([1, 1]);
      expect(ofA()).toMatchObject({ reclaimed: 2, wastedTokens: 200, cause: 'reclaimed' });
      expect(lanes.batchOn('a').cap).toBeLessThanOrEqual(3);
    });

    it('leave batch alone where the engine has room: the request has its place', () => {
      around.readings.set('a', reading({ gauges: { kvUsage: 0.5, waiting: 0 } }));
      ticks(6);
      expect(around.asked).toEqual([]);
    });

    it('have long batch prompts taken back there, whatever the engine says of itself', () => {
      ticks(1);
      expect(around.askedPrompts).toEqual([]);
      ticks(2);
      expect(around.askedPrompts).toEqual(['a', 'a']);
      around.abortsWork = undefined;
      ticks(2);
      expect(around.askedPrompts).toEqual(['a', 'a']);
    });

    it('say what bound the tightest of those that are late has', () => {
      around.streams = [8000, 500, 900].map((ttftMs) => waitingStream({ bound: { ttftMs, tpotMs: 100 } }));
      ticks(1);
      around.streams = [waitingStream({ bound: { ttftMs: 900, tpotMs: 100 } })];
      ticks(1);
      expect(around.askedBounds).toEqual([500, 900]);
    });

    it('leave batch alone where requests wait in an engine that could run more: a prompt is before them', () => {
      around.readings.set('a', reading({ gauges: { waiting: 2, running: 7 } }));
      ticks(6);
      expect(around.asked).toEqual([]);
      around.readings.set('a', reading({ gauges: { waiting: 2, running: 8 } }));
      ticks(2);
      expect(around.asked).toEqual([1, 1]);
    });

    it.each([false, undefined])(
      'leave batch alone where ending a request is known to free nothing, or not known to (%s)',
      (works) => {
        around.abortsWork = works;
        around.readings.set('a', reading({ gauges: { waiting: 1 } }));
        ticks(6);
        expect(around.asked).toEqual([]);
        expect(lanes.batchOn('a').reclaim).toBe(false);
        expect(ofA()?.abortsWork).toBe(works);
      },
    );

    it('leave batch alone where reclaiming is switched off', () => {
      around.settings = { ...laneDefaults, reclaim: { ...laneDefaults.reclaim, enabled: false } };
      around.readings.set('a', reading({ gauges: { waiting: 1 } }));
      ticks(6);
      expect(around.asked).toEqual([]);
    });

    it('leave batch alone where no batch runs', () => {
      busy(0);
      around.readings.set('a', reading({ gauges: { waiting: 1 } }));
      ticks(6);
      expect(around.asked).toEqual([]);
    });
  });

  it('set the cap to what remains when the owner took places back by itself', () => {
    busy(4, 4);
    lanes.batchOn('a');
    lanes.onlineAsked({});
    ticks(2);
    around.reclaimed.set('a', { jobs: 3, lostTokens: 50 });
    busy(1, 4);
    ticks(1);
    expect(ofA()).toMatchObject({ cap: 1, cause: 'reclaimed', reclaimed: 3, wastedTokens: 50 });
  });

  it('warn once of each backend where the reserve leaves batch no place, as soon as its places are known', () => {
    const batch = { ...laneDefaults.batch, reserveSlots: 2 };
    around.settings = { ...laneDefaults, batch };
    const shown = (...slots: (number | undefined)[]) => ({
      atMs: 0,
      backends: slots.map((count, at) => {
        const { slots: _own, ...unknown } = backendOf(`s${at}`);
        return count === undefined ? unknown : { ...unknown, slots: count };
      }),
    });
    const told = () => lanes.state().map(({ note, guaranteed }) => [guaranteed, note?.replace(/^.*: /, '')]);
    around.snapshot = shown(undefined, 3);
    lanes.fleetChanged();
    expect(warned).toEqual([]);
    around.snapshot = shown(2, 3, 1);
    lanes.fleetChanged();
    around.snapshot = shown(2, 3, 1);
    lanes.fleetChanged();
    expect(warned.map(([backend]) => backend)).toEqual(['s0', 's2']);
    expect(warned[0]?.[1]).toContain('lanes.batch.reserveSlots (2) keeps all of its 2 places free of batch');
    const off = 'nothing of batch runs there while users are online; set it below';
    expect(told()).toEqual([
      [0, `${off} 2`],
      [0, undefined],
      [0, `${off} 1`],
    ]);
    // A tenth is one whole place on each of them.
    around.settings = { ...laneDefaults, batch: { ...batch, minShare: 0.1 } };
    lanes.reconfigured();
    expect(warned).toHaveLength(4);
    expect(told()).toEqual([
      [1, 'batch has its guaranteed 1 there and no more while users are online; set it below 2'],
      [1, undefined],
      [1, 'batch has its guaranteed 1 there and no more while users are online; set it below 1'],
    ]);
  });

  it('give nothing on a backend that is not there', () => {
    expect(lanes.batchOn('gone').cap).toBe(0);
  });

  it('begin anew on another server under the same name, and with other settings', () => {
    lanes.batchOn('a');
    lanes.onlineAsked({});
    busy(8);
    ticks(8);
    around.snapshot = { atMs: 2, backends: [backendOf('a', { url: 'http://elsewhere' })] };
    ticks(1);
    expect(ofA()?.cause).not.toBe('slots');
    around.settings = { ...laneDefaults, control: { ...laneDefaults.control, cap: 3 } };
    expect(ofA()).toMatchObject({ cap: 3, cause: 'fixed' });
  });

  it('hold to other settings at once when they are told of them, and who waits by them is looked at', () => {
    lanes.batchOn('a');
    lanes.onlineAsked({});
    busy(0, 8);
    around.wanted.set('a', 3);
    ticks(12);
    expect(lanes.batchOn('a').cap).toBe(0);
    const told = around.told;
    around.settings = { ...laneDefaults, batch: { ...laneDefaults.batch, minShare: 0.5 } };
    lanes.reconfigured();
    expect(around.told).toBe(told + 1);
    expect(lanes.batchOn('a').cap).toBe(4);
    expect(ofA()?.cause).not.toBe('no_online');
  });

  it('set no timer for other settings while there is no batch work', () => {
    around.settings = { ...laneDefaults, batch: { ...laneDefaults.batch, minShare: 0.5 } };
    lanes.reconfigured();
    expect([around.clock.pending(), around.told]).toEqual([0, 0]);
    expect(lanes.batchOn('a').cap).toBeGreaterThan(0);
  });

  it('go on as they were when the settings are loaded anew and say the same', () => {
    lanes.batchOn('a');
    lanes.onlineAsked({});
    busy(8);
    ticks(8);
    around.settings = structuredClone(laneDefaults);
    ticks(1);
    expect(ofA()).toMatchObject({ cap: 7, cause: 'slots' });
  });

  it('work with another policy in the controller’s place', () => {
    const state = { cap: 5, reserveSlots: 0, cause: 'fixed', sinceMs: 1, pressures: {} } as const;
    lanes = open(() => ({ tick: () => state, onlineArrived() {}, reclaimed() {}, busy() {}, state: () => state }));
    expect(lanes.batchOn('a').cap).toBe(5);
    ticks(2);
    expect(lanes.state(true)).toHaveLength(2);
  });

  it('set no timer any more once they are stopped', () => {
    lanes.batchOn('a');
    lanes.stop();
    lanes.batchOn('a');
    expect(around.clock.pending()).toBe(0);
  });
});

describe('what the pipeline is told of lanes', () => {
  const job = sampleJob({ bodyBytes: 4000 });

  it('is the bound of the SLO, else the one that holds for all', () => {
    const told = lanesTold(
      lanes,
      () => laneDefaults,
      (_, tokens) => ({ ttftMs: 300 + tokens }),
    );
    expect(told.boundOf(job, 50)).toEqual({ ttftMs: 350, tpotMs: 100 });
    expect(
      lanesTold(
        lanes,
        () => laneDefaults,
        () => ({}),
      ).boundOf(job, 50),
    ).toEqual({ ttftMs: 2000, tpotMs: 100 });
  });

  it('is no bound for refusals where no SLO says one', () => {
    expect(
      lanesTold(
        lanes,
        () => laneDefaults,
        () => ({}),
      ).ttftBoundMs(job),
    ).toBeUndefined();
    expect(
      lanesTold(
        lanes,
        () => laneDefaults,
        (_, tokens) => ({ ttftMs: tokens }),
      ).ttftBoundMs(job),
    ).toBe(1000);
  });

  it('lets nothing be taken back where reclaiming is off', () => {
    const off = { ...laneDefaults, reclaim: { ...laneDefaults.reclaim, enabled: false } };
    expect(
      lanesTold(
        lanes,
        () => off,
        () => ({}),
      ).maxReclaims(),
    ).toBe(0);
    expect(
      lanesTold(
        lanes,
        () => laneDefaults,
        () => ({}),
      ).maxReclaims(),
    ).toBe(2);
  });
});
