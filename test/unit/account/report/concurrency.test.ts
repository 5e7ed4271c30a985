import fc from 'fast-check';
import { describe, expect, it } from 'vitest';

import { createConcurrencyTable } from '../../../../src/account/concurrency-table.ts';
import { createConcurrency } from '../../../../src/account/report/concurrency.ts';
import type { Row } from '../../../../src/account/report/row.ts';
import { logFields } from '../../../support/log-fields.ts';
import type { LogFields } from '../../../../src/platform/log.ts';
import { at, row } from '../../../support/log-rows.ts';
import { decodedRecord } from '../decoded-record.ts';

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
  it('are counted from first to last token for the share of time; each stream has the level that its line tells', () => {
    // 0 to 10 s alone, 10 to 20 s two, 20 to 30 s alone.
    const [result] = resultsOf([
      stream(1000, 21_000, { decodeConcurrency: 1.5 }),
      stream(11_000, 31_000, { requestId: 'r2', tpotMs: 40, outputTokens: 501, decodeConcurrency: 1.5 }),
    ]);
    expect(result).toMatchObject({ backend: 'b', busySeconds: 30, streams: 2, clipped: 0, unseen: 0 });
    expect(result).toMatchObject({ levelFromMoments: 0, coldStarts: 0 });
    expect(result?.levels).toMatchObject([
      { from: 1, to: 1, seconds: 20, requests: 0 },
      { from: 2, to: 2, seconds: 10, requests: 2, lagged: 0, meanConcurrency: 1.5 },
    ]);
    expect(result?.levels[0]?.share).toBeCloseTo(2 / 3, 9);
    expect(result?.levels[0]).not.toHaveProperty('tokensPerSecond');
    // 1000 and 500 tokens in 20 s each: 37.5 tokens/s for each, and so many times 1.5 for all.
    expect(result?.levels[1]?.userTokensPerSecond).toBeCloseTo(37.5, 9);
    expect(result?.levels[1]?.tokensPerSecond).toBeCloseTo(56.25, 9);
    expect(result?.levels[1]?.tpot).toMatchObject({ min: 20, max: 40 });
  });

  it('believe the line, not the log: what else ran there may not be in it', () => {
    const [result] = resultsOf([stream(0, 1000, { decodeConcurrency: 7.4, marks: ['loop_lag'] })]);
    expect(result?.levels).toMatchObject([
      { from: 1, to: 1, seconds: 1, requests: 0 },
      { from: 7, to: 8, seconds: 0, requests: 1, lagged: 1, meanConcurrency: 7.4 },
    ]);
  });

  it('take the level of lines that have none, being older, from the moments in the log, and say so', () => {
    const [result] = resultsOf([
      stream(1000, 21_000),
      stream(11_000, 31_000, { requestId: 'r2', decodeConcurrency: 1.5 }),
    ]);
    expect(result?.levelFromMoments).toBe(1);
    expect(result?.levels[1]).toMatchObject({ from: 2, requests: 2, meanConcurrency: 1.5 });
    expect(result?.levels[1]?.tokensPerSecond).toBeCloseTo(75, 9);
  });

  it('have cold starts apart, as `/concurrency` has', () => {
    const [result] = resultsOf([
      stream(0, 1000, { warmth: 'cold_start', decodeConcurrency: 1 }),
      stream(2000, 3000, { warmth: 'cold_start' }),
      stream(4000, 5000, { decodeConcurrency: 1 }),
    ]);
    expect(result).toMatchObject({ coldStarts: 2, streams: 3, levelFromMoments: 1 });
    expect(result?.levels).toMatchObject([{ from: 1, seconds: 3, requests: 1 }]);
  });

  it('are those of `/concurrency`, whatever the streams are', () => {
    fc.assert(
      fc.property(
        fc.array(
          fc.record({
            output: fc.integer({ min: 1, max: 400 }),
            stepMs: fc.integer({ min: 1, max: 90 }),
            concurrency: fc.integer({ min: 1000, max: 40_000 }).map((thousandths) => thousandths / 1000),
            choices: fc.integer({ min: 0, max: 3 }),
            warmth: fc.constantFrom('resident', 'cold_start', 'replayed'),
          }),
          { minLength: 1, maxLength: 30 },
        ),
        (streams) => {
          const table = createConcurrencyTable(0, () => undefined);
          const concurrency = createConcurrency();
          for (const { output, stepMs, choices, warmth, concurrency: mean } of streams) {
            const record = decodedRecord({
              output,
              stepMs,
              concurrency: mean,
              over: { warmth, finishReasons: Array.from({ length: choices }, () => 'stop') },
            });
            const { sent = 0, firstToken = 0, lastToken = 0 } = record.timeline;
            const figures = { ...record.figures, ttftMs: firstToken - sent, e2eMs: lastToken - sent };
            table.add(record, 0);
            concurrency.add(row(logFields({ ...record, figures })), true);
          }
          const live = table.view('b', 1, 3_600_000);
          const [read] = concurrency.results();
          expect(read?.coldStarts ?? 0).toBe(live.coldStarts);
          const levels = read?.levels.filter(({ requests }) => requests > 0) ?? [];
          expect(levels.map(({ from, requests }) => [from, requests])).toEqual(
            live.levels.map(({ from, requests }) => [from, requests]),
          );
          for (const [i, level] of live.levels.entries()) {
            expect(levels[i]?.meanConcurrency).toBeCloseTo(level.meanConcurrency, 9);
            expect(levels[i]?.tokensPerSecond).toBeCloseTo(level.tokensPerSecond, 6);
            expect(levels[i]?.userTokensPerSecond).toBeCloseTo(level.userTokensPerSecond, 6);
            expect(levels[i]?.tpot?.p50).toBeCloseTo(level.tpotP50Ms, 9);
            expect(levels[i]?.itl?.p99).toBeCloseTo(level.itlP99Ms ?? -1, 9);
          }
        },
      ),
      { numRuns: 60 },
    );
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
    // 49 tokens of two choices at once, in a second: half of that for each, three times that for all.
    expect(result?.levels).toMatchObject([{ from: 3, to: 3, seconds: 1, requests: 1, meanConcurrency: 3 }]);
    expect(result?.levels[0]?.userTokensPerSecond).toBeCloseTo(24.5, 9);
    expect(result?.levels[0]?.tokensPerSecond).toBeCloseTo(73.5, 9);
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
          expect(byBegin[0]?.levels.map(({ requests, seconds }) => [requests, Math.round(seconds * 1000)])).toEqual(
            byEnd[0]?.levels.map(({ requests, seconds }) => [requests, Math.round(seconds * 1000)]),
          );
          expect(byEnd[0]?.levels.reduce((sum, { requests }) => sum + requests, 0)).toBe(spans.length);
          for (const { requests, userTokensPerSecond } of byEnd[0]?.levels ?? [])
            if (requests > 0) expect(userTokensPerSecond).toBeCloseTo(50, 6);
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
