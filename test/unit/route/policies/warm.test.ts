import { describe, expect, it } from 'vitest';
import { costOf, createWarm } from '../../../../src/route/policies/warm.ts';
import { costDefaults } from '../../../../src/route/settings.ts';
import { namesOf, sampleCandidate, sampleRouteJob, shown } from '../../../support/candidates.ts';

const warm = createWarm(costDefaults);
const rate1000 = {
  prefillTokensPerSecond: 1000,
  decodeBaseMs: 10,
  decodePerStreamMs: 1,
  decodePerContextTokenMs: 0.001,
};
const slots = { slots: 4 };

describe('the warm policy', () => {
  it('adds up the marginal cost of a job in seconds, term by term', () => {
    const candidate = sampleCandidate('a', {
      speed: rate1000,
      pendingTokens: 500,
      decoding: 10,
      contextTokens: 20_000,
      heldTokens: 1000,
      networkSeconds: 0.25,
      prefillShare: 0.5,
    });
    const job = sampleRouteJob({ promptTokens: 2000, outputTokens: 100, sessionHome: 'a' });
    const cost = costOf(job, candidate, { ...costDefaults, lambda: 0.8, nu: 40, rho: 0.5, sessionBonusMs: 500 });
    expect(cost).toMatchObject({ queue: 0.5, slot: 0, prefill: 3, network: 0.25, bonus: 0.5 });
    // a token takes (10 + 10 + 20) ms of decoding, in the half of the time that prompts leave, and 11 ms for one stream alone
    expect(cost.stall).toBeCloseTo(0.8 * 10 * (80 / 11) * 1 * (40 / 100), 9);
    expect(cost.decode).toBeCloseTo(0.04 * (80 - 10), 9);
    expect(cost.burden).toBeCloseTo(0.04 * 0.8 * 10 * (80 / 11) * (0.001 * 2000 + 1), 9);
    const { queue, prefill, copy, stall, decode, burden, network, bonus, total } = cost;
    expect(total).toBeCloseTo(queue + prefill + copy + stall + decode + burden + network - bonus, 9);
  });

  it('goes where the prefix is, and elsewhere once that is too busy', () => {
    const elsewhere = sampleCandidate('b');
    const job = sampleRouteJob({ promptTokens: 8000 });
    expect(shown(warm(job, [elsewhere, sampleCandidate('a', { heldTokens: 7000 })]))).toEqual([
      'a:prefix',
      'b:load_over_prefix',
    ]);
    const busy = sampleCandidate('a', { heldTokens: 7000, pendingTokens: 60_000 });
    expect(shown(warm(job, [elsewhere, busy]))).toEqual(['b:load_over_prefix', 'a:prefix']);
  });

  it('spares those that decode a long prefill', () => {
    const job = sampleRouteJob({ promptTokens: 20_000 });
    const decoding = sampleCandidate('a', { decoding: 12, contextTokens: 20_000 });
    expect(namesOf(warm(job, [decoding, sampleCandidate('b', { pendingTokens: 8000 })]))).toEqual(['b', 'a']);
  });

  it('weighs a stall by the answers that it is spread over', () => {
    const busy = sampleCandidate('a', { decoding: 8, speed: rate1000 });
    const stall = (outputTokens: number) => costOf(sampleRouteJob({ outputTokens }), busy, costDefaults).stall;
    // two seconds of prefill before eight streams, each of whose tokens takes 18 ms in place of 11
    expect(stall(500)).toBeCloseTo(0.1 * 16 * (18 / 11), 9);
    expect(stall(50)).toBeCloseTo(16 * (18 / 11), 9);
    expect(stall(5)).toBeCloseTo(16 * (18 / 11), 9);
  });

  it('never counts a second of decoding for more than one before the first token', () => {
    const busy = sampleCandidate('a', { decoding: 8, contextTokens: 8000, speed: rate1000 });
    const slower = (outputTokens: number) => costOf(sampleRouteJob({ outputTokens }), busy, costDefaults).decode;
    // each step takes 16 ms more than alone
    expect(slower(10)).toBeCloseTo(10 * 0.016, 9);
    expect(slower(50)).toBeCloseTo(50 * 0.016, 9);
    expect(slower(5000)).toBeCloseTo(50 * 0.016, 9);
  });

  it('C140 makes a copy of a prefix on an idle backend once the one that holds it has its hands full of prompts', () => {
    const job = sampleRouteJob({ promptTokens: 2000, outputTokens: 50 });
    const to = (over: object) =>
      namesOf(
        warm(job, [
          sampleCandidate('a', { speed: rate1000, heldTokens: 1500, ...over }),
          sampleCandidate('b', { speed: rate1000 }),
        ]),
      )[0];
    expect(to({})).toBe('a');
    expect(to({ decoding: 1, prefillShare: 0.2 })).toBe('a');
    expect(to({ decoding: 3, prefillShare: 0.7 })).toBe('b');
    // Where both are, nothing is gained by it.
    const both = { speed: rate1000, decoding: 3, prefillShare: 0.7 };
    expect(
      namesOf(warm(job, [sampleCandidate('b', both), sampleCandidate('a', { ...both, heldTokens: 1500 })]))[0],
    ).toBe('a');
  });

  it('C140 lets a crowd count for more than its number: who joins it keeps all of it there for longer', () => {
    const stall = (streams: number, prefillShare = 0) =>
      costOf(sampleRouteJob(), sampleCandidate('a', { speed: rate1000, decoding: streams, prefillShare }), costDefaults)
        .stall;
    expect(stall(20) / stall(10)).toBeCloseTo((20 * 30) / (10 * 20), 9);
    expect(stall(10, 0.5) / stall(10)).toBeCloseTo(2, 9);
    // Eight times slower than alone is as bad as it gets.
    expect(stall(400) / stall(100)).toBeCloseTo(4, 9);
  });

  it('C140 takes no backend for strained because what it takes alone was never seen, nor for faster than alone', () => {
    const strain = (streams: number, over: object) => {
      const speed = { prefillTokensPerSecond: 1000, decodePerContextTokenMs: 0, ...over };
      const candidate = sampleCandidate('a', { speed: { ...rate1000, ...speed }, decoding: streams });
      // two seconds of prefill, which each of its streams waits for
      return costOf(sampleRouteJob({ outputTokens: 1 }), candidate, costDefaults).stall / (2 * streams);
    };
    // Learnt from crowds alone: all that a step takes is put down to its streams.
    expect(strain(10, { decodeBaseMs: 0, decodePerStreamMs: 0.4 })).toBeCloseTo(4 / 3, 9);
    expect(strain(10, { decodeBaseMs: 0, decodePerStreamMs: 4 })).toBe(8);
    expect(strain(1, { decodeBaseMs: 0, decodePerStreamMs: 0 })).toBe(1);
    expect(strain(1, { decodeBaseMs: 20, decodePerStreamMs: 5 })).toBe(1);
  });

  it('counts what prompts take from its own tokens', () => {
    const decode = (prefillShare: number) =>
      costOf(
        sampleRouteJob({ outputTokens: 50 }),
        sampleCandidate('a', { speed: rate1000, prefillShare }),
        costDefaults,
      ).decode;
    expect(decode(0)).toBe(0);
    // half of the time is left for it: each of its tokens takes 10 ms more
    expect(decode(0.5)).toBeCloseTo(50 * 0.01, 9);
  });

  it('C140 spreads a hot beginning over backends that are next to idle before the one that holds it is full', () => {
    // eight backends of 5,000 prompt tokens a second, a list of tools of 2,000 tokens, short steps of agents
    const speed = {
      prefillTokensPerSecond: 5000,
      decodeBaseMs: 10,
      decodePerStreamMs: 0.1,
      decodePerContextTokenMs: 0.0003,
    };
    const job = sampleRouteJob({ promptTokens: 2300, outputTokens: 32 });
    const idle = Array.from({ length: 7 }, (_, index) => sampleCandidate(`idle${index}`, { speed }));
    const to = (streams: number, prefillShare: number) => {
      const held = { heldTokens: 2000, decoding: streams, contextTokens: 3000 * streams, prefillShare };
      return shown(warm(job, [sampleCandidate('holder', { speed, ...held }), ...idle]))[0];
    };
    // A copy costs the others there nothing, but 0.4 s of work.
    expect(to(0, 0)).toBe('holder:prefix');
    expect(to(2, 0.2)).toBe('holder:prefix');
    // Six streams are a tenth of what it could bear, and a crowd that keeps growing all the same.
    expect(to(6, 0.4)).toMatch(/^idle\d:load_over_prefix$/);
  });

  it('counts what a prompt evicts where there is something to evict', () => {
    const prefill = (over: object) =>
      costOf(sampleRouteJob(), sampleCandidate('a', { speed: rate1000, ...over }), { ...costDefaults, rho: 0.5 })
        .prefill;
    expect(prefill({ fullShare: 0 })).toBeCloseTo(2, 9);
    expect(prefill({ fullShare: 0.5 })).toBeCloseTo(2.5, 9);
    expect(prefill({})).toBeCloseTo(3, 9);
  });

  it('counts the room that a copy takes where there is something to push out, and none for what nobody holds', () => {
    const cost = (over: object, mostHeld = 0, unused = 1) =>
      costOf(
        sampleRouteJob(),
        sampleCandidate('a', { speed: rate1000, ...over }),
        { ...costDefaults, kappa: 3 },
        { mostHeld, unused },
      );
    expect(cost({}).copy).toBe(0);
    expect(cost({}, 1500).copy).toBeCloseTo(4.5, 9);
    expect(cost({ fullShare: 0.5 }, 1500).copy).toBeCloseTo(2.25, 9);
    expect(cost({ fullShare: 0 }, 1500).copy).toBe(0);
    expect(cost({ heldTokens: 500 }, 1500).copy).toBeCloseTo(3, 9);
    expect(cost({ heldTokens: 1500 }, 1500).copy).toBe(0);
    expect(cost({}, 1500, 0.2).copy).toBeCloseTo(0.9, 9);
    // No matter of how busy it is.
    expect(cost({ prefillShare: 0.7 }, 1500).copy).toBeCloseTo(4.5, 9);
    expect(cost({}, 1500).total - cost({}).total).toBeCloseTo(4.5, 9);
  });

  it('keeps a prefix where it is while caches are full, for a while longer than where there is room', () => {
    const job = sampleRouteJob({ promptTokens: 2000 });
    const to = (pendingTokens: number, fullShare: number) => {
      const holder = sampleCandidate('a', { speed: rate1000, heldTokens: 1500, pendingTokens });
      return namesOf(warm(job, [sampleCandidate('b', { speed: rate1000, fullShare }), holder]))[0];
    };
    // A queue of two seconds at the holder, against a second and a half of work that it spares.
    expect(to(2000, 0)).toBe('b');
    expect(to(2000, 1)).toBe('a');
    expect(to(10_000, 1)).toBe('b');
    // What nobody holds goes to the shorter queue, however full the caches are.
    const fresh = [
      sampleCandidate('a', { speed: rate1000, pendingTokens: 500 }),
      sampleCandidate('b', { speed: rate1000 }),
    ];
    expect(namesOf(warm(job, fresh))[0]).toBe('b');
  });

  it('lets what is asked for all the time be held by each backend, and keeps together what is not', () => {
    const job = sampleRouteJob({ promptTokens: 2000 });
    const to = (heldAge: number) => {
      const holder = sampleCandidate('a', { speed: rate1000, heldTokens: 1500, heldAge, pendingTokens: 3500 });
      return namesOf(warm(job, [holder, sampleCandidate('b', { speed: rate1000 })]))[0];
    };
    // Of two backends: seen again on each before half of a cache is taken in, or not.
    expect(to(0)).toBe('b');
    expect(to(0.1)).toBe('b');
    expect(to(0.5)).toBe('a');
    expect(to(1)).toBe('a');
    // Of several that hold it, the one that was asked last tells, whatever their order; one that holds less says nothing.
    const copies = (ages: readonly [number, number, number]) => {
      const [first, second, short] = ages.map((heldAge) => ({
        speed: rate1000,
        heldTokens: 1500,
        heldAge,
        pendingTokens: 3500,
      }));
      const holders = [sampleCandidate('a', first), sampleCandidate('c', second)];
      const rest = [sampleCandidate('d', { ...short, heldTokens: 100 }), sampleCandidate('b', { speed: rate1000 })];
      return namesOf(warm(job, [...holders, ...rest]))[0];
    };
    expect(copies([1, 0, 1])).toBe('b');
    expect(copies([0, 1, 1])).toBe('b');
    expect(copies([1, 1, 0])).not.toBe('b');
  });

  it('takes no backend for busier than its figures can tell', () => {
    const cost = (prefillShare: number) =>
      costOf(sampleRouteJob(), sampleCandidate('a', { speed: rate1000, prefillShare }), { ...costDefaults, rho: 0 });
    expect(cost(0).prefill).toBeCloseTo(2, 9);
    expect(cost(0.5).prefill).toBeCloseTo(4, 9);
    expect(cost(5).prefill).toBeCloseTo(8, 9);
  });

  it('C136 sees a crowd that came to a held prefix at once, before one of it has begun', () => {
    const job = sampleRouteJob({ promptTokens: 2000 });
    const held = { heldTokens: 1999, pendingTokens: 1 };
    const to = (over: object) =>
      namesOf(warm(job, [sampleCandidate('a', { ...held, ...over }), sampleCandidate('b', { fullShare: 0.15 })]))[0];
    expect(to({ jobs: 20, pendingJobs: 20, pendingTokens: 20 })).toBe('a');
    expect(to({ jobs: 60, pendingJobs: 60, pendingTokens: 60 })).toBe('b');
    // More than the engine was seen to run at once only wait.
    expect(to({ jobs: 60, pendingJobs: 60, pendingTokens: 60, seenSlots: 20 })).toBe('a');
  });

  it('a session draws its next turn home, but not past a queue that takes longer', () => {
    const job = sampleRouteJob({ promptTokens: 100, sessionHome: 'b' });
    expect(shown(warm(job, [sampleCandidate('a'), sampleCandidate('b', { pendingTokens: 1000 })]))).toEqual([
      'b:session',
      'a:least_load',
    ]);
    expect(namesOf(warm(job, [sampleCandidate('a'), sampleCandidate('b', { pendingTokens: 10_000 })]))).toEqual([
      'a',
      'b',
    ]);
  });

  it('takes the least loaded of equals, then the one used longest ago where nothing is known of the prompt', () => {
    const job = sampleRouteJob({ promptTokens: 10 });
    const [a, b, c] = [
      sampleCandidate('a', { jobs: 1, lastUsed: 1 }),
      sampleCandidate('b', { lastUsed: 5 }),
      sampleCandidate('c', { lastUsed: 3 }),
    ];
    expect(namesOf(warm(job, [a, b, c]))).toEqual(['c', 'b', 'a']);
  });

  it('spreads equal beginnings alike, whatever the order of the backends', () => {
    const names = ['a', 'b', 'c', 'd'];
    const first = new Map<string, number>();
    for (let key = 1; key <= 400; key += 1) {
      const job = sampleRouteJob({ promptTokens: 10, prefixKey: key * 7_919_001_123 });
      const forth = namesOf(
        warm(
          job,
          names.map((name) => sampleCandidate(name)),
        ),
      );
      const back = namesOf(
        warm(
          job,
          names.toReversed().map((name) => sampleCandidate(name)),
        ),
      );
      expect(forth).toEqual(back);
      first.set(forth[0] ?? '', (first.get(forth[0] ?? '') ?? 0) + 1);
    }
    for (const name of names) expect(first.get(name)).toBeGreaterThan(60);
  });

  it('takes costs that differ by less than what is learnt can tell for equal', () => {
    const job = sampleRouteJob({ promptTokens: 4000 });
    const faster = { ...rate1000, prefillTokensPerSecond: 1001 };
    const two = [
      sampleCandidate('a', { speed: faster, jobs: 1, lastUsed: 9 }),
      sampleCandidate('b', { speed: rate1000 }),
    ];
    expect(namesOf(warm(job, two))).toEqual(['b', 'a']);
  });

  it('a backend of more weight gets a job at as much less cost', () => {
    const heavy = sampleCandidate('a', { weight: 2, pendingTokens: 3000 });
    expect(namesOf(warm(sampleRouteJob(), [sampleCandidate('b', { pendingTokens: 1000 }), heavy]))).toEqual(['a', 'b']);
  });

  it('C138 a prompt that nobody knows goes to an idle backend, not to a busy one that holds less', () => {
    const busy = sampleCandidate('a', { jobs: 30, decoding: 30, contextTokens: 60_000, indexTokens: 60_000 });
    const idle = sampleCandidate('b', { indexTokens: 5_000_000 });
    for (let key = 1; key <= 20; key += 1)
      expect(namesOf(warm(sampleRouteJob({ prefixKey: key }), [busy, idle]))[0]).toBe('b');
  });
});

