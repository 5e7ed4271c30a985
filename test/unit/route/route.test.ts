import { describe, expect, it } from 'vitest';
import { isRefusal } from '../../../src/domain/refusal.ts';
import { leastLoad } from '../../../src/route/policies/least-load.ts';
import { roundRobin } from '../../../src/route/policies/round-robin.ts';
import { createWarm } from '../../../src/route/policies/warm.ts';
import { route, type RouteRequest } from '../../../src/route/route.ts';
import { costDefaults } from '../../../src/route/settings.ts';
import { sampleCandidate, sampleRouteJob, type CandidateChange } from '../../support/candidates.ts';
import { sampleBackend, sampleJob } from '../../support/sample.ts';

interface Over extends Partial<Omit<RouteRequest, 'candidate' | 'jobsOn'>> {
  readonly load?: (backend: string) => CandidateChange;
}

function routed(backends: ReturnType<typeof sampleBackend>[], { load = () => ({}), ...over }: Over = {}) {
  return route({
    job: sampleJob(),
    fleet: { atMs: 1, backends },
    exclude: [],
    policy: leastLoad,
    routeJob: sampleRouteJob(),
    candidate: (backend) => ({ ...sampleCandidate(backend.name, load(backend.name)), backend }),
    jobsOn: (name) => load(name).jobs ?? 0,
    ...over,
  });
}

function ranked(backends: ReturnType<typeof sampleBackend>[], over: Over = {}) {
  const result = routed(backends, over);
  return isRefusal(result) ? result.code : result.ranked.map(({ backend, reason }) => `${backend.name}:${reason}`);
}

function left(backends: ReturnType<typeof sampleBackend>[], over: Over = {}) {
  const result = routed(backends, over);
  return isRefusal(result) ? result.code : result.left.map(({ backend, why }) => `${backend.name}:${why}`);
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

  it('says of an empty fleet where a backend can be named: one by DNS may just not have been found', () => {
    expect(routed([], { model: 'y' })).toMatchObject({
      status: 503,
      code: 'no_backend',
      message: expect.stringMatching(/--backend.*backends.*discovery/) as string,
    });
  });

  it('says what is not known when only a backend that is down, its models unknown, might serve the model', () => {
    const backends = [sampleBackend('a', { models: ['x'] }), sampleBackend('b', { health: 'down' })];
    expect(routed(backends, { model: 'y' })).toMatchObject({
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

  it('says of each backend why it was left out', () => {
    const backends = [
      sampleBackend('a'),
      sampleBackend('b', { models: ['other'] }),
      sampleBackend('c', { health: 'down' }),
      sampleBackend('d', { contextTokens: 100 }),
      sampleBackend('e'),
    ];
    const over = { exclude: ['a'], model: 'm', job: sampleJob({ bodyBytes: 8000 }) };
    expect(ranked(backends, over)).toEqual(['e:least_load']);
    expect(left(backends, over)).toEqual(['a:failed_before', 'b:other_model', 'c:takes_no_work', 'd:too_small']);
  });

  it('counts a prompt by its tokens where these are known, with a fifth to spare', () => {
    const backends = [sampleBackend('a', { contextTokens: 2048 }), sampleBackend('b', { contextTokens: 131_072 })];
    const load = (name: string) => ({ jobs: name === 'b' ? 5 : 0 });
    expect(ranked(backends, { load, promptTokens: 2500 })).toEqual(['a:least_load', 'b:least_load']);
    expect(ranked(backends, { load, promptTokens: 2600 })).toEqual(['b:least_load']);
  });

  it('gives a backend on trial one job at a time while another can take the next', () => {
    const backends = [sampleBackend('a', { onTrial: true }), sampleBackend('b')];
    const load = (name: string) => ({ jobs: name === 'a' ? 1 : 20 });
    expect(ranked(backends)).toHaveLength(2);
    expect(ranked(backends, { load })).toEqual(['b:least_load']);
    expect(ranked([sampleBackend('a', { onTrial: true }), sampleBackend('b', { health: 'down' })], { load })).toEqual([
      'a:least_load',
    ]);
  });

  it('holds no job back where there is nobody else to go to, and says what it costs there', () => {
    const load = () => ({ pendingTokens: 1_000_000 });
    const policy = createWarm(costDefaults);
    const held = (backends: ReturnType<typeof sampleBackend>[], over: Over = {}) => {
      const result = routed(backends, { policy, load, ...over });
      return isRefusal(result) ? result.code : result.hold;
    };
    expect(held([sampleBackend('a')])).toBe(false);
    expect(held([sampleBackend('a'), sampleBackend('b')])).toBe(true);
    expect(held([sampleBackend('a'), sampleBackend('b')], { affinity: 'a' })).toBe(false);
    expect(held([sampleBackend('a', { health: 'down' }), sampleBackend('b', { health: 'down' })])).toBe(false);
    expect(routed([sampleBackend('a')], { policy, load })).toMatchObject({
      ranked: [{ reason: 'only_backend', cost: { queue: 125 } }],
    });
  });

  it('takes each in turn by when it was last used', () => {
    const load = (name: string) => ({ lastUsed: { a: 7, b: 3, c: 5 }[name] ?? 0 });
    const backends = ['a', 'b', 'c'].map((name) => sampleBackend(name));
    expect(ranked(backends, { load, policy: roundRobin })).toEqual(['b:round_robin', 'c:round_robin', 'a:round_robin']);
  });
});
