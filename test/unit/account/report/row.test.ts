import { describe, expect, it } from 'vitest';

import type { RequestRecord } from '../../../../src/domain/record.ts';
import { logFields } from '../../../support/log-fields.ts';
import { readRow } from '../../../../src/account/report/row.ts';
import type { LogFormat } from '../../../../src/platform/log.ts';
import { Sketch } from '../../../../src/platform/sketch.ts';
import { at, lineText, logStartMs, parsed, requestFields, row } from '../../../support/log-rows.ts';
import { sampleRecord } from '../../../support/sample-record.ts';

const formats: readonly LogFormat[] = ['json', 'logfmt'];

const gaps = new Sketch();
for (const gap of [0, 0.02, 0.021, 0.05]) gaps.add(gap);

const record: RequestRecord = sampleRecord({
  requestId: 'a b',
  outcome: 'timeout',
  reason: 'content_stall',
  phase: 'streaming',
  status: 200,
  model: 'org/model "x"',
  backend: 'b1',
  engine: 'vllm',
  warmth: 'prefix_hit',
  finishReasons: ['stop', 'length'],
  tokens: {
    prompt: { value: 10, source: 'usage' },
    cached: { value: 0, source: 'usage' },
    output: { value: 7, source: 'events_estimate' },
  },
  timeline: { received: 5, receivedLast: 15, queued: 10, admitted: 12, sent: 18 },
  figures: { tpotWindow: 'visible', durationMs: 900, ttftMs: 100.1234, ttfaMs: 100.1234, tpotMs: 20, e2eMs: 800 },
  stalls: [
    { atMs: 1, durationMs: 77, requestId: 'other', promptTokens: 0 },
    { atMs: 99, durationMs: 5.5, requestId: 'third' },
  ],
  marks: ['coalesced', 'loop_lag'],
  itl: gaps.data(),
  routeReason: 'least_load',
  trace: { traceId: 'f'.repeat(32), spanId: 'e'.repeat(16), sampled: true },
  assessment: {
    slo: {
      profile: 'chat',
      met: false,
      breaches: [
        { bound: 'ttft', phase: 'prefill', valueMs: 430.54, limitMs: 200 },
        { bound: 'itl', phase: 'stalled', valueMs: 90, limitMs: 30, shareWithin: 0.5 },
      ],
      benefitTokens: -3.25,
    },
    useless: [],
    retry: true,
    decodeConcurrency: 3.4567,
  },
});

describe('a request’s line, read back', () => {
  it.each(formats)('gives what the record had (%s)', (format) => {
    const read = readRow(parsed(lineText('request', logFields(record), format)));
    expect(read).toMatchObject({
      startedAtMs: record.startedAtEpochMs,
      requestId: 'a b',
      outcome: 'timeout',
      reason: 'content_stall',
      phase: 'streaming',
      status: 200,
      endpoint: 'chat',
      model: 'org/model "x"',
      backend: 'b1',
      lane: 'online',
      streamed: true,
      warmth: 'prefix_hit',
      finish: ['stop', 'length'],
      marks: ['coalesced', 'loop_lag'],
      promptTokens: 10,
      cachedTokens: 0,
      outputTokens: 7,
      tokensFrom: 'events_estimate',
      ttftMs: 100.123,
      ttfaMs: 100.123,
      tpotMs: 20,
      e2eMs: 800,
      durationMs: 900,
      bodyMs: 10,
      admittedMs: -3,
      sentMs: 3,
      stallMs: 77,
      stalledBy: 'other',
      stalledByTokens: 0,
      stalledMs: 82.5,
      decodeConcurrency: 3.457,
      routeReason: 'least_load',
      traceId: 'f'.repeat(32),
      slo: 'chat',
      sloMet: false,
      sloBroke: [
        { bound: 'ttft', phase: 'prefill', valueMs: 430.5, limitMs: 200 },
        { bound: 'itl', phase: 'stalled', valueMs: 90, limitMs: 30 },
      ],
      useless: [],
      retry: true,
    });
    expect(read?.benefitTokens).toBeCloseTo(-3.25, 0);
    expect(read?.itl).toEqual(gaps.data());
    expect(read).not.toHaveProperty('queueMs');
    expect(read).not.toHaveProperty('headMs');
  });

  it('knows no time to an answer where none came after the first token', () => {
    const { ttfaMs: _none, ...figures } = record.figures;
    const read = readRow(parsed(lineText('request', logFields({ ...record, figures }))));
    expect(read?.ttftMs).toBe(100.123);
    expect(read).not.toHaveProperty('ttfaMs');
  });

  it('takes the beginning from the line’s own time where an older log has none', () => {
    const { startedAt: _none, ...fields } = requestFields();
    const line = parsed(lineText('request', fields));
    expect(readRow(line)?.startedAtMs).toBe(line.timeMs - 2810);
    expect(row(at(250)).startedAtMs).toBe(logStartMs + 250);
  });

  it.each([{ requestId: undefined }, { outcome: undefined }, { durationMs: undefined }, { durationMs: -1 }])(
    'is none without what every request has: %j',
    (over) => {
      expect(readRow(parsed(lineText('request', requestFields(over))))).toBeUndefined();
    },
  );

  it.each(['+275760-09-13T00:00:00.000Z', '1901-01-01T00:00:00Z', 'garbage'])(
    'takes no beginning that no report could print: %s',
    (startedAt) => {
      const line = parsed(lineText('request', requestFields({ startedAt })));
      expect(readRow(line)?.startedAtMs).toBe(line.timeMs - 2810);
    },
  );

  it('takes nothing for a number that no request can have, lest it be all that a mean shows', () => {
    const read = row({ ttftMs: 1e308, e2eMs: 1e300, outputTokens: 1e300 });
    for (const name of ['ttftMs', 'e2eMs', 'outputTokens']) expect(read).not.toHaveProperty(name);
  });

  it('takes nothing for a number that is none', () => {
    const read = row({ ttftMs: 'soon', tpotMs: -4, cachedTokens: '' });
    expect(read).not.toHaveProperty('ttftMs');
    expect(read).not.toHaveProperty('tpotMs');
    expect(read).not.toHaveProperty('cachedTokens');
  });
});
