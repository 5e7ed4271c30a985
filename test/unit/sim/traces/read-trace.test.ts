import { describe, expect, it } from 'vitest';
import { createTraceReader } from '../../../../src/sim/traces/read-trace.ts';
import { beginningOf } from '../../../../src/sim/traces/trace.ts';

function read(lines: readonly string[], seed = 1) {
  const reader = createTraceReader({ name: 'test', seed, maxRequests: 1000 });
  for (const line of lines) reader.line(line);
  return reader.end();
}

const json = (fields: object) => JSON.stringify(fields);

describe('a Mooncake trace', () => {
  it('keeps lengths, times and equal beginnings', () => {
    const { format, trace } = read([
      json({ timestamp: 100, input_length: 600, output_length: 7, hash_ids: [70, 71] }),
      json({ timestamp: 350, input_length: 1100, output_length: 8, hash_ids: [70, 72, 73] }),
    ]);
    expect(format).toBe('mooncake');
    expect(trace.hashTokens).toBe(512);
    const [first, second] = trace.requests;
    expect(first).toMatchObject({ atMs: 0, promptTokens: 600, outputTokens: 7 });
    expect(second).toMatchObject({ atMs: 250, promptTokens: 1100, outputTokens: 8 });
    expect(second?.hashIds[0]).toBe(first?.hashIds[0]);
    expect(second?.hashIds[1]).not.toBe(first?.hashIds[1]);
  });

  it('is sorted by time, since answers end in another order than requests came', () => {
    const line = (timestamp: number) =>
      json({ timestamp, input_length: timestamp + 1, output_length: 1, hash_ids: [] });
    expect(read([900, 100, 500].map(line)).trace.requests.map(({ atMs }) => atMs)).toEqual([0, 400, 800]);
  });

  it('spreads requests over the bins into which the recorder put them, the same way for the same seed', () => {
    const lines = Array.from({ length: 40 }, (_, index) =>
      json({ timestamp: 3000 * Math.floor(index / 10), input_length: 10, output_length: 1, hash_ids: [index] }),
    );
    const times = read(lines).trace.requests.map(({ atMs }) => atMs);
    expect(new Set(times).size).toBe(40);
    expect(Math.max(...times)).toBeLessThan(12_000);
    expect(Math.max(...times)).toBeGreaterThan(9000);
    expect(read(lines).trace.requests.map(({ atMs }) => atMs)).toEqual(times);
    expect(read(lines, 2).trace.requests.map(({ atMs }) => atMs)).not.toEqual(times);
  });

  it('leaves fine times as they are', () => {
    const lines = [0, 130, 131, 977].map((timestamp) =>
      json({ timestamp, input_length: 10, output_length: 1, hash_ids: [1] }),
    );
    expect(read(lines).trace.requests.map(({ atMs }) => atMs)).toEqual([0, 130, 131, 977]);
  });

  it('names bad lines by their numbers and reads the others', () => {
    const good = json({ timestamp: 0, input_length: 10, output_length: 1, hash_ids: [1] });
    const { trace, badLines, problems } = read([
      good,
      '{"timestamp": 5',
      '',
      json({ timestamp: 5, output_length: 1 }),
      json({ timestamp: 5, input_length: -1, output_length: 1 }),
      json({ timestamp: 5, input_length: 10, output_length: 1, hash_ids: ['a'] }),
      json({ timestamp: -5, input_length: 10, output_length: 1 }),
    ]);
    expect(trace.requests).toHaveLength(1);
    expect(badLines).toBe(5);
    expect(problems.map(({ line }) => line)).toEqual([2, 4, 5, 6, 7]);
    expect(problems[1]?.why).toBe('input_length is missing');
  });

  it('gives a prompt whose ids do not cover it new ones of its own', () => {
    const { trace } = read([
      json({ timestamp: 0, input_length: 2000, output_length: 1, hash_ids: [5] }),
      json({ timestamp: 1, input_length: 2000, output_length: 1, hash_ids: [5] }),
      json({ timestamp: 2, input_length: 2000, output_length: 1 }),
    ]);
    const [a, b, c] = trace.requests.map(({ hashIds }) => hashIds);
    expect([a?.length, b?.length, c?.length]).toEqual([4, 4, 4]);
    expect(a?.[0]).toBe(b?.[0]);
    expect(new Set([...(a ?? []), ...(b ?? []), ...(c ?? [])]).size).toBe(11);
  });
});

