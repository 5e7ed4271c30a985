import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { addDeltas, riseBetween, type CounterDeltas } from '../../../../src/account/engines/counter-deltas.ts';

const reading = (counters: CounterDeltas, atMs = 1) => ({ atMs, gauges: {}, counters });

describe('what counters rose by', () => {
  it('is known for those that are in both readings; one that vanished or is new is unknown, not 0', () => {
    const rise = riseBetween(
      reading({ generatedTokens: 5, drafts: 1, preemptions: 0 }),
      reading({ generatedTokens: 9, prefixHits: 3, preemptions: 0 }),
    );
    expect(rise).toEqual({ restarted: false, deltas: { generatedTokens: 4, preemptions: 0 } });
  });

  it('is unknown altogether when any of them fell: it is another process', () => {
    const rise = riseBetween(
      reading({ generatedTokens: 500, promptTokens: 10 }),
      reading({ generatedTokens: 3, promptTokens: 12 }),
    );
    expect(rise).toEqual({ restarted: true, deltas: {} });
  });

  it('C156 is never negative nor more hits than queries across a restart: what lies around it is marked as unknown', () => {
    const scrapes = [
      [100, 200],
      [180, 300],
      [5, 20],
      [15, 40],
    ].map(([prefixHits = 0, prefixQueries = 0]) => reading({ prefixHits, prefixQueries }));
    const rises = scrapes.slice(1).map((after, index) => riseBetween(scrapes[index] ?? after, after));
    expect(rises).toEqual([
      { restarted: false, deltas: { prefixHits: 80, prefixQueries: 100 } },
      { restarted: true, deltas: {} },
      { restarted: false, deltas: { prefixHits: 10, prefixQueries: 20 } },
    ]);
  });

  it('is no restart where only a sum of seconds or an estimate fell: a little is 0, much is unknown', () => {
    const before = { generatedTokens: 5, ttftSeconds: 10, itlSeconds: 10, flops: 1e12 };
    const after = { generatedTokens: 9, ttftSeconds: 9.99, itlSeconds: 4, flops: 0.999e12 };
    expect(riseBetween(reading(before), reading(after))).toEqual({
      restarted: false,
      deltas: { generatedTokens: 4, ttftSeconds: 0, flops: 0 },
    });
    const computed = (to: number) => riseBetween(reading({ computedTokens: 1000 }), reading({ computedTokens: to }));
    expect(computed(999)).toEqual({ restarted: false, deltas: { computedTokens: 0 } });
    expect(computed(9).restarted).toBe(true);
    const count = riseBetween(
      reading({ generatedTokens: 5, ttftCount: 2 }),
      reading({ generatedTokens: 9, ttftCount: 1 }),
    );
    expect(count.restarted).toBe(true);
  });

  it('is unknown in a sum where one part is unknown', () => {
    expect(addDeltas({ drafts: 1, promptTokens: 2 }, { promptTokens: 3, prefixHits: 1 })).toEqual({ promptTokens: 5 });
  });

  it('is never negative, whatever two readings say', () => {
    const counters = fc.record(
      { generatedTokens: fc.nat(), promptTokens: fc.nat(), ttftSeconds: fc.double({ min: 0, max: 1e9, noNaN: true }) },
      { requiredKeys: [] },
    );
    fc.assert(
      fc.property(counters, counters, (a, b) =>
        Object.values(riseBetween(reading(a), reading(b)).deltas).every((delta) => delta >= 0),
      ),
    );
  });
});
