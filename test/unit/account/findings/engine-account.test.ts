import { describe, expect, it } from 'vitest';
import { createEngineAccount, type EngineAccount } from '../../../../src/account/findings/engine-account.ts';
import type { Observation } from '../../../../src/account/findings/finding.ts';
import type { BackendView } from '../../../../src/domain/fleet.ts';
import { createMeter } from '../../../../src/export/metrics/meter.ts';
import { registerEngineMetrics } from '../../../../src/export/metrics/engine-metrics.ts';
import { createLog } from '../../../../src/platform/log.ts';
import type { RequestRecord } from '../../../../src/domain/record.ts';
import { createFakeClock } from '../../../support/fake-clock.ts';
import { sampleRecord } from '../../../support/sample-record.ts';

const view: BackendView = {
  name: 'b',
  url: 'http://b',
  engine: 'vllm',
  engineKnown: true,
  health: 'up',
  healthSinceMs: 1,
  models: [],
  ghostSlots: 0,
  advice: [],
};

function world(backends: () => readonly BackendView[] = () => [view]) {
  const clock = createFakeClock();
  const lines: Record<string, unknown>[] = [];
  const log = createLog(
    { level: 'debug', format: 'json' },
    (line) => void lines.push(JSON.parse(line) as Record<string, unknown>),
  ); // our own line
  const account = createEngineAccount({ clock, log, backends, running: () => [], ownSlots: () => 2 });
  const read = (preemptions: number, generatedTokens = 5) =>
    account.scraped('b', {
      kind: 'read',
      reading: {
        atMs: clock.nowMs(),
        gauges: { running: 3, kvUsage: 0.5 },
        counters: { preemptions, generatedTokens },
      },
    });
  return { clock, lines, account, read };
}

/** All rows of the page, made now. */
function page({ enginesPage }: EngineAccount, withPoints = false) {
  return { engines: [...enginesPage(withPoints).engines] };
}

