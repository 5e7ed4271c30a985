/**
 * Predictions against what a simulated engine's cache really gave, request by request, in points of all prompt tokens. The
 * index is told neither the engine's capacity (or a wrong one) nor its template; conversations, shared system prompts, answers
 * that come back, more than the cache holds. Figures are printed.
 */
import { describe, expect, test } from 'vitest';

import type { BackendView } from '../../../../src/domain/fleet.ts';
import { createWarmIndex } from '../../../../src/route/warm/warm-index.ts';
import { l40sLlama, l40sVllm, type EngineSettings } from '../../../../src/sim/settings.ts';
import { createVirtualClock } from '../../../../src/sim/virtual-clock.ts';
import { backendView, usualShape } from './chains.ts';
import { runWorkload, type WorkloadShape } from './sim-workload.ts';

const blocks = 4000;
const kvTokens = blocks * 16;
const vllm: EngineSettings = {
  ...l40sVllm,
  cache: { kind: 'blocks', blockTokens: 16, blocks, prefixCaching: true },
};
const conversations: WorkloadShape = {
  requests: 2000,
  gapMs: 600,
  systemPrompts: 20,
  openConversations: 150,
  maxTurns: 12,
  templateTokens: 4,
  answersReturn: true,
  chain: usualShape,
};

function measure(name: string, view: Partial<BackendView>, run: { engine: EngineSettings; shape: WorkloadShape }) {
  const clock = createVirtualClock();
  const index = createWarmIndex({ maxEntries: 200_000, policies: {} }, { nowMs: () => clock.nowMs() });
  const backend = backendView('a', view);
  // What is learnt in the first tenth counts as learning.
  const { promptTokens, cachedTokens, predictedTokens, offTokens } = runWorkload(
    { index, backend, clock },
    { ...run, seed: 5, from: run.shape.requests / 10 },
  );
  const points = (tokens: number) => (100 * tokens) / promptTokens;
  const result = { bias: points(predictedTokens - cachedTokens), error: points(offTokens), hits: points(cachedTokens) };
  const [stats] = index.stats().backends;
  console.info(
    `${name}: hits ${result.hits.toFixed(1)} %, bias ${result.bias.toFixed(2)} points, mean error ${result.error.toFixed(2)}, ` +
      `horizon ${stats?.horizonTokens} of ${kvTokens} tokens`,
  );
  expect(stats?.flushes).toBe(0);
  return result;
}

describe('blocks, as in vLLM', () => {
  test.each([
    ['told as it is', { kvTokens }],
    ['told four times too large', { kvTokens: 4 * kvTokens }],
    ['told half', { kvTokens: kvTokens / 2 }],
    ['not told', {}],
  ])('capacity %s: within three points, and four off on average', (name, told) => {
    const { bias, error, hits } = measure(name, { blockTokens: 16, ...told }, { engine: vllm, shape: conversations });
    expect(hits).toBeGreaterThan(20);
    expect(Math.abs(bias)).toBeLessThan(3);
    expect(error).toBeLessThan(4);
  });

  test('answers that come back in another form: within three points', () => {
    const shape = { ...conversations, answersReturn: false };
    const { bias, error } = measure('answers changed', { blockTokens: 16, kvTokens }, { engine: vllm, shape });
    expect(Math.abs(bias)).toBeLessThan(3);
    expect(error).toBeLessThan(4);
  });

  test('a cache that holds everything: within one point', () => {
    const large = {
      ...vllm,
      cache: { kind: 'blocks', blockTokens: 16, blocks: 200_000, prefixCaching: true } as const,
    };
    const { bias, error } = measure('large cache', { blockTokens: 16 }, { engine: large, shape: conversations });
    expect(Math.abs(bias)).toBeLessThan(1);
    expect(error).toBeLessThan(1.5);
  });

  test('an engine that is sent more than it can compute: what waits there holds nothing yet', () => {
    const shape = { ...conversations, gapMs: 300 };
    const { bias, error } = measure('overload', { blockTokens: 16, kvTokens }, { engine: vllm, shape });
    expect(Math.abs(bias)).toBeLessThan(5);
    expect(error).toBeLessThan(7);
  });
});

describe('slots, as in llama-server', () => {
  test('their number not told, so that age must do: within three points', () => {
    const shape = { ...conversations, requests: 800, gapMs: 2000, systemPrompts: 6, openConversations: 20 };
    const view = { engine: 'llama-server', kvTokens: 131_072 } as const;
    const { bias, hits } = measure('slots by age', view, { engine: l40sLlama, shape });
    expect(hits).toBeGreaterThan(50);
    expect(Math.abs(bias)).toBeLessThan(3);
  });
});
