import { describe, expect, it } from 'vitest';
import { pooledHitShare } from '../../../../src/sim/fleet/cache-bounds.ts';
import { hashedPrompt } from '../../../../src/sim/prompt.ts';
import { generators, type GeneratorName } from '../../../../src/sim/traces/generators/generator.ts';

function made(name: GeneratorName, requests = 3000) {
  const { make, ratePerSecond } = generators[name];
  const trace = make({ requests, ratePerSecond, seed: 4 });
  const prompts = trace.requests.map((one) => hashedPrompt(one.promptTokens, one.hashIds, trace.hashTokens));
  const sorted = trace.requests.map(({ promptTokens }) => promptTokens).toSorted((a, b) => a - b);
  const mean = (of: 'promptTokens' | 'outputTokens') =>
    trace.requests.reduce((sum, request) => sum + request[of], 0) / trace.requests.length;
  return {
    trace,
    endless: pooledHitShare(prompts, { blockTokens: 16, capacityTokens: Infinity }),
    at: (share: number) => sorted[Math.floor(sorted.length * share)] ?? 0,
    mean,
  };
}

describe('generated workloads', () => {
  it.each(Object.keys(generators) as GeneratorName[])(
    '%s is the same for the same seed, and another for another',
    (name) => {
      const { make, ratePerSecond } = generators[name];
      const one = make({ requests: 300, ratePerSecond, seed: 1 });
      expect(one.requests).toHaveLength(300);
      expect(make({ requests: 300, ratePerSecond, seed: 1 })).toEqual(one);
      expect(make({ requests: 300, ratePerSecond, seed: 2 })).not.toEqual(one);
    },
  );

  it.each(Object.keys(generators) as GeneratorName[])('%s comes in order and about as often as asked', (name) => {
    const { trace } = made(name);
    const firsts = trace.requests.filter(({ after }) => after === undefined).map(({ atMs }) => atMs);
    expect(firsts).toEqual(firsts.toSorted((a, b) => a - b));
    const perSecond = (trace.requests.length * 1000) / (firsts.at(-1) ?? 1);
    expect(perSecond / generators[name].ratePerSecond).toBeGreaterThan(0.6);
    expect(perSecond / generators[name].ratePerSecond).toBeLessThan(1.7);
  });

  it('conversation is like Mooncake’s trace: long prompts, a third seen before', () => {
    const { at, mean, endless } = made('conversation', 6000);
    expect(at(0.5)).toBeGreaterThan(5000);
    expect(at(0.5)).toBeLessThan(9000);
    expect(at(0.9)).toBeGreaterThan(20_000);
    expect(at(0.9)).toBeLessThan(38_000);
    expect(mean('outputTokens')).toBeGreaterThan(300);
    expect(mean('outputTokens')).toBeLessThan(400);
    expect(endless).toBeGreaterThan(0.28);
    expect(endless).toBeLessThan(0.45);
  });

  it('shared-prompts is 150 × 6,000 shared tokens and 1,200 of its own', () => {
    const { trace, at, endless } = made('shared-prompts');
    expect([at(0), at(0.99)]).toEqual([7200, 7200]);
    // 93 whole ids of 64 tokens lie in 6,000.
    expect(new Set(trace.requests.map(({ hashIds }) => hashIds[92])).size).toBe(150);
    expect(new Set(trace.requests.map(({ hashIds }) => hashIds[93])).size).toBe(3000);
    expect(endless).toBeGreaterThan(0.75);
  });

  it('agents wait for their own answers, and were nearly all seen before', () => {
    const { trace, endless } = made('agents');
    const later = trace.requests.filter(({ after }) => after !== undefined);
    expect(later.length).toBeGreaterThan(2400);
    expect(later.every(({ after }, _index) => (after?.delayMs ?? 0) > 0)).toBe(true);
    expect(endless).toBeGreaterThan(0.85);
  });

  it('smooth and bursty share nothing, and differ in their bursts', () => {
    const cv = (name: GeneratorName) => {
      const { trace } = made(name, 6000);
      const counts = new Map<number, number>();
      for (const { atMs } of trace.requests)
        counts.set(Math.floor(atMs / 10_000), (counts.get(Math.floor(atMs / 10_000)) ?? 0) + 1);
      const windows = Array.from({ length: Math.max(...counts.keys()) }, (_, at) => counts.get(at) ?? 0);
      const mean = windows.reduce((sum, count) => sum + count, 0) / windows.length;
      return Math.sqrt(windows.reduce((sum, count) => sum + (count - mean) ** 2, 0) / windows.length) / mean;
    };
    expect(made('smooth').endless).toBe(0);
    expect(cv('smooth')).toBeLessThan(0.4);
    expect(cv('bursty')).toBeGreaterThan(1);
  });
});
