import { describe, expect, it } from 'vitest';
import { createEngineAccount } from '../../../../src/account/findings/engine-account.ts';
import type { BackendView } from '../../../../src/domain/fleet.ts';
import { createMeter } from '../../../../src/export/metrics/meter.ts';
import { registerEngineMetrics } from '../../../../src/export/metrics/engine-metrics.ts';
import { createLog } from '../../../../src/platform/log.ts';
import { createFakeClock } from '../../../support/fake-clock.ts';

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

describe('engines and findings as one part', () => {
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
    expect(account.enginesPage(false)).toMatchObject({
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
    expect(JSON.stringify(account.enginesPage(true))).toContain('"points":[{"agoMs":0,"overMs":2000');
  });
});
