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
    const isPressed = pressed.some(([since, until]) => atMs >= since && atMs < until);
    return { atMs, pressure: isPressed ? 1.2 : 0.5, users: 20, behind: isPressed ? 3 : 1 };
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

  it('is told less that of online alone, step by step', () => {
    const alone = lived([from, from + 3000], [second, second + 1000]);
    const { excess } = recoveryOf(lived([from, from + 2000], [second, second + 2000]), alone);
    expect(excess).toEqual([-1, 1]);
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

describe('what batch costs after a step', () => {
  const paired = (own: Lived, alone: Lived) => recoveryOf(own, alone).paired;

  it('is nothing where as many are behind alone, however many', () => {
    const alike = lived([from, from + 9000], [second + 12_000, second + 13_000]);
    const { pooled, perStep, later, lost } = paired(alike, alike);
    expect({ pooled, perStep, later }).toEqual({ pooled: { requests: 0, users: 0 }, perStep: [0, 0], later: 0 });
    expect(new Set([...lost.users, ...lost.requests])).toEqual(new Set([0]));
  });

  it('lasts as long as too many of the users of a second are behind who alone would not be', () => {
    const { pooled, perStep, lost } = paired(lived([from + 1000, from + 3000]), lived([from + 1000, from + 2000]));
    expect(perStep).toEqual([3000, 0]);
    expect(pooled.users).toBe(3000);
    const points = lost.users.slice(7, 13).map((share) => Math.round(share * 100));
    expect(points).toEqual([0, 5, 5, 5, 5, 0]);
  });

  it('does not lay to a step what comes long after it, but says how often it comes', () => {
    const { pooled, perStep, later } = paired(lived([from + 8000, from + 9000]), lived());
    expect(perStep).toEqual([0, 0]);
    expect(later).toBeCloseTo(4 / 120);
    expect(pooled.users).toBe(9000);
  });

  it('forgives one user for less than a second, and a hundredth of all steps together', () => {
    const behind = (atMs: number) => (atMs === from + 500 ? 3 : 1);
    const own = { ...lived(), moments: lived().moments.map((one) => ({ ...one, behind: behind(one.atMs) })) };
    expect(paired(own, lived()).perStep).toEqual([0, 0]);
    expect(paired(own, lived()).pooled.users).toBe(750);
  });

  it('counts requests by when they came, and not those between steps', () => {
    const arrivals = (...missed: readonly number[]) => ({
      ...lived(),
      arrivals: [from + 100, from + 1600, second + 1700, second + 19_900, second + 30_000].map((atMs) => ({
        atMs,
        inside: !missed.includes(atMs),
      })),
    });
    const { pooled, lost } = paired(arrivals(from + 1600, second + 30_000), arrivals());
    expect(pooled.requests).toBe(1750);
    expect(lost.requests[6]).toBe(0.5);
    expect(lost.requests.filter((share) => share !== 0)).toHaveLength(1);
    expect(paired(arrivals(), arrivals(from + 1600)).lost.requests[6]).toBe(-0.5);
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
