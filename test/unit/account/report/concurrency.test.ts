import fc from 'fast-check';
import { describe, expect, it } from 'vitest';

import { createConcurrency } from '../../../../src/account/report/concurrency.ts';
import type { Row } from '../../../../src/account/report/row.ts';
import type { LogFields } from '../../../../src/platform/log.ts';
import { at, row } from '../../../support/log-rows.ts';

/** A stream that decodes from one moment to another, a token each `tpotMs`. */
function stream(fromMs: number, toMs: number, over: LogFields = {}): Row {
  const tpotMs = 20;
  const outputTokens = 1 + (toMs - fromMs) / tpotMs;
  return row({
    ...at(fromMs - 100),
    ttftMs: 100,
    e2eMs: 100 + toMs - fromMs,
    durationMs: 100 + toMs - fromMs,
    tpotMs,
    outputTokens,
    ...over,
  });
}

function resultsOf(rows: readonly Row[], shown: (row: Row) => boolean = () => true) {
  const concurrency = createConcurrency();
  for (const one of rows) concurrency.add(one, shown(one));
  return concurrency.results();
}

describe('streams at once', () => {
  it('are counted from first to last token: time, tokens and streams at each level', () => {
    // 0 to 10 s alone, 10 to 20 s two, 20 to 30 s alone.
    const [result] = resultsOf([stream(1000, 21_000), stream(11_000, 31_000, { requestId: 'r2', tpotMs: 40 })]);
    expect(result).toMatchObject({ backend: 'b', busySeconds: 30, streams: 2, clipped: 0, unseen: 0 });
    expect(result?.levels).toMatchObject([
      { from: 1, to: 1, seconds: 20, streams: 0 },
      { from: 2, to: 2, seconds: 10, streams: 2 },
    ]);
    expect(result?.levels[1]?.tokensPerSecond).toBeCloseTo(75, 9);
    expect(result?.levels[1]?.tokensPerSecondPerUser).toBeCloseTo(37.5, 9);
    // Ten seconds of one at 50 tokens/s, ten of the other at 25.
    expect(result?.levels[0]?.tokensPerSecond).toBeCloseTo(37.5, 9);
    expect(result?.levels[0]?.share).toBeCloseTo(2 / 3, 9);
    expect(result?.levels[1]?.tpot).toMatchObject({ min: 20, max: 40 });
  });

  it('on several backends are apart, and so is what was replayed', () => {
    const results = resultsOf([
      stream(0, 1000),
      stream(0, 1000, { backend: 'c' }),
      stream(0, 1000, { backend: 'c', warmth: 'replayed' }),
    ]);
    expect(results.map(({ backend, levels }) => [backend, levels.length, levels[0]?.to])).toEqual([
      ['b', 1, 1],
      ['c', 1, 1],
    ]);
  });

  it('count each choice, and the load of those that the report leaves out', () => {
    const [result] = resultsOf(
      [stream(0, 1000, { finish: ['stop', 'stop'] }), stream(0, 1000, { model: 'n' })],
      ({ model }) => model === 'm',
    );
    expect(result?.levels).toMatchObject([{ from: 3, to: 3, seconds: 1, streams: 1 }]);
    expect(result?.levels[0]?.tokensPerSecond).toBeCloseTo(150, 9);
  });

  it('say how many answers nobody saw decoding', () => {
    const [result] = resultsOf([stream(0, 1000), row({ stream: false, ttftMs: undefined })]);
    expect(result?.unseen).toBe(1);
  });

  it('are the same in whatever order the rows come, within the horizon', () => {
    fc.assert(
      fc.property(
        fc.array(fc.tuple(fc.integer({ min: 0, max: 600 }), fc.integer({ min: 1, max: 300 })), {
          minLength: 1,
          maxLength: 60,
        }),
        (spans) => {
          const rows = spans.map(([from, length]) => stream(from * 1000, (from + length) * 1000));
          const byEnd = resultsOf(rows.toSorted((a, b) => a.endedAtMs - b.endedAtMs));
          const byBegin = resultsOf(rows.toSorted((a, b) => a.startedAtMs - b.startedAtMs));
          expect(byBegin[0]?.levels.map(({ streams, seconds }) => [streams, Math.round(seconds * 1000)])).toEqual(
            byEnd[0]?.levels.map(({ streams, seconds }) => [streams, Math.round(seconds * 1000)]),
          );
          const streamSeconds = spans.reduce((sum, [, length]) => sum + length, 0);
          const tokens = byEnd[0]?.levels.reduce((sum, level) => sum + level.tokensPerSecond * level.seconds, 0);
          expect(tokens).toBeCloseTo(streamSeconds * 50, 3);
        },
      ),
      { numRuns: 40 },
    );
  });

  it('give the same through many sweeps as in one look, and clip what began too far back', () => {
    const rows = Array.from({ length: 20_000 }, (_, i) => stream(i * 1000, i * 1000 + 2500, { requestId: `r${i}` }));
    const [result] = resultsOf([...rows, stream(5000, 19_990_000, { requestId: 'late' })]);
    expect(result?.streams).toBe(20_001);
    expect(result?.clipped).toBe(1);
    const [whole] = resultsOf(rows);
    // From 2.5 streams at once: half of the time two, half three.
    expect(whole?.levels.map(({ from, share }) => [from, Math.round(share * 100)])).toEqual([
      [1, 0],
      [2, 50],
      [3, 50],
    ]);
  });
});