describe('turns of AIPerf and Dynamo', () => {
  it('wait for the turn before, and carry its prompt and answer along', () => {
    const { trace } = read([
      json({ session_id: 's', timestamp: 0, input_length: 1024, output_length: 32, hash_ids: [1, 2] }),
      json({ session_id: 's', delay: 2000, input_length: 512, output_length: 16, hash_ids: [3] }),
      json({ timestamp: 10, input_length: 512, output_length: 1, hash_ids: [1] }),
    ]);
    const [first, turn, other] = trace.requests;
    expect(first).toMatchObject({ atMs: 0, promptTokens: 1024, session: 's' });
    expect(turn).toMatchObject({ after: { request: 0, delayMs: 2000 }, promptTokens: 1024 + 32 + 512 });
    expect(turn?.hashIds.slice(0, 64)).toEqual(first?.hashIds);
    expect(other?.after).toBeUndefined();
    // Another session with the same first block shares it.
    expect(other?.hashIds).toEqual(first?.hashIds.slice(0, 32));
  });

  it('are taken as they are where each tells its whole prompt', () => {
    const { trace } = read([
      json({ session_id: 's', timestamp: 0, input_length: 600, output_length: 32, hash_ids: [1, 2] }),
      json({ session_id: 's', delay: 5, input_length: 1300, output_length: 16, hash_ids: [1, 3, 4] }),
    ]);
    expect(trace.hashTokens).toBe(512);
    expect(trace.requests[1]).toMatchObject({ promptTokens: 1300, after: { request: 0, delayMs: 5 } });
  });

  it('without any time are named, not played at the beginning', () => {
    const { trace, problems } = read([json({ session_id: 's', input_length: 5, output_length: 1, hash_ids: [1] })]);
    expect(trace.requests).toHaveLength(0);
    expect(problems[0]?.why).toContain('timestamp is missing');
  });
});

describe('other formats', () => {
  it('reads Qwen-Bailian, with a chat as one session', () => {
    const { format, trace } = read([
      json({
        chat_id: 11,
        parent_chat_id: -1,
        timestamp: 1.5,
        input_length: 20,
        output_length: 3,
        turn: 1,
        hash_ids: [1, 2],
      }),
      json({
        chat_id: 12,
        parent_chat_id: 11,
        timestamp: 61.5,
        input_length: 40,
        output_length: 3,
        turn: 2,
        hash_ids: [1, 4, 5],
      }),
    ]);
    expect(format).toBe('bailian');
    expect(trace.hashTokens).toBe(16);
    expect(trace.requests.map(({ atMs, session }) => [atMs, session])).toEqual([
      [0, '11'],
      [60_000, '11'],
    ]);
  });

  it('reads Azure’s CSV, in which no two prompts begin alike', () => {
    const { format, trace, badLines } = read([
      'TIMESTAMP,ContextTokens,GeneratedTokens',
      '2023-11-16 18:15:46.6805900,374,44',
      '2023-11-16 18:15:50.9951690,396,109',
      'nonsense,1,1',
    ]);
    expect(format).toBe('azure');
    expect(badLines).toBe(1);
    expect(trace.requests.map(({ promptTokens, outputTokens }) => [promptTokens, outputTokens])).toEqual([
      [374, 44],
      [396, 109],
    ]);
    expect(trace.requests[1]?.atMs).toBeCloseTo(4314.579, 2);
    expect(trace.requests[0]?.hashIds).not.toEqual(trace.requests[1]?.hashIds);
  });

  it('says what a request log lacks', () => {
    const { format, problems } = read(['{"time":"2026-01-01","level":"info","msg":"request","requestId":"r"}']);
    expect(format).toBe('unknown');
    expect(problems[0]?.why).toContain('telemetry.promptTrace');
  });
});

describe('the beginning of a trace', () => {
  it('leaves out later requests, and turns whose earlier one was left out', () => {
    const request = { promptTokens: 1, outputTokens: 1, hashIds: [1] };
    const trace = {
      name: 't',
      hashTokens: 16,
      requests: [
        { ...request, atMs: 0 },
        { ...request, atMs: 0, after: { request: 0, delayMs: 1 } },
        { ...request, atMs: 100_000 },
        { ...request, atMs: 100_000, after: { request: 2, delayMs: 1 } },
      ],
    };
    expect(beginningOf(trace, { untilMs: 60_000 }).requests).toHaveLength(2);
    expect(beginningOf(trace, { most: 3 }).requests).toHaveLength(3);
    expect(beginningOf(trace, {}).requests).toEqual(trace.requests);
  });
});
