/**
 * Predictions of what llama-server's slots give, beside the simulator's model of them: with and without a cache in RAM, few
 * slots and many, as many prompts at once as there are slots. The index is told the number of slots and nothing else; in
 * what order the simulator takes slots never used it must learn. Figures are printed.
 */
import { describe, expect, test } from 'vitest';

import { createWarmIndex } from '../../../../src/route/warm/warm-index.ts';
import { l40sLlama, type EngineSettings } from '../../../../src/sim/settings.ts';
import { createVirtualClock } from '../../../../src/sim/virtual-clock.ts';
import { backendView, usualShape } from './chains.ts';
import { runWorkload, type WorkloadShape } from './sim-workload.ts';

const talks: WorkloadShape = {
  requests: 800,
  gapMs: 2000,
  systemPrompts: 6,
  openConversations: 20,
  maxTurns: 12,
  templateTokens: 4,
  answersReturn: true,
  chain: usualShape,
};

interface Setup {
  readonly slots: number;
  readonly ramTokens: number;
  readonly shape: WorkloadShape;
  readonly seed: number;
}

function measure(name: string, { slots, ramTokens, shape, seed }: Setup) {
  const engine: EngineSettings = {
    ...l40sLlama,
    maxSequences: slots,
    cache: { kind: 'slots', slotTokens: 16_384, unified: false, ramTokens, minSimilarity: 0.1 },
  };
  const clock = createVirtualClock();
  const index = createWarmIndex({ maxEntries: 200_000, policies: {} }, { nowMs: () => clock.nowMs() });
  const backend = backendView('a', { engine: 'llama-server', slots, contextTokens: 16_384 });
  // What is learnt in the first tenth counts as learning.
  const { promptTokens, cachedTokens, predictedTokens, offTokens } = runWorkload(
    { index, backend, clock },
    { engine, shape: { atOnce: slots, ...shape }, seed, from: shape.requests / 10 },
  );
  const points = (tokens: number) => (100 * tokens) / promptTokens;
  const result = { bias: points(predictedTokens - cachedTokens), error: points(offTokens), hits: points(cachedTokens) };
  const [stats] = index.stats().backends;
  console.info(
    `${name}: hits ${result.hits.toFixed(1)} %, bias ${result.bias.toFixed(2)} points, mean error ${result.error.toFixed(2)}, ` +
      `${stats?.sequences} sequences, ${index.stats().bytes} bytes`,
  );
  expect(stats?.flushes).toBe(0);
  return result;
}

const caches = [
  ['with a cache in RAM', 65_536],
  ['with a small one', 16_384],
  ['with none', 0],
] as const;

describe.each(caches)('slots %s: within three points, and five off on average', (cache, ramTokens) => {
  test.each([2, 3, 4, 8])('%i slots', (slots) => {
    let errors = 0;
    for (const seed of [5, 6, 7]) {
      const name = `${slots} slots ${cache}, seed ${seed}`;
      const { bias, error, hits } = measure(name, { slots, ramTokens, shape: talks, seed });
      expect(hits).toBeGreaterThan(3);
      expect(Math.abs(bias)).toBeLessThan(3);
      expect(error).toBeLessThan(6);
      errors += error;
    }
    expect(errors / 3).toBeLessThan(5);
  });

  test('answers that come back in another form', () => {
    const shape = { ...talks, answersReturn: false };
    const { bias, error } = measure(`answers changed ${cache}`, { slots: 4, ramTokens, shape, seed: 5 });
    expect(Math.abs(bias)).toBeLessThan(3);
    expect(error).toBeLessThan(5);
  });

  test('prompts come about as fast as they can be answered', () => {
    const shape = { ...talks, gapMs: 700 };
    const { bias, error } = measure(`busy ${cache}`, { slots: 4, ramTokens, shape, seed: 5 });
    expect(Math.abs(bias)).toBeLessThan(3);
    expect(error).toBeLessThan(5);
  });
});
