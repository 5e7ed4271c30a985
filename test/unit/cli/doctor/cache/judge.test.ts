import { expect, it } from 'vitest';
import { interpret } from '../../../../../src/cli/doctor/cache/interpret.ts';
import { judgeCache } from '../../../../../src/cli/doctor/cache/judge.ts';
import type { Observation, Step } from '../../../../../src/cli/doctor/cache/observation.ts';
import type { Endpoint } from '../../../../../src/cli/doctor/endpoint.ts';

// Of an endpoint these are asked for, and nothing else.
const endpoint = { models: [{ id: 'm' }], loraAdapters: 0 } as unknown as Endpoint;
const counted = (step: Step, cached: number, tokens?: number): Observation => ({
  step,
  cached,
  promptTokens: 600,
  sources: ['usage'],
  ttftMs: 100,
  ...(tokens === undefined ? {} : { shared: { tokens, exact: true } }),
});
const granularity = (observations: readonly Observation[]) =>
  judgeCache(interpret(observations), observations, endpoint).find(({ check }) => check === 'cache.granularity');

it('says nothing of portions where only whole prompts hit', () => {
  const whole = [
    counted('fresh', 0),
    counted('repeat', 599),
    counted('repeat', 599),
    counted('prefix', 0, 532),
    counted('prefix', 0, 410),
  ];
  const growing = [...whole, counted('continuation', 590)];
  for (const observations of [growing, [...whole, counted('continuation', 0)]])
    expect(granularity(observations)).toMatchObject({
      verdict: 'unknown',
      evidence: '532 shared: 0 hit, 410 shared: 0 hit',
    });
  expect(JSON.stringify(granularity(growing))).toContain('no prefix was hit');
  expect(granularity([...whole, counted('prefix', 531, 532), counted('prefix', 409, 410)])?.verdict).toBe('ok');
});