describe('slots that are all busy', () => {
  const full = { view: slots, slots: 4, decoding: 4, speed: rate1000 };

  it('cost the wait for one, longer where more must become free', () => {
    const job = sampleRouteJob({ promptTokens: 1000, outputTokens: 100 });
    const wait = (over: object) => costOf(job, sampleCandidate('a', { ...full, ...over }), costDefaults).slot;
    // one of four jobs ends in a quarter of 100 steps of 14 ms and a second of prefill
    expect(wait({})).toBeCloseTo((100 * 0.014 + 1) / 4, 9);
    expect(wait({ aheadJobs: 2 })).toBeCloseTo(3 * wait({}), 9);
    expect(wait({ slots: 3 })).toBe(0);
  });

  it('R10 a slot that an abandoned request may still hold counts as busy', () => {
    const ghost = sampleCandidate('a', { view: { slots: 4, ghostSlots: 1 }, slots: 3, speed: rate1000 });
    expect(costOf(sampleRouteJob(), ghost, costDefaults).slot).toBeGreaterThan(0);
    expect(namesOf(warm(sampleRouteJob(), [ghost, sampleCandidate('b', { view: slots, speed: rate1000 })]))).toEqual([
      'b',
      'a',
    ]);
  });

  it('cost up to half a second where they were only seen, which leaves nobody out', () => {
    const job = sampleRouteJob({ promptTokens: 4000 });
    const crowded = sampleCandidate('a', { slots: 12, decoding: 8, jobs: 12, seenSlots: 8, heldTokens: 3900 });
    expect(costOf(job, crowded, costDefaults).slot).toBe(0.5);
    expect(costOf(job, { ...crowded, slots: 7 }, costDefaults).slot).toBe(0);
    expect(namesOf(warm(job, [crowded, sampleCandidate('b')]))).toHaveLength(2);
  });

  it('are waited for where that is cheaper than going elsewhere, for as long as it is', () => {
    const job = sampleRouteJob({ promptTokens: 4000, outputTokens: 20 });
    const home = sampleCandidate('a', { ...full, heldTokens: 3900 });
    const other = sampleCandidate('b', { view: slots, speed: rate1000 });
    const waiting = warm(job, [home, other]);
    expect(namesOf(waiting)).toEqual(['a']);
    const againMs = waiting.againMs ?? 0;
    expect(againMs).toBeGreaterThan(1000);
    // Its own time alone: what a copy takes from others lets nobody wait.
    const saved = costOf(job, other, costDefaults).total - costOf(job, home, costDefaults).total;
    expect(costOf(job, other, costDefaults, { mostHeld: 3900, unused: 1 }).copy).toBeGreaterThan(1);
    expect(againMs / 1000).toBeCloseTo(saved, 2);
    expect(namesOf(warm({ ...job, waitedSeconds: againMs / 1000 - 0.1 }, [home, other]))).toEqual(['a']);
    expect(namesOf(warm({ ...job, waitedSeconds: againMs / 1000 }, [home, other]))).toEqual(['b', 'a']);
  });

  it('are not waited for where they save less than they take', () => {
    const job = sampleRouteJob({ promptTokens: 400, outputTokens: 1000 });
    const home = sampleCandidate('a', { ...full, heldTokens: 300 });
    expect(namesOf(warm(job, [home, sampleCandidate('b', { view: slots, speed: rate1000 })]))).toEqual(['b', 'a']);
  });

  it('leave nobody out where every backend is full', () => {
    const job = sampleRouteJob({ promptTokens: 4000 });
    const both = [sampleCandidate('b', full), sampleCandidate('a', { ...full, heldTokens: 3900 })];
    expect(namesOf(warm(job, both))).toEqual(['a', 'b']);
  });
});

describe('late binding', () => {
  const job = sampleRouteJob();

  it('holds a job while every backlog takes longer than the bound, never while somebody is idle', () => {
    const busy = sampleCandidate('a', { pendingTokens: 20_000 });
    expect(warm(job, [busy, sampleCandidate('b', { pendingTokens: 20_000 })]).hold).toBe(true);
    expect(warm(job, [busy, sampleCandidate('b')]).hold).toBe(false);
    expect(warm(job, [busy, sampleCandidate('b', { pendingTokens: 9000 })]).hold).toBe(false);
  });

  it('lets an engine have the prompts of one step at least, however slow it is', () => {
    const slow = { ...rate1000, prefillTokensPerSecond: 100 };
    const candidates = (pendingTokens: number) => [
      sampleCandidate('a', { speed: slow, pendingTokens }),
      sampleCandidate('b', { speed: slow, pendingTokens }),
    ];
    expect(warm(job, candidates(2048)).hold).toBe(false);
    expect(warm(job, candidates(2049)).hold).toBe(true);
  });
});
