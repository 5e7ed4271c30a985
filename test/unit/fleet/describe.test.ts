import { expect, it } from 'vitest';
import type { BackendView } from '../../../src/domain/fleet.ts';
import { describeBackend, describeFleet } from '../../../src/fleet/describe.ts';

const bare: BackendView = {
  name: 'a',
  url: 'http://127.0.0.1:8000',
  engine: 'openai',
  engineKnown: false,
  health: 'unknown',
  healthSinceMs: 1,
  models: [],
  ghostSlots: 0,
  advice: [],
};

it('a vLLM is one line, and one more for each piece of advice', () => {
  const view: BackendView = {
    ...bare,
    engine: 'vllm',
    engineKnown: true,
    version: '0.32.0',
    health: 'up',
    models: ['m1', 'm2'],
    slots: 64,
    contextTokens: 32768,
    blockTokens: 16,
    kvTokens: 9168,
    advice: ['cached tokens are unknown; start vLLM with --enable-prompt-tokens-details'],
  };
  expect(describeBackend(view)).toEqual([
    'vllm 0.32.0 at http://127.0.0.1:8000 · models m1, m2 · at most 64 in flight · context 32768 tokens · block 16 · cache 9168 tokens · up',
    '  cached tokens are unknown; start vLLM with --enable-prompt-tokens-details',
  ]);
});

it('a llama-server shows its slots', () => {
  const view: BackendView = {
    ...bare,
    engine: 'llama-server',
    engineKnown: true,
    health: 'up',
    models: ['m'],
    slots: 2,
  };
  expect(describeBackend(view)).toEqual(['llama-server at http://127.0.0.1:8000 · models m · 2 slots · up']);
});

it('what is not known is left out, not made up', () => {
  expect(describeFleet({ atMs: 1, backends: [bare, bare] })).toEqual([
    'unknown engine at http://127.0.0.1:8000 · not probed yet',
    'unknown engine at http://127.0.0.1:8000 · not probed yet',
  ]);
});

it('says why one that is well takes no work, or only a little', () => {
  const told = (change: Partial<BackendView>) =>
    describeBackend({ ...bare, ...change })[0]
      ?.split(' · ')
      .at(-1);
  expect(told({ health: 'draining', healthReason: 'asked' })).toBe('drained, takes no new work');
  expect(told({ health: 'draining', healthReason: 'shutting_down' })).toBe('shutting down');
  expect(told({ health: 'down', healthReason: 'ejected' })).toContain('failed at its work');
  expect(told({ health: 'up', onTrial: true })).toBe('up, on trial');
});

it('many models are counted, not listed', () => {
  const models = ['a', 'b', 'c', 'd', 'e', 'f', 'g'];
  expect(describeBackend({ ...bare, models })[0]).toContain('models a, b, c, d, e and 2 more');
});

it('a bad health comes with its reason or remedy', () => {
  const line = (changes: Partial<BackendView>) => describeBackend({ ...bare, ...changes })[0];
  expect(line({ health: 'down', healthReason: 'refused' })).toMatch(/down \(connection refused\)$/);
  expect(line({ health: 'down' })).toMatch(/· down$/);
  expect(line({ health: 'auth' })).toMatch(/refuses the key: set its apiKey$/);
  expect(line({ health: 'loading' })).toMatch(/loading its model$/);
  expect(line({ health: 'draining' })).toMatch(/shutting down$/);
});

it('credentials in a URL are not shown', () => {
  expect(describeBackend({ ...bare, url: 'http://me:secret@host:1/p' })[0]).toContain('at http://host:1/p ·');
});

it('a router that runs several at once, by its own word, says so', () => {
  expect(describeBackend({ ...bare, maxSequences: 64 })[0]).toContain('runs 64 at once');
});
