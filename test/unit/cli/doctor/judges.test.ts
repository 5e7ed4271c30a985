/** What the doctor makes of what it saw, without any server. */
import { describe, expect, it } from 'vitest';
import { judgeAbort } from '../../../../src/cli/doctor/abort.ts';
import { longAnswer, type AbortEvidence } from '../../../../src/cli/doctor/abort-probe.ts';
import { judgeErrors, judgeUsage } from '../../../../src/cli/doctor/answers.ts';
import { arrivalOf, flowOf, judgeBuffering, type Arrival } from '../../../../src/cli/doctor/buffering.ts';
import { readCounters } from '../../../../src/cli/doctor/counters.ts';
import { exitCodeOf, finding, findingLine } from '../../../../src/cli/doctor/finding.ts';
import { gatewaysIn, unbufferRemedy } from '../../../../src/cli/doctor/gateways.ts';
import { judgeKeepAlive } from '../../../../src/cli/doctor/keep-alive.ts';
import { budgetText, createPurse } from '../../../../src/cli/doctor/purse.ts';
import type { Seen } from '../../../../src/cli/doctor/wire.ts';
import { fillerWords } from '../../../../src/cli/doctor/words.ts';
import { createFakeClock } from '../../../support/fake-clock.ts';

const seen = (part: Partial<Seen>): Seen => ({
  status: 200,
  headers: { 'content-type': 'text/event-stream' },
  framing: 'chunked',
  reused: false,
  sentMs: 0,
  endMs: 1000,
  tokenMs: [],
  tokenReadMs: [],
  events: 0,
  usageEvents: 0,
  finished: true,
  done: true,
  body: '',
  aborted: false,
  ...part,
});

const arrival = (part: Partial<Arrival>): Arrival => ({
  tokenEvents: 24,
  reads: 24,
  spreadMs: 460,
  ttftMs: 40,
  ...part,
});

describe('the flow of a stream', () => {
  it('is spread when each event has its read', () => {
    expect(flowOf(arrival({}))).toBe('spread');
    expect(flowOf(arrival({ engineMs: 470 }))).toBe('spread');
  });

  it('C046 is a lump when the engine says that it took longer than the events did', () => {
    expect(flowOf(arrival({ reads: 1, spreadMs: 0, ttftMs: 500, engineMs: 460 }))).toBe('lump');
    expect(flowOf(arrival({ reads: 12, spreadMs: 20, ttftMs: 500, engineMs: 460 }))).toBe('lump');
  });

  it('is a lump without the word of the engine only if a longer answer comes later', () => {
    const lump = arrival({ reads: 1, spreadMs: 0, ttftMs: 500 });
    expect(flowOf(lump)).toBe('unclear');
    expect(flowOf(lump, arrival({ tokenEvents: 72, reads: 1, spreadMs: 0, ttftMs: 1460 }))).toBe('lump');
    // A slow prefill before a quick decode: as late with more tokens.
    expect(flowOf(lump, arrival({ tokenEvents: 72, reads: 3, spreadMs: 8, ttftMs: 510 }))).toBe('unclear');
  });

  it('is in lots when few reads bring many events over the whole time', () => {
    expect(flowOf(arrival({ reads: 4 }))).toBe('lots');
    expect(flowOf(arrival({ reads: 4, engineMs: 480 }))).toBe('lots');
  });

  it('of a very quick engine, or of few events, is not judged', () => {
    expect(flowOf(arrival({ reads: 2, spreadMs: 5, ttftMs: 4 }))).toBe('unclear');
    expect(flowOf(arrival({ tokenEvents: 3, reads: 1, spreadMs: 0, ttftMs: 900 }))).toBe('unclear');
  });

  it('has no arrival without a token', () => {
    expect(arrivalOf(seen({}))).toBeUndefined();
  });
});

