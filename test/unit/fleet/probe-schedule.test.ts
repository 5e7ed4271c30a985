import { expect, it } from 'vitest';
import { initialHealth } from '../../../src/fleet/health.ts';
import { maxHoldMs, nextRoundMs, type ScheduleInput } from '../../../src/fleet/probe-schedule.ts';

const settings = {
  backends: [],
  probeIntervalMs: 5000,
  probeDownIntervalMs: 1500,
  probeTimeoutMs: 1000,
  engineMetrics: false,
};
const up = { ...initialHealth(1), health: 'up' as const };

function due(changes: Partial<ScheduleInput> = {}): number {
  const calm = { lastEndMs: 10_000, health: up, quiet: false, doubted: false, held: false, youngestGhostMs: undefined };
  return nextRoundMs(settings, { ...calm, ...changes }) - 10_000;
}

it('a calm backend is asked at the usual pause, one that needs watching at the other', () => {
  expect(due()).toBe(5000);
  expect(due({ health: { ...up, health: 'auth' } })).toBe(5000);
  expect(due({ health: { ...up, health: 'draining' } })).toBe(5000);
  expect(due({ health: { ...up, health: 'down' } })).toBe(1500);
  expect(due({ health: { ...up, health: 'loading' } })).toBe(1500);
  expect(due({ health: { ...up, misses: 1 } })).toBe(1500);
});

it('a silent stream asks sooner, but never more than once a second', () => {
  expect(due({ quiet: true })).toBe(1500);
  const hasty = { ...settings, probeDownIntervalMs: 100 };
  const input = { lastEndMs: 0, health: up, quiet: true, doubted: false, held: false, youngestGhostMs: undefined };
  expect(nextRoundMs(hasty, input)).toBe(1000);
});

it('R13 a ghost is looked for two seconds after it came, and two after the last look', () => {
  expect(due({ youngestGhostMs: 10_500 })).toBe(2500);
  expect(due({ youngestGhostMs: 3000 })).toBe(2000);
});

it('a doubt asks at once, but not more often than four times a second', () => {
  expect(due({ doubted: true })).toBe(250);
});

it('R13 a pending abort postpones it, though not for ever', () => {
  expect(due({ held: true })).toBe(5000 + maxHoldMs);
});
