import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { type BatchCapSettings, type CapSignals, createBatchCap } from '../../../src/admit/batch-cap.ts';
import { laneDefaults } from '../../../src/admit/lane-settings.ts';

const tickMs = 250;

function settingsWith(
  control: Partial<BatchCapSettings['control']> = {},
  batch: Partial<BatchCapSettings['batch']> = {},
): BatchCapSettings {
  return { control: { ...laneDefaults.control, ...control }, batch: { ...laneDefaults.batch, ...batch } };
}

/** A controller on a backend with 16 places, somebody online and as much batch running as it allows, unless a tick says otherwise. */
function cappedBackend(settings = settingsWith(), places: number | 'untold' = 16) {
  let nowMs = 1;
  const cap = createBatchCap(settings, nowMs);
  const tick = (over: Partial<CapSignals> = {}) => {
    nowMs += tickMs;
    return cap.tick(nowMs, {
      feel: {},
      running: { online: 1, batch: cap.state().cap },
      onlineWaiting: 0,
      ...(places === 'untold' ? {} : { places }),
      ...over,
    });
  };
  const ticks = (count: number, over: Partial<CapSignals> = {}) => {
    for (let i = 0; i < count; i += 1) tick(over);
    return cap.state();
  };
  return { cap, tick, ticks, nowMs: () => nowMs };
}

const reading = (atMs: number, over: object) => ({ engine: { atMs, ...over } });

