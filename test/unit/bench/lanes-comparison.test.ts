/** What lanes are compared by and with in `test/bench/lanes`: a figure that is wrong there would be believed. */
import { describe, expect, it } from 'vitest';
import type { CapSignals } from '../../../src/admit/batch-cap.ts';
import { createAimd, createQueueSignal } from '../../bench/lanes/aimd.ts';
import { createGaps } from '../../bench/lanes/gaps.ts';
import { createGradient } from '../../bench/lanes/gradient.ts';
import { type Lived, recoveryOf } from '../../bench/lanes/recovery.ts';
import { step } from '../../bench/lanes/settings.ts';
import { mostJobs } from '../../bench/lanes/work-conserving.ts';

/** Two steps, looked at every 250 ms. @param pressed ms since the play began, from and until */
function lived(...pressed: readonly (readonly [number, number])[]): Lived {
  const untilMs = step.firstMs + 2 * step.everyMs;
  const moments = Array.from({ length: untilMs / 250 + 1 }, (_, index) => {
    const atMs = index * 250;
    return { atMs, pressure: pressed.some(([from, until]) => atMs >= from && atMs < until) ? 1.2 : 0.5 };
  });
  return { moments, arrivals: [] };
}

const from = step.firstMs;
const second = step.firstMs + step.everyMs;

describe('recovery from a step', () => {
  it('lasts until the first spell of pressure is over, and pauses of a second are part of it', () => {
    const { absolute } = recoveryOf(lived([from + 500, from + 1500], [from + 2000, from + 3000]), lived());
    expect(absolute).toEqual([2.75, 0]);
  });

  it('leaves out a spell that begins long after the step', () => {
    const late = lived([from + 500, from + 1000], [from + 5000, from + 9000]);
    expect(recoveryOf(late, lived()).absolute).toEqual([0.75, 0]);
    expect(recoveryOf(lived([from + 5000, from + 9000]), lived()).absolute).toEqual([0, 0]);
  });

  it('lays to batch only the moments in which online alone is not pressed', () => {
    const alone = lived([from, from + 3000], [second, second + 1000]);
    const { absolute, attributable } = recoveryOf(lived([from, from + 3000], [second, second + 2000]), alone);
    expect(absolute).toEqual([2.75, 1.75]);
    expect(attributable).toEqual([0, 1.75]);
  });

  it('says how often somebody is pressed in later seconds, when no step is to blame', () => {
    const { late } = recoveryOf(lived([from + 6000, from + 6500], [second + 19_000, second + 19_500]), lived());
    expect(late).toBeCloseTo(2 / 6);
  });

  it('groups requests by the second after the step in which they came', () => {
    const arrivals = [
      { atMs: 1000, inside: false },
      { atMs: from, inside: false },
      { atMs: from + 999, inside: true },
      { atMs: second + 1500, inside: true },
      { atMs: second + 4999, inside: false },
      { atMs: second + 19_000, inside: true },
    ];
    const recovery = recoveryOf({ ...lived(), arrivals }, lived());
    expect(recovery.arrivals).toEqual([
      { requests: 2, inside: 1 },
      { requests: 1, inside: 1 },
      { requests: 1, inside: 0 },
      { requests: 1, inside: 1 },
    ]);
  });
});

const online: CapSignals = { feel: {}, running: { online: 1, batch: 64 }, onlineWaiting: 0 };
const nobody: CapSignals = { ...online, running: { online: 0, batch: 64 } };

describe('rules that lanes are compared with', () => {
  it('have all places while nobody is online, and their own number with the first who comes', () => {
    for (const cap of [createAimd(0, () => 0.85), createGradient(0)]) {
      expect(cap.tick(20_000, nobody).cap).toBe(mostJobs);
      cap.onlineArrived(20_100);
      expect(cap.state().cap).toBe(4);
      expect(cap.tick(20_250, online).cap).toBe(4);
      expect(cap.tick(29_000, nobody).cap).toBe(4);
      expect(cap.tick(30_300, nobody).cap).toBe(mostJobs);
    }
  });

  it('grow by up to a job a look below the threshold, and are halved above it once a second', () => {
    let pressure = 0;
    const cap = createAimd(0, () => pressure);
    for (let atMs = 250; atMs <= 1000; atMs += 250) cap.tick(atMs, online);
    expect(cap.state().cap).toBe(8);
    pressure = 0.9;
    expect(cap.tick(1250, online).cap).toBe(4);
    expect(cap.tick(2000, online).cap).toBe(4);
    expect(cap.tick(2250, online).cap).toBe(2);
  });

  it('do not grow what batch does not use', () => {
    const cap = createAimd(0, () => 0);
    for (let atMs = 250; atMs <= 2000; atMs += 250) cap.tick(atMs, { ...online, running: { online: 1, batch: 1 } });
    expect(cap.state().cap).toBe(4);
  });

  it('act once on what an engine says of its queue', () => {
    const signal = createQueueSignal();
    const engine = { atMs: 1000, waiting: 3 };
    expect(signal({ ...online, engine })).toBeGreaterThan(1);
    expect(signal({ ...online, engine })).toBe(0.85);
    expect(signal({ ...online, engine: { atMs: 3000, waiting: 0 } })).toBe(0);
    expect(signal({ ...online, onlineWaiting: 1 })).toBeGreaterThan(1);
  });

  it('take the p95 of gaps over the last two seconds', () => {
    const gaps = createGaps();
    for (let gap = 1; gap <= 100; gap += 1) gaps.add(gap, 1000);
    expect(gaps.p95(2000)).toBe(95);
    expect(gaps.p95(3000)).toBeUndefined();
  });
});