describe('the headers of a stream', () => {
  const judge = (headers: Record<string, string>, more: Partial<Seen> = {}) =>
    judgeBuffering({
      plain: seen({ headers: { 'content-type': 'text/event-stream', ...headers }, ...more }),
      gateways: [],
    });
  const verdictOf = (findings: ReturnType<typeof judge>, check: string) =>
    findings.find((one) => one.check === check)?.verdict;

  it('C095 without a marker are warned of, with one they are not', () => {
    expect(verdictOf(judge({}), 'buffering.markers')).toBe('warn');
    expect(verdictOf(judge({ 'x-accel-buffering': 'no' }), 'buffering.markers')).toBe('ok');
    const both = { 'x-accel-buffering': 'no', 'cache-control': 'no-cache, no-transform' };
    expect(judge(both).find(({ check }) => check === 'buffering.markers')?.remedy).toBeUndefined();
  });

  it('with a length or a compression are what they are', () => {
    expect(verdictOf(judge({ 'content-length': '9' }, { framing: 'length' }), 'buffering.length')).toBe('bad');
    expect(verdictOf(judge({ 'content-encoding': 'gzip' }), 'buffering.encoding')).toBe('warn');
  });

  it('of something else than an event stream are bad', () => {
    const [found] = judgeBuffering({ plain: seen({ headers: { 'content-type': 'application/json' } }), gateways: [] });
    expect(found).toMatchObject({ check: 'buffering.spread', verdict: 'bad' });
  });
});

describe('gateways', () => {
  it.each([
    [{ server: 'nginx/1.22.1' }, 'nginx'],
    [{ server: 'cloudflare', 'cf-ray': '8f' }, 'cloudflare'],
    [{ via: '1.1 warmlane', server: 'uvicorn' }, 'warmlane'],
    [{ 'x-litellm-version': '1' }, 'litellm'],
    [{ server: 'istio-envoy', 'x-envoy-upstream-service-time': '4' }, 'envoy'],
    [{ via: '1.1 Caddy' }, 'caddy'],
    [{ via: '1.1 something' }, 'a proxy'],
  ])('%j is %s', (headers, name) => {
    expect(gatewaysIn(headers).map((gateway) => gateway.name)).toEqual([name]);
  });

  it('are none where only the engine signs', () => {
    expect(gatewaysIn({ server: 'uvicorn' })).toEqual([]);
    expect(gatewaysIn({ server: 'llama.cpp' })).toEqual([]);
  });

  it('each have a remedy of their own', () => {
    expect(unbufferRemedy(gatewaysIn({ server: 'nginx', via: '1.1 warmlane' }))).toMatch(/^nginx: proxy_buffering off/);
    expect(unbufferRemedy(gatewaysIn({ via: '1.1 Caddy' }))).toContain('flush_interval -1');
    expect(unbufferRemedy([])).toContain("doesn't show itself");
  });
});

describe('engine counters', () => {
  it('are summed over the engines of one server', () => {
    const text = [
      '# TYPE vllm:num_requests_running gauge',
      'vllm:num_requests_running{engine="0",model_name="m"} 2.0',
      'vllm:num_requests_running{engine="1",model_name="m"} 1.0',
      'vllm:num_requests_running_by_x{engine="1"} 9.0',
      'vllm:prefix_cache_hits_total{engine="0"} 64.0',
    ].join('\n');
    expect(readCounters(text)).toEqual({ running: 3, cached: 64 });
  });

  it('of llama-server count found and computed tokens as looked up', () => {
    const text =
      'llamacpp:prompt_tokens_total 10\nllamacpp:prompt_tokens_cached_total 5\nllamacpp:requests_processing 0\n';
    expect(readCounters(text)).toEqual({ running: 0, lookedUp: 15, cached: 5 });
  });

  it('of anybody else are none', () => {
    expect(readCounters('go_goroutines 5\n')).toBeUndefined();
  });
});

