import { describe, expect, it } from 'vitest';

import type { FigureName } from '../../../../src/account/report/figures.ts';
import { createReport, type ReportSettings } from '../../../../src/account/report/report.ts';
import type { Row } from '../../../../src/account/report/row.ts';
import type { LogFields } from '../../../../src/platform/log.ts';
import { Sketch } from '../../../../src/platform/sketch.ts';
import { sketchText } from '../../../../src/platform/sketch-text.ts';
import { at, lineText, logStartMs, parsed, row } from '../../../support/log-rows.ts';

function reportOf(rows: readonly Row[], settings: Partial<ReportSettings> = {}) {
  const report = createReport({ most: 5, ...settings });
  for (const one of rows) report.add(one);
  return report.result();
}

const resultOf = (overs: readonly LogFields[], settings: Partial<ReportSettings> = {}) =>
  reportOf(overs.map(row), settings);

function figure(result: ReturnType<typeof resultOf>, name: FigureName, by = 'all', of?: string) {
  const population = result.populations.find((one) => one.by === by && one.name === of && one.warmth === undefined);
  if (population === undefined) throw new Error(`no population ${by} ${of}`);
  return population.figures[name];
}

describe('the account of a log', () => {
  it('gives the worked example as it is: TTFT 0.8 s, TPOT 20 ms, 50 tokens/s, 36.1 overall', () => {
    const result = resultOf([{}]);
    for (const quantile of ['p50', 'p90', 'p95', 'p99', 'p999', 'mean', 'min', 'max'] as const) {
      expect(figure(result, 'ttft').spread?.[quantile]).toBeCloseTo(800, 9);
      expect(figure(result, 'tpot').spread?.[quantile]).toBeCloseTo(20, 9);
      expect(figure(result, 'e2e').spread?.[quantile]).toBeCloseTo(2800, 9);
      expect(figure(result, 'queue').spread?.[quantile]).toBeCloseTo(5, 9);
      expect(figure(result, 'overhead').spread?.[quantile]).toBeCloseTo(0.5, 9);
    }
    expect(result.rates.decodePerUser).toEqual({ n: 1, p10: 50, p50: 50, p90: 50, mean: 50 });
    expect(result.rates.overallPerUser?.p50).toBeCloseTo(36.07, 2);
    expect(result.window).toEqual({
      from: '2026-03-01T12:00:00.000Z',
      to: '2026-03-01T12:00:02.810Z',
      seconds: 2.81,
    });
    expect(result.rates.outputTokensPerSecond).toBeCloseTo(101 / 2.81, 9);
  });

  it('counts by outcome, reason, status, model, backend, endpoint and whether it streamed', () => {
    const { requests } = resultOf([
      {},
      { model: 'n', stream: false, finish: ['stop', 'length'] },
      { outcome: 'timeout', reason: 'head_timeout', status: 504, phase: 'waiting_head' },
      { outcome: 'timeout', reason: 'head_timeout', status: 504 },
      { endpoint: 'embeddings', backend: undefined },
    ]);
    expect(requests).toMatchObject({ total: 5, ok: 3, leftOut: 0, failures: { 'timeout head_timeout': 2 } });
    expect(requests.by).toMatchObject({
      outcome: { ok: 3, timeout: 2 },
      reason: { head_timeout: 2 },
      status: { 200: 3, 504: 2 },
      model: { m: 4, n: 1 },
      backend: { b: 4 },
      endpoint: { chat: 4, embeddings: 1 },
      streamed: { true: 4, false: 1 },
      finish: { stop: 5, length: 1 },
    });
  });

  it('keeps warmths, models, backends and other endpoints apart', () => {
    const result = resultOf([
      { warmth: 'cold_start', ttftMs: 5000 },
      { warmth: 'prefix_hit', ttftMs: 100, model: 'n', backend: 'c' },
      { warmth: 'prefix_hit', ttftMs: 100, backend: 'c' },
      { endpoint: 'embeddings', stream: false, ttftMs: undefined, tpotMs: undefined, e2eMs: 7 },
    ]);
    expect(figure(result, 'ttft').values).toBe(3);
    expect(figure(result, 'ttft', 'warmth', 'cold_start').spread?.p50).toBeCloseTo(5000, 9);
    expect(figure(result, 'ttft', 'warmth', 'prefix_hit').spread?.p99).toBeCloseTo(100, 9);
    expect(figure(result, 'ttft', 'model', 'n').values).toBe(1);
    expect(figure(result, 'ttft', 'backend', 'c').values).toBe(2);
    expect(figure(result, 'e2e', 'endpoint', 'embeddings').spread?.p50).toBeCloseTo(7, 9);
    expect(figure(result, 'e2e').values).toBe(3);
    const cold = result.populations.find(
      ({ by, name, warmth }) => by === 'model' && name === 'm' && warmth === 'cold_start',
    );
    expect(cold?.figures.ttft.values).toBe(1);
  });

  it('never passes over what has no value: says why, and which percentiles that makes unreachable', () => {
    const failed = { outcome: 'timeout', ttftMs: undefined, ttfaMs: undefined, tpotMs: undefined, e2eMs: undefined };
    const left = { ...failed, outcome: 'client_abort' };
    const result = resultOf([
      ...Array.from({ length: 90 }, () => ({})),
      ...Array.from({ length: 10 }, () => failed),
      left,
      { stream: false, ttftMs: undefined, tpotMs: undefined, tpotWindow: 'none_not_streamed' },
      { tpotMs: undefined, tpotWindow: 'none_single_token' },
      { noAnswer: true },
      { outcome: 'upstream_truncated' },
    ]);
    expect(figure(result, 'ttft')).toMatchObject({
      values: 93,
      requests: 93,
      notOk: 1,
      without: { ended_timeout: 10, ended_client_abort: 1, not_streamed: 1 },
      failedBefore: 10,
      never: ['p95', 'p99', 'p999'],
    });
    expect(figure(result, 'tpot').without).toMatchObject({ single_token: 1 });
    expect(figure(result, 'ttfa').without).toMatchObject({ no_answer: 1 });
    expect(figure(result, 'itl').without).toMatchObject({ not_in_log: 93 });
  });

  it('joins the gaps of all requests, exactly', () => {
    const one = new Sketch();
    const other = new Sketch();
    const both = new Sketch();
    for (let i = 1; i <= 99; i += 1) {
      const gap = 0.01 + i / 5000;
      (i % 3 === 0 ? one : other).add(gap);
      both.add(gap);
    }
    const result = resultOf([{ itl: sketchText(one.data()) }, { itl: sketchText(other.data()) }]);
    expect(figure(result, 'itl')).toMatchObject({ values: 99, requests: 2 });
    expect(figure(result, 'itl').spread?.p90).toBe((both.quantile(0.9) ?? 0) * 1000);
  });

  it('weighs the hit rate by tokens and says of how many answers it is known', () => {
    const { tokens } = resultOf([
      { promptTokens: 1000, cachedTokens: 900 },
      { promptTokens: 10, cachedTokens: 0 },
      { promptTokens: 5000, cachedTokens: undefined },
      { promptTokens: undefined, cachedTokens: undefined, outputTokens: 50, tokensFrom: 'events_estimate' },
    ]);
    expect(tokens.all).toMatchObject({ answers: 4, prompt: 6010, cached: 900, output: 353, estimatedOutput: 50 });
    expect(tokens.all.promptUnknown).toBe(1);
    expect(tokens.all.cache).toMatchObject({ reported: 2, coverage: 0.5, promptTokens: 1010, cachedTokens: 900 });
    expect(tokens.all.cache.hitRate).toBeCloseTo(900 / 1010, 12);
  });

  it('has no hit rate where nobody reported: unknown is not zero', () => {
    const { cache } = resultOf([{ cachedTokens: undefined }]).tokens.all;
    expect(cache).not.toHaveProperty('hitRate');
    expect(cache.coverage).toBe(0);
  });

  it('tells attainment, goodput and what broke the bounds, and useful tokens beside all', () => {
    const result = resultOf([
      { slo: 'chat', sloMet: true, benefitTokens: 101 },
      { slo: 'chat', sloMet: false, sloBroke: ['ttft:prefill:430/200', 'itl:stalled:90/30'], benefitTokens: -9 },
      { slo: 'chat', sloMet: false, sloBroke: ['ttft:prefill:230/200'], useless: ['cut_by_length'] },
      { slo: 'chat', sloMet: false, sloBroke: [], outcome: 'upstream_error', outputTokens: 10, retry: true },
      { useless: [] },
    ]);
    expect(result.slo).toMatchObject([
      {
        profile: 'chat',
        requests: 4,
        met: 1,
        attainment: 0.25,
        outputTokens: 313,
        metTokens: 101,
        benefitTokens: 92,
        failed: 1,
        breaches: [
          { bound: 'ttft', phase: 'prefill', requests: 2, over: { min: 30, max: 230 } },
          { bound: 'itl', phase: 'stalled', requests: 1, over: { p50: 60 } },
        ],
      },
    ]);
    expect(result.useful).toEqual({
      answers: 4,
      checked: 2,
      useless: 1,
      uselessBy: { cut_by_length: 1 },
      retries: 1,
      outputTokens: 414,
      usefulTokens: 303,
    });
  });

  it('R20 says who stalled whom', () => {
    const { stalls } = resultOf([
      { requestId: 'victim1', stallMs: 400, stalledBy: 'big', stalledByTokens: 9000 },
      { requestId: 'victim2', stallMs: 600, stalledMs: 900, stalledBy: 'big', stalledByTokens: 9000 },
      { requestId: 'victim3', stallMs: 50, stalledBy: 'small' },
      {},
    ]);
    expect(stalls).toMatchObject({ streams: 3, ofStreams: 4, stalledMs: 1350, longestMs: 600, causes: 2 });
    expect(stalls.worst).toEqual([
      {
        requestId: 'big',
        backend: 'b',
        promptTokens: 9000,
        streams: 2,
        stallMs: 1000,
        longestMs: 600,
        longestOf: 'victim2',
      },
      { requestId: 'small', backend: 'b', streams: 1, stallMs: 50, longestMs: 50, longestOf: 'victim3' },
    ]);
  });

  it('names the slowest and where their time went', () => {
    const { slowest } = resultOf(
      [
        {},
        { requestId: 'queued', queueMs: 9000, ttftMs: 9500, e2eMs: 11_500, durationMs: 11_510 },
        { requestId: 'long', e2eMs: 60_000, durationMs: 60_000, outputTokens: 2961, stallMs: 5000 },
        { requestId: 'never', outcome: 'timeout', ttftMs: undefined, e2eMs: undefined, durationMs: 30_000 },
        { requestId: 'split', ttftMs: 8000, prefillMs: 1000, engineQueueMs: 6990, e2eMs: 9000, durationMs: 9000 },
      ],
      { most: 3 },
    );
    expect(slowest.toFirstToken.map(({ requestId, phases }) => [requestId, phases[0]?.phase])).toEqual([
      ['never', 'prefill'],
      ['queued', 'queued'],
      ['split', 'engine_queue'],
    ]);
    expect(slowest.whole.map(({ requestId, phases }) => [requestId, phases[0]?.phase])).toEqual([
      ['long', 'decode'],
      ['never', 'prefill'],
      ['queued', 'queued'],
    ]);
    expect(slowest.whole[0]?.phases).toContainEqual({ phase: 'stalled', ms: 5000 });
  });

  it('R20 cuts the time of the slowest as objectives do, with all stalls, not the longest alone', () => {
    const { slowest } = resultOf([
      {
        bodyMs: 40,
        admittedMs: 7,
        queueMs: 5,
        connectMs: 1,
        overheadMs: 3,
        sentMs: 9,
        ttftMs: 800,
        e2eMs: 2800,
        durationMs: 2810,
        stallMs: 600,
        stalledBy: 'big',
        stalledMs: 900,
      },
    ]);
    expect(slowest.whole[0]?.phases).toEqual([
      { phase: 'decode', ms: 1100 },
      { phase: 'stalled', ms: 900 },
      { phase: 'prefill', ms: 791 },
      { phase: 'upload', ms: 40 },
      { phase: 'after', ms: 10 },
      { phase: 'queued', ms: 5 },
      { phase: 'receiving', ms: 2 },
      { phase: 'connecting', ms: 1 },
      { phase: 'sending', ms: 1 },
    ]);
    expect(slowest.toFirstToken[0]?.phases).toEqual([
      { phase: 'prefill', ms: 791 },
      { phase: 'upload', ms: 40 },
      { phase: 'queued', ms: 5 },
      { phase: 'receiving', ms: 2 },
      { phase: 'connecting', ms: 1 },
      { phase: 'sending', ms: 1 },
    ]);
  });

  it('counts only what is asked for, by when it came', () => {
    const rows = [row(at(0)), row({ ...at(1000), model: 'n' }), row({ ...at(2000), backend: 'c' }), row(at(3000))];
    const total = (settings: Partial<ReportSettings>) => reportOf(rows, settings).requests;
    expect(total({ sinceMs: logStartMs + 1000 })).toMatchObject({ total: 3, leftOut: 1 });
    expect(total({ untilMs: logStartMs + 1000 })).toMatchObject({ total: 1 });
    expect(total({ model: 'n' }).total).toBe(1);
    expect(total({ backend: 'c', lane: 'online' }).total).toBe(1);
    expect(total({ lane: 'batch' }).total).toBe(0);
  });

  it('counts answers given again and warm-ups, and takes nothing else from them', () => {
    const result = resultOf([
      {},
      { warmth: 'replayed', backend: undefined, e2eMs: 1, ttftMs: 1 },
      { lane: 'batch', marks: ['warm_up'], ttftMs: 90_000, promptTokens: 9999 },
    ]);
    expect(result.requests).toMatchObject({ total: 3, by: { warmth: { replayed: 1 } } });
    expect(figure(result, 'ttft').spread).toMatchObject({ min: 800, max: 800 });
    expect(result.tokens.all.prompt).toBe(resultOf([{}]).tokens.all.prompt);
  });

  it('tells the findings that were logged', () => {
    const report = createReport({ most: 5 });
    const say = (message: string, fields: LogFields) => report.addLine(parsed(lineText(message, fields)));
    const fields = { finding: 'kv_exhaustion', backend: 'b', says: 'Its cache is full.', usage: 0.99 };
    expect(say('finding began', { ...fields, leftOut: 2 })).toBe(true);
    expect(say('finding ended', { ...fields, lastedMs: 4000 })).toBe(true);
    expect(say('backend health', {})).toBe(false);
    expect(report.result().findings).toMatchObject([
      {
        kind: 'kv_exhaustion',
        backend: 'b',
        begun: 1,
        leftOut: 2,
        ended: 1,
        seconds: 4,
        says: 'Its cache is full.',
        evidence: { usage: '0.99' },
      },
    ]);
  });

  it('stays bounded, whatever names come', () => {
    const result = resultOf(
      Array.from({ length: 3000 }, (_, i) => ({
        requestId: `r${i}`,
        model: `m${i}`,
        backend: `b${i}`,
        reason: `x${i}`,
        outcome: 'timeout',
        slo: `s${i}`,
        sloMet: true,
        stallMs: i + 1,
        stalledBy: `c${i}`,
      })),
    );
    expect(Object.keys(result.requests.by.model)).toHaveLength(201);
    expect(result.requests.by.model['(other)']).toBe(2800);
    expect(result.populations.length).toBeLessThan(200);
    expect(Object.keys(result.tokens.byModel).length).toBeLessThanOrEqual(51);
    expect(result.slo.length).toBeLessThanOrEqual(51);
    expect(result.slo.reduce((sum, { requests }) => sum + requests, 0)).toBe(3000);
    expect(result.concurrency.length).toBeLessThanOrEqual(64);
    expect(result.stalls).toMatchObject({ streams: 3000, causes: 3000 });
    expect(result.stalls.worst[0]?.requestId).toBe('c2999');
  });
});
