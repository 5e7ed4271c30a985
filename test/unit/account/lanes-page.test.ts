import { describe, expect, it } from 'vitest';
import { lanesPage } from '../../../src/account/lanes-page.ts';

describe('the page /lanes', () => {
  it('tells who waits, what batch may have of a backend, and why no more', () => {
    const page = lanesPage(
      {
        depths: [
          { lane: 'online', jobs: 0, tokens: 0, tenants: 0 },
          { lane: 'batch', jobs: 12, tokens: 9000, tenants: 2, oldestMs: 61_000.4 },
        ],
        backends: [
          {
            backend: 'gpu-1',
            cap: 3,
            cause: 'tpot',
            sinceMs: 9000,
            pressure: 0.8123,
            pressures: { tpot: 0.8123, kv: 0.5 },
            reserveSlots: 1,
            watched: true,
            guaranteed: 1,
            note: 'n',
            running: { online: 4, batch: 3 },
            reclaimed: 2,
            wastedTokens: 700,
            abortsWork: true,
            lastCut: { cause: 'tpot', atMs: 9500 },
          },
        ],
      },
      10_000,
    );
    expect(page).toEqual({
      lanes: [
        { lane: 'online', waiting: 0, waitingTokens: 0, tenants: 0 },
        { lane: 'batch', waiting: 12, waitingTokens: 9000, tenants: 2, oldestMs: 61_000 },
      ],
      backends: [
        {
          backend: 'gpu-1',
          cap: 3,
          cause: 'tpot',
          causeAgeMs: 1000,
          lastCut: { cause: 'tpot', ageMs: 500 },
          pressurePercent: 81.2,
          pressures: { tpotPercent: 81.2, kvPercent: 50 },
          watched: true,
          reserveSlots: 1,
          guaranteed: 1,
          note: 'n',
          running: { online: 4, batch: 3 },
          reclaimed: 2,
          wastedTokens: 700,
          abortsWork: true,
        },
      ],
    });
  });

  it('leaves out what nobody knows', () => {
    const idle = { cap: 8, cause: 'no_online', sinceMs: 1, pressures: {}, reserveSlots: 0, guaranteed: 0 } as const;
    const backend = {
      ...idle,
      watched: false,
      backend: 'a',
      running: { online: 0, batch: 0 },
      reclaimed: 0,
      wastedTokens: 0,
    };
    const { backends } = JSON.parse(JSON.stringify(lanesPage({ depths: [], backends: [backend] }, 1))) as {
      backends: object[];
    };
    for (const key of ['note', 'pressurePercent', 'abortsWork', 'lastCut']) expect(backends[0]).not.toHaveProperty(key);
  });
});