describe('an abort', () => {
  const pace = { ttftMs: 20, itlMs: 10 };
  const judge = (part: Partial<AbortEvidence>) =>
    judgeAbort({ phase: 'decode', maxTokens: 500, tokensSeen: 3, after: [], ...part }, pace);
  const idle = { running: 0, generated: 100 };
  const busy = { running: 1, generated: 103 };

  it('R27 is proven by what runs and what was made', () => {
    const after = [{ atMs: 300, counters: { running: 0, generated: 105 } }];
    expect(judge({ before: idle, during: busy, after })).toMatchObject({ verdict: 'ok' });
  });

  it('is lost when it runs on, or was made whole', () => {
    const on = [{ atMs: 3000, counters: { running: 1, generated: 300 } }];
    expect(judge({ before: idle, during: busy, after: on })).toMatchObject({ verdict: 'bad' });
    const whole = [{ atMs: 3000, counters: { running: 0, generated: 600 } }];
    expect(judge({ before: idle, during: busy, after: whole })).toMatchObject({ verdict: 'bad' });
  });

  it('is not judged by the counters of another engine, nor beside the requests of others', () => {
    expect(judge({ before: idle, during: idle, after: [{ atMs: 300, counters: idle }] }).verdict).toBe('unknown');
    const others = { running: 2, generated: 100 };
    const on = [{ atMs: 3000, counters: { running: 3, generated: 300 } }];
    expect(judge({ before: others, during: { running: 3 }, after: on }).verdict).toBe('unknown');
    const hidden = judge({ before: others, during: { running: 2 }, after: on });
    expect(hidden.verdict).toBe('unknown');
    expect(hidden.says).toContain('others use the engine');
    const gone = [{ atMs: 300, counters: { running: 2, generated: 128 } }];
    expect(judge({ phase: 'prefill', tokensSeen: 0, before: others, after: gone }).verdict).toBe('unknown');
  });

  it('is not judged by counters that moved as no request of ours can move them', () => {
    const jumped = (generated: number) => [{ atMs: 300, counters: { running: 0, generated } }];
    expect(judge({ before: idle, during: busy, after: jumped(700) }).verdict).toBe('unknown');
    expect(judge({ before: idle, during: busy, after: jumped(50) }).verdict).toBe('unknown');
  });

  it('R10 noticed only at the end of a batch of the prompt is warned of', () => {
    const after = [{ atMs: 5000, counters: { running: 0, generated: 101 } }];
    expect(judge({ phase: 'prefill', tokensSeen: 0, before: idle, after }).verdict).toBe('warn');
    expect(judge({ phase: 'prefill', tokensSeen: 2, before: idle, after }).verdict).toBe('unknown');
  });

  it('R09 left in the queue is warned of; where nothing waits in the engine it is well', () => {
    const slots = 2;
    const waiting = { running: 2, waiting: 1 };
    const before = { running: 0, waiting: 0 };
    const queued = { phase: 'queued' as const, tokensSeen: 0, slots, before };
    const after = (count: number) => [{ atMs: 1500, counters: { running: 2, waiting: count } }];
    expect(judge({ ...queued, during: waiting, after: after(1) }).verdict).toBe('warn');
    expect(judge({ ...queued, during: waiting, after: after(0) }).verdict).toBe('ok');
    expect(judge({ ...queued, during: { running: 2, waiting: 0 }, after: after(0) }).verdict).toBe('ok');
  });

  it('is not judged in a queue that never was', () => {
    const after = [{ atMs: 1500, counters: { running: 0, waiting: 0 } }];
    const before = { running: 0, waiting: 0 };
    const queued = { phase: 'queued' as const, tokensSeen: 0, slots: 2, before, after };
    expect(judge({ ...queued, during: { running: 0, waiting: 0 } }).verdict).toBe('unknown');
    expect(judge({ ...queued, tokensSeen: 3, during: { running: 2, waiting: 0 } }).verdict).toBe('unknown');
  });

  it('without counters is known only when the next request had to wait', () => {
    expect(judge({ nextTtftMs: 4000 }).verdict).toBe('bad');
    expect(judge({ nextTtftMs: 25 }).verdict).toBe('unknown');
    expect(judge({}).verdict).toBe('unknown');
  });

  it('is tried on an answer of some seconds that fits the context', () => {
    expect(longAnswer({ ttftMs: 1, itlMs: 50 }, 8192)).toBe(100);
    expect(longAnswer({ ttftMs: 1, itlMs: 0 }, 2048)).toBe(1024);
  });
});

