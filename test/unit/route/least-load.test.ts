import { describe, expect, it } from 'vitest';
import { isRefusal } from '../../../src/domain/refusal.ts';
import { route, type RouteRequest } from '../../../src/route/least-load.ts';
import { sampleBackend, sampleJob } from '../../support/sample.ts';

const idle = { jobs: 0, slots: 0, lastUsed: 0 };

function ranked(backends: ReturnType<typeof sampleBackend>[], over: Partial<RouteRequest> = {}) {
  const result = route({ job: sampleJob(), fleet: { atMs: 1, backends }, load: () => idle, exclude: [], ...over });
  return isRefusal(result) ? result.code : result.map(({ backend, reason }) => `${backend.name}:${reason}`);
}

describe('the choice of backends', () => {
  it('passes an unknown model name through when there is one backend', () => {
    expect(ranked([sampleBackend('a', { models: ['x'] })], { model: 'y' })).toEqual(['a:only_backend']);
  });

  it('answers 404 when several backends are known not to serve the model', () => {
    const backends = [sampleBackend('a', { models: ['x'] }), sampleBackend('b', { models: ['z'] })];
    expect(ranked(backends, { model: 'y' })).toBe('model_not_found');
  });

  it('takes only those that serve the model, and those whose models are not known', () => {
    const backends = [sampleBackend('a', { models: ['x'] }), sampleBackend('b'), sampleBackend('c', { models: ['y'] })];
    expect(ranked(backends, { model: 'y' })).toEqual(['b:least_load', 'c:least_load']);
  });

  it('says what is not known when only a backend that is down, its models unknown, might serve the model', () => {
    const backends = [sampleBackend('a', { models: ['x'] }), sampleBackend('b', { health: 'down' })];
    const refusal = route({
      job: sampleJob(),
      fleet: { atMs: 1, backends },
      load: () => idle,
      exclude: [],
      model: 'y',
    });
    expect(refusal).toMatchObject({
      status: 503,
      code: 'no_backend',
      param: 'model',
      message: expect.stringMatching(/`y`.*Served here: x\. .*b \(down\)/) as string,
    });
    expect(ranked(backends, { model: 'x' })).toEqual(['a:least_load']);
    expect(
      ranked([sampleBackend('a', { models: ['x'] }), sampleBackend('b', { health: 'down', models: ['y'] })], {
        model: 'y',
      }),
    ).toEqual(['b:last_resort']);
  });

  it('puts the least loaded first, by share of slots', () => {
    const backends = [sampleBackend('a', { slots: 2 }), sampleBackend('b', { slots: 8 })];
    const load = (name: string) => ({ jobs: 2, slots: name === 'a' ? 1 : 2, lastUsed: 0 });
    expect(ranked(backends, { load })).toEqual(['b:least_load', 'a:least_load']);
  });

  it('takes the one used longest ago among equals', () => {
    const load = (name: string) => ({ jobs: 0, slots: 0, lastUsed: name === 'a' ? 5 : 3 });
    expect(ranked([sampleBackend('a'), sampleBackend('b')], { load })).toEqual(['b:least_load', 'a:least_load']);
  });

  it('sends nothing to a backend that is down, loading or draining while another works', () => {
    const backends = [
      sampleBackend('a', { health: 'down' }),
      sampleBackend('b', { health: 'loading' }),
      sampleBackend('c', { health: 'draining' }),
      sampleBackend('d'),
    ];
    expect(ranked(backends)).toEqual(['d:least_load']);
  });

  it('tries those that are down when there is no other', () => {
    expect(ranked([sampleBackend('a', { health: 'down' }), sampleBackend('b', { health: 'down' })])).toEqual([
      'a:last_resort',
      'b:last_resort',
    ]);
  });

  it('goes where the state is, whatever the load', () => {
    expect(ranked([sampleBackend('a'), sampleBackend('b')], { affinity: 'b' })).toEqual(['b:sticky']);
  });

  it('leaves out those that failed already, and says so when none is left', () => {
    const backends = [sampleBackend('a'), sampleBackend('b')];
    expect(ranked(backends, { exclude: ['a'] })).toEqual(['b:least_load']);
    expect(ranked(backends, { exclude: ['a', 'b'] })).toBe('no_backend');
  });

  it('sends a prompt only where it can fit, however busy that is', () => {
    const backends = [sampleBackend('a', { contextTokens: 2048 }), sampleBackend('b', { contextTokens: 131_072 })];
    const load = (name: string) => ({ jobs: name === 'b' ? 50 : 0, slots: 0, lastUsed: 0 });
    expect(ranked(backends, { load, job: sampleJob({ bodyBytes: 400_000 }) })).toEqual(['b:least_load']);
    expect(ranked(backends, { load, job: sampleJob({ bodyBytes: 4000 }) })).toEqual(['a:least_load', 'b:least_load']);
  });

  it("leaves a prompt that fits nowhere to the engine's own error", () => {
    const backends = [sampleBackend('a', { contextTokens: 2048 }), sampleBackend('b', { contextTokens: 4096 })];
    expect(ranked(backends, { job: sampleJob({ bodyBytes: 400_000 }) })).toEqual(['a:least_load', 'b:least_load']);
  });
});
