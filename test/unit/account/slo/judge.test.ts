import { describe, expect, it } from 'vitest';
import { judge } from '../../../../src/account/slo/judge.ts';
import type { Outcome } from '../../../../src/domain/names.ts';
import { profileOf, shipped, straight, streamOf } from '../../../support/slo-record.ts';

describe('a tenant that asked for more than its key allows', () => {
  it.each(['limit_concurrent', 'limit_requests', 'limit_tokens'])('is not judged: %s', (reason) => {
    const refused = streamOf({ more: { outcome: 'rejected', reason, status: 429 } });
    expect(judge(refused, shipped('chat'))).toBeUndefined();
  });

  it('is, like anybody else, where there was no room', () => {
    const refused = streamOf({ more: { outcome: 'rejected', reason: 'queue_full', status: 429 } });
    expect(judge(refused, shipped('chat'))).toMatchObject({ met: false, breaches: [] });
  });
});

describe('an answer that came whole', () => {
  it('meets a profile whose bounds it keeps, the limit itself included', () => {
    const record = streamOf({ ...straight, tokens: [200, 230, 260] });
    expect(judge(record, shipped('chat'))).toMatchObject({ profile: 'chat', met: true, breaches: [] });
    expect(judge(record, shipped('reading'))).toMatchObject({ met: true, breaches: [] });
  });

  it('breaks the bound on its first token, with limit, value and the phase that took longest', () => {
    const slowPrefill = streamOf({ ...straight, tokens: [630.5, 650] });
    expect(judge(slowPrefill, shipped('chat'))).toMatchObject({
      met: false,
      breaches: [{ bound: 'ttft', limitMs: 200, valueMs: 630.5, phase: 'prefill' }],
    });
    const queued = streamOf({ queued: 1, admitted: 501, connected: 502, sent: 503, head: 504, tokens: [640, 650] });
    expect(judge(queued, shipped('chat'))?.breaches[0]).toMatchObject({ phase: 'queued', valueMs: 640 });
  });

  it('names every bound that broke, the one exceeded most first', () => {
    const record = streamOf({ ...straight, tokens: [900, 1020, 1140] });
    const verdict = judge(record, shipped('mlperf-interactive'));
    expect(verdict?.breaches.map(({ bound, valueMs }) => [bound, valueMs])).toEqual([
      ['tpot', 120],
      ['ttft', 900],
    ]);
  });

  it('is held to the share of its gaps, not to each gap', () => {
    const gaps = (slow: number) => [
      ...Array.from({ length: 20 - slow }, () => 30),
      ...Array.from({ length: slow }, () => 80),
    ];
    const tokensOf = (slow: number) => gaps(slow).reduce((all, gap) => [...all, (all.at(-1) ?? 0) + gap], [100]);
    expect(judge(streamOf({ ...straight, tokens: tokensOf(1) }), shipped('reading'))).toMatchObject({ met: true });
    expect(judge(streamOf({ ...straight, tokens: tokensOf(2) }), shipped('reading'))).toMatchObject({
      met: false,
      breaches: [{ bound: 'itl', limitMs: 30, valueMs: 80, phase: 'decode', shareWithin: 0.9 }],
    });
  });

  it('R20 R21 lays slow tokens on another request’s prefill where that took most of the excess', () => {
    const more = { stalls: [{ atMs: 1130, durationMs: 470, requestId: 'other' }] };
    const record = streamOf({ ...straight, tokens: [100, 130, 630, 660, 690], more });
    expect(judge(record, shipped('reading'))?.breaches).toMatchObject([
      { bound: 'itl', valueMs: 500, phase: 'stalled' },
    ]);
    expect(judge(record, profileOf({ tpotMs: 40 }))?.breaches).toMatchObject([{ bound: 'tpot', phase: 'stalled' }]);
    expect(judge(record, profileOf({ e2eMs: 300 }))?.breaches).toMatchObject([{ bound: 'e2e', phase: 'stalled' }]);
    const little = { stalls: [{ atMs: 1130, durationMs: 60, requestId: 'other' }] };
    const own = streamOf({ ...straight, tokens: [100, 130, 630, 660, 690], more: little });
    expect(judge(own, shipped('reading'))?.breaches).toMatchObject([{ phase: 'decode' }]);
  });

  it('passes the bounds of figures that one token can’t have', () => {
    const record = streamOf({ ...straight, tokens: [100] });
    expect(judge(record, profileOf({ itlMs: 1, tpotMs: 1 }))).toMatchObject({ met: true });
  });

  it('without any token has waited for one until its end', () => {
    expect(judge(streamOf({ ...straight, end: 150 }), shipped('chat'))).toMatchObject({ met: true });
    expect(judge(streamOf({ ...straight, end: 900 }), shipped('chat'))).toMatchObject({
      met: false,
      breaches: [{ bound: 'ttft', valueMs: 900 }],
    });
  });

  it('that is not streamed is judged by its whole time alone', () => {
    const more = {
      streamed: false,
      figures: { e2eMs: 400, durationMs: 400, tpotWindow: 'none_not_streamed' as const },
    };
    const record = streamOf({ queued: 1, admitted: 2, connected: 3, sent: 4, head: 390, end: 400, output: 9, more });
    expect(judge(record, shipped('chat'))).toBeUndefined();
    expect(judge(record, profileOf({ ttftMs: 200, e2eMs: 500 }))).toMatchObject({ met: true });
    expect(judge(record, shipped('autocomplete'))).toMatchObject({
      met: false,
      breaches: [{ bound: 'e2e', limitMs: 150, valueMs: 400, phase: 'waiting_head' }],
    });
  });

  it('is not judged by a TPOT that nobody could take', () => {
    const figures = { ttftMs: 100, durationMs: 300, tpotWindow: 'none_unknown_count' as const };
    const record = streamOf({ ...straight, tokens: [100, 200, 300], more: { figures } });
    expect(judge(record, profileOf({ tpotMs: 1 }))).toBeUndefined();
    expect(judge(record, profileOf({ tpotMs: 1, ttftMs: 100 }))).toMatchObject({ met: true });
  });

  it('has longer for a longer prompt, less what was cached', () => {
    const profile = profileOf({ ttftMs: 200, ttftPerKilotokenMs: 100 });
    const tokensOf = (prompt: number, cached?: number) => ({
      tokens: {
        prompt: { value: prompt, source: 'usage' as const },
        ...(cached === undefined ? {} : { cached: { value: cached, source: 'usage' as const } }),
      },
    });
    const ofPrompt = (prompt: number, cached?: number) =>
      judge(streamOf({ ...straight, tokens: [560], more: tokensOf(prompt, cached) }), profile);
    expect(ofPrompt(4000)).toMatchObject({ met: true });
    expect(ofPrompt(4000, 1000)).toMatchObject({ met: false, breaches: [{ limitMs: 500, valueMs: 560 }] });
  });
});