describe('engines and findings as one part', () => {
  it('ask another part for its findings with each look, and keep them like their own', () => {
    const clock = createFakeClock();
    const seen: Observation[] = [
      {
        finding: 'cached_tokens_untold',
        backend: 'b',
        sighting: { weight: 1, says: 'it does not tell', evidence: {} },
      },
    ];
    const log = createLog({ level: 'error', format: 'json' }, () => {});
    const more = { names: ['cached_tokens_untold'] as const, find: () => seen };
    const account = createEngineAccount({
      clock,
      log,
      backends: () => [view],
      running: () => [],
      ownSlots: () => 0,
      more,
    });
    account.add(sampleRecord({ backend: 'b' }));
    clock.advance(1000);
    expect(account.findingsPage()).toMatchObject({
      active: [{ finding: 'cached_tokens_untold', backend: 'b', says: 'it does not tell' }],
    });
    seen.pop();
    clock.advance(40_000);
    expect(account.findingsPage()).toMatchObject({ active: [], ended: [{ finding: 'cached_tokens_untold' }] });
    expect(clock.pending()).toBe(0);
  });

  it('look once a second while there is something to look at, and log what begins and ends', () => {
    const { clock, lines, read } = world();
    expect(clock.pending()).toBe(0);
    read(0);
    clock.advance(1000);
    expect(clock.pending()).toBe(0);
    read(2);
    clock.advance(1000);
    expect(lines.map(({ msg, finding }) => [msg, finding])).toEqual([
      ['finding began', 'kv_exhaustion'],
      ['finding began', 'preemption'],
    ]);
    clock.advance(120_000);
    expect(lines.slice(2).map(({ msg, finding }) => [msg, finding])).toEqual([
      ['finding ended', 'kv_exhaustion'],
      ['finding ended', 'preemption'],
    ]);
    expect(clock.pending()).toBe(0);
  });

  it('set no timer once stopped', () => {
    const { clock, account, read } = world();
    read(0);
    account.stop();
    expect(clock.pending()).toBe(0);
  });

  it('log a bug of their own once, and go on', () => {
    const { clock, lines, read } = world(() => {
      throw new Error('a bug');
    });
    for (let i = 0; i < 3; i += 1) {
      read(i);
      clock.advance(1000);
    }
    expect(lines.map(({ level, msg }) => [level, msg])).toEqual([['error', 'looking for findings failed']]);
  });

  it('give the meter gauges, counters that pass over restarts, and what was found', () => {
    const { clock, account, read } = world();
    const meter = createMeter({ maxSeries: 100 });
    registerEngineMetrics(meter, { engines: account.engines, findings: account.findings, nowMs: () => clock.nowMs() });
    for (const [preemptions, tokens] of [
      [0, 100],
      [1, 120],
      [0, 3],
      [0, 13],
    ] as const) {
      read(preemptions, tokens);
      clock.advance(2000);
    }
    const values = new Map(
      meter.collect().map(({ name, points }) => [name as string, points.map(({ value }) => value)]),
    );
    expect(values.get('warmlane.engine.requests.running')).toEqual([3]);
    expect(values.get('warmlane.engine.kv.usage')).toEqual([0.5]);
    expect(values.get('warmlane.engine.reading.age')).toEqual([2]);
    expect(values.get('warmlane.engine.tokens.output')).toEqual([30]);
    expect(values.has('warmlane.engine.tokens.prompt')).toBe(false);
    expect(values.get('warmlane.finding.active')).toEqual([1, 1]);
    expect(values.get('warmlane.findings')).toEqual([1, 1]);
  });

  it('show each backend on the page, also one that is not read', () => {
    const { account, clock, read } = world(() => [
      view,
      { ...view, name: 'c', engine: 'ollama' },
      { ...view, name: 'd' },
    ]);
    account.scraped('c', { kind: 'none', why: 'engine_has_none' });
    read(0, 100);
    clock.advance(2000);
    read(0, 140);
    expect(page(account)).toMatchObject({
      engines: [
        {
          backend: 'b',
          metrics: 'read',
          ageMs: 0,
          now: { there: { running: 3 }, here: { running: 2 } },
          windows: {
            '1m': {
              overMs: 2000,
              there: { generatedTokens: 40, outputTokensPerSecond: 20 },
              here: { outputTokens: 0 },
            },
          },
          totals: { generatedTokens: 40, preemptions: 0 },
        },
        { backend: 'c', metrics: 'none', why: "nothing is known of this engine's metrics" },
        { backend: 'd', metrics: 'not read yet' },
      ],
    });
    expect(JSON.stringify(page(account, true))).toContain('"points":[{"agoMs":0,"overMs":2000');
  });

  it('show warmlane’s own view over the windows where nothing is read, each request when it ends', () => {
    const { account, clock } = world(() => [{ ...view, engine: 'llama-server' }]);
    account.scraped('b', { kind: 'none', why: 'closed' });
    const tokens = (cached?: number) => ({
      prompt: { value: 100, source: 'timings' } as const,
      output: { value: 20, source: 'timings' } as const,
      ...(cached === undefined ? {} : { cached: { value: cached, source: 'timings' } as const }),
    });
    const add = (over: Partial<RequestRecord>) =>
      account.add(
        sampleRecord({
          backend: 'b',
          engine: 'llama-server',
          endpoint: 'chat',
          timeline: { received: 1, sent: 2, firstToken: 52, end: 90 },
          figures: { tpotWindow: 'visible', durationMs: 90, upstreamTtftMs: 50 },
          ...over,
        }),
      );
    add({ tokens: tokens(75) });
    clock.advance(120_000);
    add({ tokens: tokens() });
    const shown = (name: string) => (page(account).engines[0] as { windows: Record<string, object> }).windows[name];
    expect(page(account).engines[0]).toMatchObject({ metrics: 'none', now: { here: { running: 2 } } });
    // Nobody told of cached tokens in the last minute: that is not 0.
    expect(shown('1m')).toMatchObject({ here: { requests: 1, promptTokens: 100, outputTokens: 20, certain: true } });
    expect(shown('1m')).toMatchObject({ here: { cachedTokens: undefined, cachedPercent: undefined } });
    expect(shown('5m')).toMatchObject({
      overMs: 120_000,
      here: {
        requests: 2,
        promptTokens: 200,
        cachedTokens: 75,
        cachedOfTokens: 100,
        cachedPercent: 75,
        outputTokensPerSecond: 40 / 120,
        upstreamTtftMs: 50,
      },
    });
    expect(shown('5m')).not.toHaveProperty('there');
  });

  it('say why nothing is read, and how long ago it was tried, until it is', () => {
    const { account, clock, read } = world();
    account.scraped('b', { kind: 'failed', why: 'answer longer than 9 bytes', atMs: clock.nowMs() });
    clock.advance(1500);
    expect(page(account)).toMatchObject({
      engines: [{ metrics: 'failing', failed: { why: 'answer longer than 9 bytes', ageMs: 1500 } }],
    });
    read(0);
    expect(page(account).engines[0]).toMatchObject({ metrics: 'read', failed: undefined });
    clock.advance(1000);
    account.scraped('b', { kind: 'failed', why: 'status 503', atMs: clock.nowMs() });
    expect(page(account)).toMatchObject({
      engines: [{ metrics: 'read', ageMs: 1000, failed: { why: 'status 503', ageMs: 0 } }],
    });
  });

  it('show on the page what each backend says when its row is written', () => {
    const { account, clock, read } = world();
    read(0);
    const { engines } = account.enginesPage(false);
    clock.advance(700);
    expect([...engines]).toMatchObject([{ ageMs: 700 }]);
  });

  it('let the event loop turn between backends where looking takes long', () => {
    const clock = createFakeClock();
    let looked = 0;
    const turns: number[] = [];
    const names = ['a', 'b', 'c', 'd', 'e'];
    const account = createEngineAccount({
      clock: {
        ...clock,
        nowMs: () => clock.nowMs() + 0.4 * looked,
        timer: (delayMs, fire) =>
          clock.timer(delayMs, () => {
            const before = looked;
            fire();
            turns.push(looked - before);
          }),
      },
      log: createLog({ level: 'error', format: 'json' }, () => {}),
      backends() {
        looked += 1;
        return names.map((name) => ({ ...view, name }));
      },
      running: () => [],
      ownSlots: () => 0,
    });
    for (const backend of names)
      account.scraped(backend, { kind: 'read', reading: { atMs: 1, gauges: { running: 1 }, counters: {} } });
    clock.advance(1100);
    expect(turns).toEqual([3, 2]);
  });

  it('show what is known on either side of an engine’s restart, and that there was one', () => {
    const { account, clock, read } = world();
    for (const tokens of [100, 140, 5, 25]) {
      read(0, tokens);
      clock.advance(2000);
    }
    expect(page(account)).toMatchObject({
      engines: [
        {
          windows: {
            '1m': { overMs: 4000, restarted: true, there: { generatedTokens: 60, outputTokensPerSecond: 15 } },
          },
        },
      ],
    });
  });
});
