import { describe, expect, it } from 'vitest';
import { cacheAware } from '../../../../src/route/policies/cache-aware.ts';
import { createChwbl } from '../../../../src/route/policies/chwbl.ts';
import { leastLoad } from '../../../../src/route/policies/least-load.ts';
import { roundRobin } from '../../../../src/route/policies/round-robin.ts';
import { session } from '../../../../src/route/policies/session.ts';
import { stickyUntilSaturated } from '../../../../src/route/policies/sticky-until-saturated.ts';
import type { Policy } from '../../../../src/route/policy.ts';
import { namesOf, sampleCandidate, sampleRouteJob, shown, type CandidateChange } from '../../../support/candidates.ts';

/** Gives `count` jobs one after another, as the load grows by them. @returns how many each got */
function spread(policy: Policy, count: number, load: Record<string, CandidateChange>, keyOf: (nth: number) => number) {
  const given = new Map(Object.keys(load).map((name) => [name, 0]));
  for (let nth = 1; nth <= count; nth += 1) {
    const from = Object.entries(load).map(([name, base]) => {
      const more = given.get(name) ?? 0;
      const jobs = (base.jobs ?? 0) + more;
      return sampleCandidate(name, { ...base, jobs, indexTokens: (base.indexTokens ?? 0) + more * 2000 });
    });
    const [first = ''] = namesOf(policy(sampleRouteJob({ prefixKey: keyOf(nth) }), from));
    given.set(first, (given.get(first) ?? 0) + 1);
  }
  return given;
}

const distinct = (nth: number) => nth * 15_485_863_007;

describe('round-robin', () => {
  it('C075 takes each in turn whatever is asked in between: only a job that is given moves the turn', () => {
    const last = new Map([
      ['a', 0],
      ['b', 0],
    ]);
    const from = () => [...last].map(([name, lastUsed]) => sampleCandidate(name, { lastUsed }));
    const order: string[] = [];
    for (let turn = 1; turn <= 100; turn += 1) {
      for (let asked = 0; asked < 3; asked += 1) roundRobin(sampleRouteJob(), from());
      const [first = ''] = namesOf(roundRobin(sampleRouteJob(), from()));
      order.push(first);
      last.set(first, turn);
    }
    expect(order.filter((name) => name === 'a')).toHaveLength(50);
    expect(order.slice(0, 4)).toEqual(['a', 'b', 'a', 'b']);
  });
});

describe('least-load', () => {
  it('counts slots where there are some, by weight', () => {
    const from = [
      sampleCandidate('a', { slots: 2, view: { slots: 4 } }),
      sampleCandidate('b', { slots: 3, view: { slots: 8 } }),
      sampleCandidate('c', { slots: 2, view: { slots: 4, ghostSlots: 1 } }),
      sampleCandidate('d', { slots: 3, view: { slots: 8 }, weight: 2 }),
    ];
    expect(shown(leastLoad(sampleRouteJob(), from))).toEqual([
      'd:least_load',
      'b:least_load',
      'a:least_load',
      'c:least_load',
    ]);
  });
});

describe('session', () => {
  const names = ['a', 'b', 'c', 'd'];
  const home = (key: number, from: readonly string[], over: CandidateChange = {}) =>
    namesOf(
      session(
        sampleRouteJob({ sessionKey: key }),
        from.map((name) => sampleCandidate(name, over)),
      ),
    )[0];

  it('keeps a session where it is, whatever the load, and moves only those of a backend that leaves', () => {
    for (let key = 1; key <= 200; key += 1) {
      const before = home(key, names) ?? '';
      expect(home(key, names, { jobs: 90, pendingTokens: 100_000 })).toBe(before);
      const after = home(
        key,
        names.filter((name) => name !== 'b'),
      );
      if (before !== 'b') expect(after).toBe(before);
    }
  });

  it('goes by the prompt without a session, by load without either', () => {
    const from = [sampleCandidate('a', { jobs: 9 }), sampleCandidate('b')];
    expect(shown(session(sampleRouteJob(), from))).toEqual(['b:least_load', 'a:least_load']);
    expect(shown(session(sampleRouteJob({ prefixKey: 5 }), from))).toMatchObject([expect.stringMatching(/:hash$/)]);
    expect(shown(session(sampleRouteJob({ sessionKey: 5 }), from))).toMatchObject([expect.stringMatching(/:session$/)]);
  });
});

