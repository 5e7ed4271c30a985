/** What the owner promises of lanes and places, whatever comes in which order: a million random steps. */
import { describe, expect, it } from 'vitest';
import { laneDefaults, type LaneSettings } from '../../../src/admit/lane-settings.ts';
import { walkLanes } from '../../support/lane-walk.ts';
import { createChance } from '../../support/seed.ts';

const million = 1_000_000;

function settings(batch: Partial<LaneSettings['batch']>) {
  const lanes: LaneSettings = {
    ...laneDefaults,
    maxQueuedTokens: 3000,
    batch: { ...laneDefaults.batch, maxQueuedJobs: 12, queueTimeoutMs: 300, ...batch },
    control: { ...laneDefaults.control, maxPerBackend: 4 },
  };
  return { maxQueuedJobs: 9, queueTimeoutMs: 100, lanes };
}

describe('lanes over random schedules', () => {
  it('strictly ordered: no permit leaked, no online job behind a batch one, bounds and caps kept, turns taken, all answered once', () => {
    const counts = walkLanes(settings({}), createChance(), million);
    const { online, batch, refused, left, taken, promptsTaken, quieted } = counts;
    expect(Math.min(online, batch, refused, left, taken, promptsTaken, quieted)).toBeGreaterThan(1000);
  }, 300_000);

  it('with a minimum share: the same but for the order', () => {
    const counts = walkLanes(settings({ minShare: 0.3 }), createChance(), million / 10);
    expect(Math.min(counts.online, counts.batch)).toBeGreaterThan(1000);
  }, 60_000);

  it('with ageing: the same but for the order', () => {
    const counts = walkLanes(settings({ agingMs: 50 }), createChance(), million / 10);
    expect(Math.min(counts.online, counts.batch)).toBeGreaterThan(1000);
  }, 60_000);
});
