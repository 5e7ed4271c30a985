import { describe, expect, it } from 'vitest';
import { limitsOf, uncachedTokens } from '../../../../src/account/slo/limits.ts';
import { allProfiles, shippedProfiles } from '../../../../src/account/slo/slo-settings.ts';
import { sampleRecord } from '../../../support/sample-record.ts';
import { profileOf } from '../../../support/slo-record.ts';

const count = (value: number) => ({ value, source: 'usage' as const });

describe('limits', () => {
  it('are the flat ones, and absent where the profile asks for none', () => {
    expect(limitsOf(profileOf({ ttftMs: 200, tpotMs: 40 }), sampleRecord())).toEqual({ ttft: 200, tpot: 40 });
  });

  it('of every bound may grow with the uncached prompt', () => {
    const profile = profileOf({
      ttftMs: 100,
      ttftPerKilotokenMs: 50,
      ttfaMs: 100,
      ttfaPerKilotokenMs: 40,
      itlMs: 10,
      itlPerKilotokenMs: 1,
      tpotMs: 20,
      tpotPerKilotokenMs: 2,
      e2eMs: 1000,
      e2ePerKilotokenMs: 0,
    });
    const record = sampleRecord({ tokens: { prompt: count(5000), cached: count(1500) } });
    expect(limitsOf(profile, record)).toEqual({ ttft: 275, ttfa: 240, itl: 13.5, tpot: 27, e2e: 1000 });
  });

  it('take the whole prompt where no cached tokens were told, and the request’s bytes where no prompt was', () => {
    expect(uncachedTokens(sampleRecord({ tokens: { prompt: count(900) } }))).toBe(900);
    expect(uncachedTokens(sampleRecord({ tokens: { prompt: count(900), cached: count(900) } }))).toBe(0);
    expect(uncachedTokens(sampleRecord({ tokens: {}, requestBytes: 8000 }))).toBe(2000);
    const { requestBytes: _left, ...unknown } = sampleRecord({ tokens: {} });
    expect(uncachedTokens(unknown)).toBe(0);
  });
});

describe('profiles', () => {
  it('that come with warmlane are these', () => {
    expect(shippedProfiles).toEqual({
      chat: { ttftMs: 200, percent: 99 },
      reading: { itlMs: 30, itlShare: 0.95, percent: 95 },
      voice: { ttftMs: 180, percent: 95 },
      autocomplete: { e2eMs: 150, percent: 95 },
      'mlperf-interactive': { ttftMs: 450, tpotMs: 40, percent: 99 },
      'mlperf-server': { ttftMs: 2000, tpotMs: 200, percent: 99 },
    });
  });

  it('of the config stand beside them, or change the keys that they state', () => {
    const profiles = allProfiles({ mine: { e2eMs: 10 }, 'mlperf-server': { ttftMs: 1500 } });
    expect(profiles).toHaveLength(7);
    expect(profiles).toContainEqual({ name: 'mine', e2eMs: 10, itlShare: 0.95, percent: 99 });
    expect(profiles).toContainEqual({ name: 'mlperf-server', ttftMs: 1500, tpotMs: 200, itlShare: 0.95, percent: 99 });
  });
});