describe('connections', () => {
  it('R01 closed in spite of the promise are named so', () => {
    const kept = seen({ headers: { 'keep-alive': 'timeout=5, max=100' }, reused: true });
    const fresh = seen({ reused: false });
    const findings = judgeKeepAlive({
      first: kept,
      afterShort: kept,
      stream: kept,
      afterStream: fresh,
      error: seen({ status: 400, headers: { connection: 'close' } }),
      afterError: fresh,
    });
    expect(findings.map(({ check, verdict }) => `${check} ${verdict}`)).toEqual([
      'keep_alive.short ok',
      'keep_alive.stream warn',
      'keep_alive.error ok',
      'keep_alive.idle ok',
    ]);
    expect(findings[1]?.says).toContain('though its headers promise to keep it');
  });

  it('that break when used again are warned of', () => {
    const broken = seen({ reused: true, fault: { kind: 'eof', detail: 'ended' } });
    expect(judgeKeepAlive({ first: seen({}), afterShort: broken })[0]).toMatchObject({ verdict: 'warn' });
  });
});

describe('answers', () => {
  it('without usage or cached tokens are warned of', () => {
    expect(judgeUsage(seen({}), undefined, 'vllm').map(({ verdict }) => verdict)).toEqual(['warn', 'warn']);
    const full = seen({ usage: { prompt: 9, output: 4, cached: 0 } });
    expect(judgeUsage(full, undefined, 'vllm').map(({ verdict }) => verdict)).toEqual(['ok', 'ok']);
  });

  it('R24 with a server error for a bad request are warned of', () => {
    const good = '{"error":{"message":"no","type":"x"}}';
    const findings = judgeErrors(seen({ status: 404, body: good }), seen({ status: 500, body: good }));
    expect(findings.map(({ check, verdict }) => `${check} ${verdict}`)).toEqual([
      'errors.model ok',
      'errors.json warn',
      'errors.shape ok',
    ]);
  });

  it.each([401, 403] as const)('of %i are about the key, and prove nothing about models and JSON', (status) => {
    const answer = seen({ status, body: '{"error":{"message":"no","type":"x"}}' });
    expect(judgeErrors(answer, answer).map(({ check, verdict }) => `${check} ${verdict}`)).toEqual([
      'errors.model unknown',
      'errors.json unknown',
      'errors.shape ok',
    ]);
  });

  it('R23 whose error is a mere text have the wrong shape', () => {
    const findings = judgeErrors(undefined, seen({ status: 400, body: '{"error":"Unauthorized"}' }));
    expect(findings.at(-1)).toMatchObject({ check: 'errors.shape', verdict: 'warn' });
  });
});

describe('a purse', () => {
  it('is empty after so many requests, tokens or seconds', () => {
    const clock = createFakeClock();
    const purse = createPurse({ requests: 3, promptTokens: 100, timeoutMs: 1000 }, clock);
    expect([purse.take(60), purse.take(60), purse.take(40)]).toEqual([true, false, true]);
    expect(purse.take(0)).toBe(true);
    expect(purse.take(0)).toBe(false);
    const late = createPurse({ requests: 3, promptTokens: 100, timeoutMs: 1000 }, clock);
    clock.advance(1001);
    expect(late.take(1)).toBe(false);
    expect(purse.spent).toEqual({ requests: 3, promptTokens: 100, ms: 1001 });
  });

  it('is stated in words', () => {
    expect(budgetText({ requests: 3, promptTokens: 12_345, timeoutMs: 90_000 })).toBe(
      'at most 3 generating requests, 12,345 prompt tokens, 90 s',
    );
  });
});

describe('a finding', () => {
  it('is one line, whatever a server wrote into it', () => {
    const line = findingLine(finding('engine', 'ok', 'a\nb\u001b[31m', { evidence: 'e', remedy: 'r' }));
    expect(line).toBe('ok       engine              a b [31m [e] → r\n');
  });

  it('makes the exit code', () => {
    expect(exitCodeOf([finding('a', 'warn', ''), finding('b', 'unknown', '')])).toBe(0);
    expect(exitCodeOf([finding('a', 'ok', ''), finding('b', 'bad', '')])).toBe(1);
  });
});

describe('filler words', () => {
  it('begin alike for one seed, whatever their number, and differ between seeds', () => {
    expect(fillerWords('a', 50).startsWith(fillerWords('a', 20))).toBe(true);
    expect(fillerWords('a', 20)).not.toBe(fillerWords('b', 20));
    expect(fillerWords('a', 20).split(' ')).toHaveLength(20);
    expect(fillerWords('a', 0)).toBe('');
  });
});
