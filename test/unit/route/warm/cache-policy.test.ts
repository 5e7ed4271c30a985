import { describe, expect, test } from 'vitest';

import { cachePolicyFor, firstHorizonTokens, reusableTokens } from '../../../../src/route/warm/cache-policy.ts';
import { backendView } from './chains.ts';

describe('what an engine takes from its cache', () => {
  test('vLLM: full blocks, never one with the last token (as seen with 128: a prompt of 128 gives 0, of 129 gives 128)', () => {
    const policy = cachePolicyFor(backendView('a', { blockTokens: 128, kvTokens: 16_384 }));
    expect(policy).toEqual({ blockTokens: 128, reuse: 'prefix', capacityTokens: 16_384 });
    expect(reusableTokens(policy, 128, 128)).toBe(0);
    expect(reusableTokens(policy, 129, 129)).toBe(128);
    expect(reusableTokens(policy, 300, 1000)).toBe(256);
  });

  test('vLLM that told no block size: 16', () => {
    const policy = cachePolicyFor(backendView('a'));
    expect(policy).toEqual({ blockTokens: 16, reuse: 'prefix' });
    expect(reusableTokens(policy, 64, 64)).toBe(48);
  });

  test('llama-server: token by token, all but the last one', () => {
    const policy = cachePolicyFor(backendView('a', { engine: 'llama-server', slots: 4, contextTokens: 8192 }));
    expect(policy.blockTokens).toBe(1);
    expect(policy.capacityTokens).toBeGreaterThan(4 * 8192);
    expect(reusableTokens(policy, 364, 364)).toBe(363);
    expect(reusableTokens(policy, 356, 364)).toBe(356);
  });

  test('a shorter prompt than a block gives nothing, and nothing is ever below zero', () => {
    const policy = { blockTokens: 784, reuse: 'prefix' } as const;
    expect(reusableTokens(policy, 240, 240)).toBe(0);
    expect(reusableTokens(policy, 0, 1)).toBe(0);
  });

  test('the config goes before what the engine tells', () => {
    const view = backendView('a', { blockTokens: 16, kvTokens: 1000 });
    const policy = cachePolicyFor(view, { blockTokens: 32, reuse: 'none', capacityTokens: 77 });
    expect(policy).toEqual({ blockTokens: 32, reuse: 'none', capacityTokens: 77 });
  });

  test('the horizon begins a quarter above a told capacity, and high where none is told', () => {
    expect(firstHorizonTokens({ blockTokens: 16, reuse: 'prefix', capacityTokens: 1000 })).toBe(1250);
    expect(firstHorizonTokens({ blockTokens: 16, reuse: 'prefix' })).toBe(1_000_000);
  });
});