describe('chwbl', () => {
  it('C140 keeps a hot beginning within 1.25 times the mean', () => {
    const load = { a: {}, b: {}, c: {}, d: {} };
    const given = spread(createChwbl(), 32, load, () => 77);
    expect(Math.max(...given.values())).toBeLessThanOrEqual(10);
    expect([...given.values()].reduce((sum, count) => sum + count, 0)).toBe(32);
  });

  it('gives a beginning the same backend while there is room, and few another one when one leaves', () => {
    const chwbl = createChwbl();
    const of = (key: number, names: readonly string[]) =>
      namesOf(
        chwbl(
          sampleRouteJob({ prefixKey: key }),
          names.map((name) => sampleCandidate(name)),
        ),
      )[0] ?? '';
    const all = ['a', 'b', 'c', 'd', 'e'];
    let moved = 0;
    for (let nth = 1; nth <= 500; nth += 1) {
      const before = of(distinct(nth), all);
      expect(of(distinct(nth), all)).toBe(before);
      const after = of(distinct(nth), all.slice(0, 4));
      if (before !== after) {
        moved += 1;
        expect(before).toBe('e');
      }
    }
    expect(moved).toBeGreaterThan(40);
    expect(moved).toBeLessThan(180);
  });
});

describe('sticky-until-saturated', () => {
  const job = sampleRouteJob({ promptTokens: 1000 });

  it('stays with those that hold 0.8 of the prompt, the one with the least uncached in flight first', () => {
    const from = [
      sampleCandidate('idle'),
      sampleCandidate('warm', { heldTokens: 900, pendingTokens: 5000 }),
      sampleCandidate('warmer', { heldTokens: 1000, pendingTokens: 6000 }),
      sampleCandidate('luke', { heldTokens: 790 }),
    ];
    expect(shown(stickyUntilSaturated(job, from)).slice(0, 2)).toEqual(['warm:prefix', 'warmer:prefix']);
  });

  it('leaves them when they are behind by more than 18 s of prefill', () => {
    const behind = (tokens: number) => [
      sampleCandidate('cold'),
      sampleCandidate('warm', { heldTokens: 1000, pendingTokens: tokens }),
    ];
    expect(namesOf(stickyUntilSaturated(job, behind(144_999)))[0]).toBe('warm');
    expect(shown(stickyUntilSaturated(job, behind(145_001)))[0]).toBe('cold:load_over_prefix');
  });
});

describe('cache-aware', () => {
  it('takes the longest match above the threshold while the load is balanced, else the least loaded', () => {
    const from = (jobs: number) => [
      sampleCandidate('held', { heldTokens: 700, jobs, indexTokens: 9000 }),
      sampleCandidate('less', { heldTokens: 650 }),
      sampleCandidate('none', { jobs: 1 }),
    ];
    expect(shown(cacheAware(sampleRouteJob(), from(10)))[0]).toBe('held:prefix');
    expect(shown(cacheAware(sampleRouteJob(), from(70)))[0]).toBe('less:least_load');
    expect(namesOf(cacheAware(sampleRouteJob({ promptTokens: 4000 }), from(0)))[0]).toBe('less');
  });

  it('C138 a prompt that matches nowhere is not sent to an overloaded backend because its tree is small', () => {
    const given = spread(
      cacheAware,
      20,
      { a: { jobs: 30, indexTokens: 60_000 }, b: { indexTokens: 5_000_000 } },
      distinct,
    );
    expect(given.get('b')).toBeGreaterThanOrEqual(18);
  });
});