describe('the cap on batch', () => {
  it('is all places while nobody was ever online, and says so', () => {
    const { tick } = cappedBackend();
    expect(tick({ running: { online: 0, batch: 0 } })).toMatchObject({ cap: 16, cause: 'no_online', reserveSlots: 0 });
  });

  it('is control.maxPerBackend where the backend says no number of places', () => {
    const { tick } = cappedBackend(settingsWith({ maxPerBackend: 40 }), 'untold');
    expect(tick({ running: { online: 0, batch: 0 } }).cap).toBe(40);
  });

  it('grows by one a tick without any pressure, up to all places but the reserve', () => {
    const { tick, ticks } = cappedBackend(settingsWith({}, { reserveSlots: 2 }));
    const first = tick();
    expect(first).toMatchObject({ cause: 'growing', cap: 5, reserveSlots: 2 });
    expect(tick().cap).toBe(6);
    expect(ticks(30)).toMatchObject({ cap: 14, cause: 'slots' });
  });

  it('leaves the places that online had at once of late, and some for the next peak, as long as that counts', () => {
    const { ticks } = cappedBackend();
    expect(ticks(30)).toMatchObject({ cap: 15, cause: 'slots' });
    // 4 + 0.9 × 2, down to whole ones.
    const batch = 11;
    for (const online of [2, 3]) ticks(30, { running: { online, batch } });
    expect(ticks(1, { running: { online: 4, batch } }).cap).toBe(11);
    expect(ticks(20, { running: { online: 1, batch } }).cap).toBe(11);
    expect(ticks(300, { running: { online: 1, batch } }).cap).toBe(15);
  });

  it('leaves batch the second of two places beside one who is online alone', () => {
    const { ticks } = cappedBackend(settingsWith(), 2);
    expect(ticks(4)).toMatchObject({ cap: 1, cause: 'slots' });
  });

  it('grows the slower the nearer pressure comes to the threshold, and by whole jobs', () => {
    const { ticks } = cappedBackend();
    expect(ticks(1, { feel: { tpot: 0.35 } }).cap).toBe(4);
    expect(ticks(1, { feel: { tpot: 0.35 } }).cap).toBe(5);
    expect(ticks(1, { feel: { tpot: 0.35 } }).cap).toBe(5);
    expect(ticks(1, { feel: { tpot: 0.35 } }).cap).toBe(6);
  });

  it('is halved once a second above the threshold, down to none', () => {
    const { tick, ticks } = cappedBackend();
    ticks(11);
    expect(tick().cap).toBe(15);
    const slow = { feel: { tpot: 0.86 } };
    const seen = [1, 2, 3, 4, 5, 6].map(() => {
      const cut = tick(slow).cap;
      expect(ticks(3, slow).cap).toBe(cut);
      return cut;
    });
    expect(seen).toEqual([7, 3, 1, 0, 0, 0]);
    expect(tick(slow)).toMatchObject({ cap: 0, cause: 'tpot', pressure: 0.86 });
  });

  it('is cut from what runs where that is less than it allows', () => {
    const { ticks } = cappedBackend();
    ticks(20);
    expect(ticks(1, { feel: { tpot: 1 }, running: { online: 1, batch: 4 } }).cap).toBe(2);
  });

  it('comes back within seconds of the end of a burst', () => {
    const { ticks } = cappedBackend();
    expect(ticks(12, { feel: { tpot: 1.2 } }).cap).toBe(0);
    expect(ticks(16).cap).toBeGreaterThanOrEqual(15);
  });

  it('is moved by gaps between tokens that stay long, not by those of one moment', () => {
    const { ticks } = cappedBackend();
    ticks(20);
    expect(ticks(1, { feel: { itl: 3 } })).toMatchObject({ cap: 15 });
    const state = ticks(24, { feel: { itl: 1.2 } });
    expect(state).toMatchObject({ cause: 'itl', lastCut: { cause: 'itl' } });
    expect(state.cap).toBeLessThan(8);
    expect(state.pressures.itl).toBeLessThan(1.2);
  });

  it('is cut as soon as many more are online than these last seconds, once a second, before anybody feels it', () => {
    const { tick, ticks } = cappedBackend(settingsWith(), 'untold');
    ticks(40, { running: { online: 2, batch: 40 } });
    // 2 × 1.5, and 1.5.
    expect(tick({ running: { online: 4, batch: 40 } }).cause).toBe('growing');
    const state = tick({ running: { online: 8, batch: 40 } });
    expect(state).toMatchObject({ cap: 20, cause: 'rise', pressure: 1.5, lastCut: { cause: 'rise' } });
    expect(ticks(3, { running: { online: 9, batch: 30 } })).toMatchObject({ cap: 20, cause: 'rise' });
    // As many are there as usual by now.
    expect(ticks(12, { running: { online: 9, batch: 20 } })).toMatchObject({ cause: 'growing' });
  });

  it('counts those who wait for a place, and takes those whom it finds at first for usual', () => {
    const { tick, ticks } = cappedBackend(settingsWith(), 'untold');
    expect(tick({ running: { online: 9, batch: 4 } })).toMatchObject({ cap: 5, cause: 'growing' });
    expect(ticks(20, { running: { online: 9, batch: 20 } }).lastCut).toBeUndefined();
    expect(tick({ running: { online: 9, batch: 20 }, onlineWaiting: 9 }).pressures).toHaveProperty('rise');
  });

  it('is not cut for one who comes where nobody was', () => {
    const { ticks } = cappedBackend(settingsWith(), 'untold');
    ticks(8, { running: { online: 0, batch: 40 } });
    expect(ticks(8, { running: { online: 1, batch: 40 } }).lastCut).toBeUndefined();
    expect(ticks(1, { running: { online: 3, batch: 40 } }).lastCut).toMatchObject({ cause: 'rise' });
  });

  it('does not grow past twice what batch uses', () => {
    const { tick, ticks } = cappedBackend();
    ticks(4);
    expect(tick({ running: { online: 1, batch: 3 } })).toMatchObject({ cap: 8, cause: 'app_limited' });
    expect(tick({ running: { online: 1, batch: 4 } })).toMatchObject({ cap: 9, cause: 'growing' });
  });

  it('comes back from none although batch uses nothing', () => {
    const { ticks } = cappedBackend();
    ticks(12, { feel: { tpot: 2 } });
    expect(ticks(2, { running: { online: 1, batch: 0 } }).cap).toBe(1);
  });

  it('gives batch all after ten seconds without online work, and what it had before at the first online job', () => {
    const { cap, ticks, nowMs } = cappedBackend();
    ticks(3);
    expect(cap.state().cap).toBe(7);
    const quiet = { running: { online: 0, batch: 7 } };
    expect(ticks(39, quiet).cause).not.toBe('no_online');
    const before = cap.state().cap;
    expect(ticks(2, { running: { online: 0, batch: 3 } })).toMatchObject({ cap: 16, cause: 'no_online' });
    cap.onlineArrived(nowMs());
    expect(cap.state().cap).toBe(before);
  });

  it('keeps the reserve from the very arrival on', () => {
    const { cap, tick, nowMs } = cappedBackend(settingsWith({}, { reserveSlots: 3 }));
    expect(tick({ running: { online: 0, batch: 9 } }).reserveSlots).toBe(0);
    cap.onlineArrived(nowMs());
    expect(cap.state().reserveSlots).toBe(3);
  });

  it.each([
    ['tpot', { feel: { tpot: 0.9, itl: 0.2 } }, 0.9],
    ['ttft', { feel: { tpot: 0.2, ttft: 1.2 } }, 0.96],
    ['kv', { feel: {}, ...reading(1e6, { kvUsage: 0.9 }) }, 1],
    ['waiting', { feel: {}, ...reading(1e6, { waiting: 1 }) }, 1.5],
    ['waiting', { feel: {}, onlineWaiting: 1 }, 1.5],
    ['preemptions', { feel: {}, ...reading(1e6, { preempted: 2 }) }, 1.5],
  ] as const)('names %s as the cause where that presses most', (cause, signals, pressure) => {
    const { tick } = cappedBackend();
    const state = tick(signals);
    expect(state).toMatchObject({ cap: 2, cause, lastCut: { cause } });
    expect(state.pressure).toBeCloseTo(pressure);
  });

  it('is not pressed by a TTFT at eight tenths of its bound', () => {
    expect(cappedBackend().tick({ feel: { ttft: 0.8 } }).cause).toBe('growing');
  });

  it('is cut once by one reading of the engine, and holds still until the next', () => {
    const { ticks } = cappedBackend();
    ticks(12);
    const pressed = reading(5000, { waiting: 3 });
    expect(ticks(1, pressed).cap).toBe(7);
    expect(ticks(7, pressed)).toMatchObject({ cap: 7, cause: 'waiting' });
    expect(ticks(1, reading(7000, { waiting: 1 })).cap).toBe(3);
    expect(ticks(1, reading(9000, { waiting: 0 })).cap).toBe(4);
  });

  it('is cut by its own signals whatever an old reading says', () => {
    const { ticks } = cappedBackend();
    const held = reading(5000, { kvUsage: 0.8 });
    expect(ticks(4, held)).toMatchObject({ cap: 2, cause: 'kv' });
    expect(ticks(1, { ...held, feel: { tpot: 0.95 } })).toMatchObject({ cap: 1, cause: 'tpot' });
  });

  it('never falls below the minimum share, and says that this holds it up', () => {
    const { ticks } = cappedBackend(settingsWith({}, { minShare: 0.125 }));
    expect(ticks(10, { feel: { tpot: 3 } })).toMatchObject({ cap: 2, cause: 'min_share' });
  });

  it('leaves at least one job where the minimum share is a part of one', () => {
    const { ticks } = cappedBackend(settingsWith({}, { minShare: 0.1 }), 4);
    expect(ticks(10, { feel: { tpot: 3 } }).cap).toBe(1);
  });

  it('is what remains after jobs were taken back, and grows from there', () => {
    const { cap, tick, ticks, nowMs } = cappedBackend();
    ticks(8);
    cap.reclaimed(3, nowMs());
    expect(cap.state()).toMatchObject({ cap: 3, cause: 'reclaimed', lastCut: { cause: 'reclaimed' } });
    expect(tick().cap).toBe(4);
  });

  it('stays where it is when more remains than it allows', () => {
    const { cap, ticks, nowMs } = cappedBackend();
    ticks(1, { feel: { tpot: 2 } });
    cap.reclaimed(9, nowMs());
    expect(cap.state().cap).toBe(2);
  });

  it('is halved at once when the backend refuses a request, not again within a second, and does not grow meanwhile', () => {
    const { cap, ticks, nowMs } = cappedBackend();
    ticks(12);
    const before = cap.state().cap;
    cap.busy(before, nowMs());
    const half = Math.floor(before / 2);
    expect(cap.state()).toMatchObject({
      cap: half,
      cause: 'busy',
      pressures: { busy: 1.5 },
      lastCut: { cause: 'busy' },
    });
    cap.busy(half, nowMs());
    expect(cap.state().cap).toBe(half);
    expect(ticks(3)).toMatchObject({ cap: half, cause: 'busy', pressure: 1.5 });
    expect(ticks(1)).toMatchObject({ cap: half + 1, cause: 'growing' });
    expect(cap.state().pressures).not.toHaveProperty('busy');
  });

  it('is cut from what ran when the backend refuses one while nobody is online, and comes back to all', () => {
    const { cap, tick, ticks, nowMs } = cappedBackend(settingsWith({}, { reserveSlots: 3 }), 64);
    const alone = { running: { online: 0, batch: 40 } };
    expect(tick(alone)).toMatchObject({ cap: 64, cause: 'no_online' });
    cap.busy(40, nowMs());
    expect(cap.state()).toMatchObject({ cap: 20, cause: 'busy', reserveSlots: 0 });
    expect(ticks(4, alone)).toMatchObject({ cap: 21, cause: 'growing', reserveSlots: 0 });
    expect(ticks(35, alone).cap).toBeLessThan(64);
    expect(tick(alone)).toMatchObject({ cap: 64, cause: 'no_online' });
    // Who comes in between finds the reserve.
    cap.busy(40, nowMs());
    cap.onlineArrived(nowMs());
    expect(cap.state()).toMatchObject({ cap: 20, cause: 'busy', reserveSlots: 3 });
  });

  it('stays a fixed number whatever the backend refuses, and keeps the minimum share', () => {
    const fixed = cappedBackend(settingsWith({ cap: 6 }));
    fixed.cap.busy(6, fixed.nowMs());
    fixed.cap.onlineArrived(fixed.nowMs());
    expect(fixed.tick()).toMatchObject({ cap: 6, cause: 'fixed', pressures: { busy: 1.5 } });
    const shared = cappedBackend(settingsWith({}, { minShare: 0.125 }));
    shared.tick();
    for (let i = 0; i < 4; i += 1) {
      shared.cap.busy(1, shared.nowMs());
      shared.ticks(4);
    }
    shared.cap.busy(1, shared.nowMs());
    expect(shared.cap.state()).toMatchObject({ cap: 2, cause: 'min_share' });
  });

  it('fits itself to places that became fewer', () => {
    const { ticks } = cappedBackend();
    ticks(20);
    expect(ticks(1, { places: 3 }).cap).toBe(2);
  });

  it('keeps a fixed number whatever presses, also while nobody is online', () => {
    const { ticks } = cappedBackend(settingsWith({ cap: 6 }));
    expect(ticks(5, { feel: { tpot: 3 }, onlineWaiting: 2 })).toMatchObject({ cap: 6, cause: 'fixed', pressure: 3 });
    expect(ticks(60, { running: { online: 0, batch: 6 } }).cap).toBe(6);
  });

  it('comes back to a fixed number step by step after jobs were taken back', () => {
    const { cap, ticks, nowMs } = cappedBackend(settingsWith({ cap: 6 }));
    ticks(1);
    cap.reclaimed(3, nowMs());
    expect(cap.state()).toMatchObject({ cap: 3, cause: 'reclaimed' });
    expect(ticks(2)).toMatchObject({ cap: 5, cause: 'reclaimed' });
    expect(ticks(1)).toMatchObject({ cap: 6, cause: 'fixed' });
  });

  it('says since when its cause holds', () => {
    const { tick, nowMs } = cappedBackend();
    tick();
    const sinceMs = nowMs();
    tick();
    expect(tick().sinceMs).toBe(sinceMs);
    tick({ feel: { tpot: 1 } });
    expect(tick({ feel: { tpot: 1 } }).sinceMs).toBe(nowMs() - tickMs);
  });

  it('is always a whole number between the minimum share and the places', () => {
    const signal = fc.option(fc.double({ min: 0, max: 3, noNaN: true }), { nil: undefined });
    const step = fc.record({
      tpot: signal,
      itl: signal,
      ttft: signal,
      kv: signal,
      batch: fc.nat(20),
      online: fc.nat(2),
    });
    fc.assert(
      fc.property(
        fc.array(step, { maxLength: 200 }),
        fc.double({ min: 0, max: 0.5, noNaN: true }),
        (steps, minShare) => {
          const { cap, tick } = cappedBackend(settingsWith({}, { minShare }));
          const least = minShare === 0 ? 0 : Math.ceil(minShare * 16);
          for (const { tpot, itl, ttft, kv, batch, online } of steps) {
            const feel = Object.fromEntries(
              Object.entries({ tpot, itl, ttft }).filter(([, value]) => value !== undefined),
            );
            const engine = kv === undefined ? {} : reading(kv * 1e4, { kvUsage: Math.min(1, kv) });
            const state = tick({ feel, running: { online, batch }, ...engine });
            expect(Number.isInteger(state.cap)).toBe(true);
            expect(state.cap).toBeGreaterThanOrEqual(least);
            expect(state.cap).toBeLessThanOrEqual(16);
            expect(cap.state()).toBe(state);
          }
        },
      ),
    );
  });
});
