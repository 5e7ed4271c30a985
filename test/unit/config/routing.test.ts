import { describe, expect, it } from 'vitest';
import { routeDefaults } from '../../../src/route/settings.ts';
import { configOf, problemsOf } from './load-text.ts';

const backends = 'backends:\n  - url: http://h:1\n';

describe('what the config says of routing', () => {
  it('has the defaults of routing where it says nothing', () => {
    const { route, classify } = configOf(backends);
    expect({ ...route, caches: { ...route.caches } }).toEqual(routeDefaults);
    expect(classify.sessionHeaders).toEqual(['x-session-id']);
  });

  it('gives each part to its folder', () => {
    const { route, classify, fleet } = configOf(`
backends:
  - url: http://h:1
    name: a
    cache: { blockTokens: 128, reuse: whole }
routing:
  policy: chwbl
  pools: [{ models: [m], policy: least-load }]
  nu: 0
  sessionBonusMs: 0
  sessionHeaders: [X-My-Session]
  slowStartMs: 0
  index: { maxEntries: 5000 }
`);
    expect(route).toMatchObject({
      policy: 'chwbl',
      pools: [{ models: ['m'], policy: 'least-load' }],
      cost: { lambda: 1, nu: 0, rho: 0.5, kappa: 3, sessionBonusMs: 0, holdMs: 1250 },
      slowStartMs: 0,
      index: { maxEntries: 5000 },
      caches: { a: { blockTokens: 128, reuse: 'whole' } },
    });
    expect(classify.sessionHeaders).toEqual(['x-my-session']);
    expect(fleet.backends[0]).not.toHaveProperty('cache');
  });

  it.each([
    ['', 1250],
    ['slo: { default: chat }', 50],
    ['slo: { default: chat, profiles: { chat: { ttftMs: 300 } } }', 75],
    // No bound of a first token.
    ['slo: { default: reading }', 1250],
    ['slo: { routes: { chat: chat } }', 1250],
    ['slo: { default: chat }\nrouting: { holdMs: 900 }', 900],
    ['slo: { default: chat }\nrouting: { holdMs: 0 }', 0],
  ])('holds prompts back by a quarter of the default objective for a first token: %j', (text, holdMs) => {
    expect(configOf(text).route.cost.holdMs).toBe(holdMs);
  });

  it('says what is wrong, each at its place', () => {
    const said = problemsOf(`${backends}
routing:
  policy: fastest
  rho: -1
  kappa: 1000
  sessionHeaders: ["a b"]
`);
    expect(said).toEqual([
      expect.stringContaining('routing.policy: must be one of warm, round-robin'),
      expect.stringContaining('routing.rho: must be a number from 0 to 100'),
      expect.stringContaining('routing.kappa: must be a number from 0 to 100'),
      expect.stringContaining("routing.sessionHeaders[0]: must be a header's name"),
    ]);
    expect(
      problemsOf(`${backends}
routing:
  pools: [{ models: [m], policy: warm }, { models: [n, m], policy: warm }]
`),
    ).toEqual([expect.stringContaining('routing.pools[1].models[1]: this model is named by a pool already')]);
  });

  it('names the model behind an alias that stands in a pool, where it would do nothing', () => {
    const text = `${backends}
models: { aliases: { gpt-4o: smollm2, smollm2: smollm2 } }
routing:
  pools:
    - models: [smollm2, gpt-4o]
      policy: chwbl
`;
    expect(problemsOf(text)).toEqual(['w.yaml:7:25 routing.pools[0].models[1]: gpt-4o is an alias; name smollm2']);
    expect(configOf(text.replace(', gpt-4o]', ']')).route.pools).toEqual([{ models: ['smollm2'], policy: 'chwbl' }]);
    expect(
      problemsOf('models: { aliases: { a: b } }\nrouting: { pools: [{ models: [toString], policy: warm }] }\n'),
    ).toEqual([]);
  });
});
