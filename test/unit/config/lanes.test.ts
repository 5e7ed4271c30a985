import { describe, expect, it } from 'vitest';

import { laneDefaults } from '../../../src/admit/lane-settings.ts';
import { changesBetween } from '../../../src/config/reload.ts';
import { configOf, problemsOf } from './load-text.ts';

describe('lanes', () => {
  it('are the shipped ones unless something is said', () => {
    expect(configOf('').admit.lanes).toEqual(laneDefaults);
    expect(configOf('lanes:\n').admit.lanes).toEqual(laneDefaults);
  });

  it('take what is said, and keep the rest', () => {
    const { lanes } = configOf(
      'lanes: { maxQueuedTokens: 5, refuseBeyond: 0, batch: { maxJobs: 7, timeoutMs: 0, minShare: 0.25, agingMs: 9 }, control: { cap: 8, ttftBoundMs: 900, gate: false }, reclaim: { enabled: false } }',
    ).admit;
    expect(lanes).toEqual({
      ...laneDefaults,
      maxQueuedTokens: 5,
      refuseBeyond: 0,
      batch: { ...laneDefaults.batch, maxQueuedJobs: 7, queueTimeoutMs: 0, minShare: 0.25, agingMs: 9 },
      control: { ...laneDefaults.control, cap: 8, ttftMs: 900, gate: false },
      reclaim: { ...laneDefaults.reclaim, enabled: false },
    });
  });

  it('take a fixed cap from the environment', () => {
    expect(configOf('lanes: { control: { cap: "${env:CAP}" } }', { env: { CAP: '4' } }).admit.lanes?.control.cap).toBe(
      4,
    );
  });

  it.each([
    ['lanes: { control: { cap: many } }', 'must be adaptive, or a whole number of jobs'],
    ['lanes: { control: { cap: "" } }', 'must be adaptive, or a whole number of jobs'],
    ['lanes: { batch: { minShare: 1.5 } }', 'must be a number from 0 (none: online always goes first) to 1'],
    ['lanes: { refuseBeyond: -1 }', 'must be a number from 0 (never) to 1000'],
    ['lanes: { batch: { maxJob: 1 } }', 'maxJobs'],
  ])('%s says what is wrong', (text, says) => {
    expect(problemsOf(text).join('\n')).toContain(says);
  });

  it('change at a reload', () => {
    const next = configOf('lanes: { batch: { minShare: 0.5 } }');
    const changes = changesBetween(configOf(''), next);
    expect(changes).toMatchObject({ changed: ['lanes'], needsRestart: [] });
    expect(changes.inForce.admit.lanes).toEqual(next.admit.lanes);
  });

  it('may say of a backend that it takes priorities from bodies', () => {
    const [one] = configOf('backends: [{ url: "http://a:1", engine: sglang, priorityField: true }]').fleet.backends;
    expect(one).toMatchObject({ engine: 'sglang', priorityField: true });
  });
});