describe('a request that failed', () => {
  const failures: readonly Outcome[] = [
    'upstream_error',
    'upstream_truncated',
    'timeout',
    'rejected',
    'shutdown',
    'proxy_error',
  ];

  it.each(failures)('with %s has not met its profile, however fast it was', (outcome) => {
    const record = streamOf({ ...straight, tokens: [50, 70], outcome, more: { phase: 'streaming' } });
    expect(judge(record, shipped('chat'))).toMatchObject({ met: false, breaches: [] });
  });

  it('tells the bounds that it had passed by then', () => {
    const queued = streamOf({ queued: 1, end: 5000, outcome: 'rejected', more: { phase: 'queued' } });
    expect(judge(queued, shipped('chat'))).toMatchObject({
      met: false,
      breaches: [{ bound: 'ttft', valueMs: 5000, phase: 'queued' }],
    });
    const stalled = streamOf({ ...straight, tokens: [50, 70, 90], end: 2090, outcome: 'timeout' });
    expect(judge(stalled, shipped('reading'))?.breaches).toMatchObject([{ bound: 'itl', valueMs: 2000 }]);
  });

  it('by its client’s own fault is not judged', () => {
    expect(judge(streamOf({ ...straight, end: 9000, outcome: 'client_error' }), shipped('chat'))).toBeUndefined();
  });

  it('before its body was whole was late for nothing', () => {
    const more = { timeline: { received: 999 }, figures: { durationMs: 9000, tpotWindow: 'none_no_answer' as const } };
    expect(judge(streamOf({ outcome: 'rejected', more }), shipped('chat'))).toMatchObject({ met: false, breaches: [] });
    expect(judge(streamOf({ outcome: 'client_abort', more }), shipped('chat'))).toBeUndefined();
  });
});

describe('a request whose client left', () => {
  const left = (course: Parameters<typeof streamOf>[0]) =>
    streamOf({ ...straight, outcome: 'client_abort', ...course });

  it('is not judged when that was before its bounds could be known', () => {
    expect(judge(left({ end: 150 }), shipped('chat'))).toBeUndefined();
    expect(judge(left({ tokens: [100], end: 120 }), shipped('reading'))).toBeUndefined();
    expect(judge(left({ tokens: [100, 110], end: 120 }), shipped('autocomplete'))).toBeUndefined();
  });

  it('has not met a bound that had passed without a token', () => {
    expect(judge(left({ end: 4000 }), shipped('chat'))).toMatchObject({
      met: false,
      breaches: [{ bound: 'ttft', limitMs: 200, valueMs: 4000, phase: 'prefill' }],
    });
  });

  it('is judged by what had come', () => {
    expect(judge(left({ tokens: [100, 130], end: 140 }), shipped('chat'))).toMatchObject({ met: true });
    expect(judge(left({ tokens: [300, 330], end: 340 }), shipped('chat'))).toMatchObject({ met: false });
    expect(judge(left({ tokens: [100, 130, 160], end: 165 }), shipped('reading'))).toMatchObject({ met: true });
    expect(judge(left({ tokens: [100, 130], end: 400 }), shipped('autocomplete'))).toMatchObject({ met: false });
  });

  it('counts the silence that it left in', () => {
    const silent = left({ tokens: [100, 120, 140], end: 3140 });
    expect(judge(silent, shipped('reading'))?.breaches).toMatchObject([{ bound: 'itl', valueMs: 3000 }]);
    expect(judge(silent, profileOf({ tpotMs: 200 }))?.breaches).toMatchObject([
      { bound: 'tpot', valueMs: (3140 - 100) / 3, phase: 'decode' },
    ]);
  });
});
