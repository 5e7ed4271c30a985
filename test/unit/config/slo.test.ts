import { describe, expect, it } from 'vitest';
import { configOf, problemsOf } from './load-text.ts';

describe('slo', () => {
  it('judges nobody and checks nothing unless asked to', () => {
    const { slo, measure } = configOf('');
    expect(slo).not.toHaveProperty('fallback');
    expect(slo).toMatchObject({ routes: {}, models: {} });
    expect(slo.profiles.map(({ name }) => name)).toEqual([
      'chat',
      'reading',
      'voice',
      'autocomplete',
      'mlperf-interactive',
      'mlperf-server',
    ]);
    expect(slo.checks).toEqual({ usable: false, maxTextBytes: 262_144, retries: false, retryWithinMs: 30_000 });
    expect(measure).not.toHaveProperty('maxCheckedBytes');
  });

  it('takes profiles, changes shipped ones by the key, and says whom they are for', () => {
    const { slo, measure } = configOf(`
slo:
  default: chat
  routes: { /v1/completions: mine, messages: voice }
  models: { qwen: mine }
  profiles:
    mine: { ttftMs: 500, ttftPerKilotokenMs: 80, itlMs: 40, itlShare: 0.9, percent: 99.5, readTokenMs: 62.5 }
    chat: { ttftMs: 300 }
  checks: { usable: true, maxTextBytes: 2048 }
`);
    expect(slo).toMatchObject({
      fallback: 'chat',
      routes: { '/v1/completions': 'mine', messages: 'voice' },
      models: { qwen: 'mine' },
    });
    expect(slo.profiles.find(({ name }) => name === 'mine')).toEqual({
      name: 'mine',
      ttftMs: 500,
      ttftPerKilotokenMs: 80,
      itlMs: 40,
      itlShare: 0.9,
      percent: 99.5,
      readTokenMs: 62.5,
    });
    expect(slo.profiles.find(({ name }) => name === 'chat')).toEqual({
      name: 'chat',
      ttftMs: 300,
      percent: 99,
      itlShare: 0.95,
    });
    expect(measure).toMatchObject({ maxCheckedBytes: 2048 });
  });

  it.each([
    ['slo: { profiles: { mine: { ttft: 5 } } }', /slo\.profiles\.mine\.ttft: unknown key; did you mean "ttftMs"\?/],
    ['slo: { default: chta }', /slo\.default: there is no profile "chta"; there are chat, reading/],
    ['slo: { routes: { /x: nope } }', /slo\.routes.*there is no profile "nope"/],
    ['slo: { routes: { chats: chat } }', /must be a path that begins with a slash, or one of chat, completions/],
    ['slo: { models: { m: nope } }', /slo\.models\.m: there is no profile "nope"/],
    ['slo: { profiles: { mine: { percent: 90 } } }', /slo\.profiles\.mine: needs a bound: ttftMs, ttfaMs/],
    ['slo: { profiles: { mine: { e2eMs: 5, tpotPerKilotokenMs: 1 } } }', /tpotPerKilotokenMs: is added to tpotMs/],
    ['slo: { profiles: { none: { e2eMs: 5 } } }', /must not be "none"/],
    ['slo: { profiles: { mine: { e2eMs: 5, percent: 0 } } }', /percent: must be a number above 0 and up to 100/],
    ['slo: { profiles: { mine: { e2eMs: 0.5 } } }', /must be a whole number of milliseconds from 1/],
    ['slo: { profiles: { mine: { e2eSeconds: 1 } } }', /e2eSeconds/],
    ['slo: { checks: { maxTextBytes: 5 } }', /must be a whole number of bytes from 1024/],
  ])('%s is a problem', (text, problem) => {
    expect(problemsOf(text).join('\n')).toMatch(problem);
  });

  it('tells of a profile that isn’t there beside what else is wrong with the section, not after it', () => {
    const wrong =
      'slo: { default: chatt, models: { m: nope }, checks: { usable: 7 }, profiles: { mine: { ttftMs: x } } }';
    const told = problemsOf(wrong).join('\n');
    for (const problem of [
      /slo\.default: there is no profile "chatt"/,
      /slo\.models\.m: /,
      /checks\.usable: /,
      /mine\.ttftMs: /,
    ])
      expect(told).toMatch(problem);
    expect(told).toContain('mlperf-server, mine');
    expect(problemsOf('slo: 7')).toHaveLength(1);
  });

  it('takes a shipped profile’s bound for an addition’s', () => {
    const { slo } = configOf('slo: { profiles: { voice: { ttftPerKilotokenMs: 50 } } }');
    expect(slo.profiles.find(({ name }) => name === 'voice')).toMatchObject({ ttftMs: 180, ttftPerKilotokenMs: 50 });
  });
});
