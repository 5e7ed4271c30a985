import { describe, expect, it } from 'vitest';
import type { RequestRecord } from '../../../src/domain/record.ts';
import { createLog } from '../../../src/platform/log.ts';
import { done, finish, role, text, usage } from '../../support/events.ts';
import { observe, playReads, startObserver } from '../../support/observe.ts';
import { logFields } from '../../support/log-fields.ts';
import { sampleNote } from '../../support/sample-routing.ts';

const secrets = ['the prompt', 'the answer', 'sk-secret', 'thoughts', 'arguments-of-a-call'];

function recordWith(over: Partial<RequestRecord> = {}): RequestRecord {
  const record = observe({ engine: 'vllm' }, [
    [100, role()],
    [150.123456, text('the answer')],
    [170.5, text('the answer')],
    [180, finish('stop') + usage(12, 2, { prompt_tokens_details: { cached_tokens: 8 } }) + done],
  ]);
  return { ...record, ...over };
}

describe('the log line of a request', () => {
  it('says what was predicted, where the prompt differs, and why tokens were missed; nothing of who else was considered', () => {
    const assessment = {
      missed: [
        { cause: 'unaligned', tokens: 1 },
        { cause: 'diverged', tokens: 475 },
      ],
    } as const;
    const tokens = { prompt: { value: 1000, source: 'usage' } } as const;
    const fields = logFields(recordWith({ routing: sampleNote(), assessment, tokens }));
    expect(fields).toMatchObject({
      routePolicy: 'warm',
      reusableTokens: 512,
      predictedTokens: 512,
      missCause: 'diverged',
      missed: ['unaligned:1', 'diverged:475'],
      divergedAt: '0:0-256',
    });
    expect(JSON.stringify(fields)).not.toContain('considered');
    const at = (part: number) => ({ routing: sampleNote({ divergence: { part, startBytes: 1, endBytes: 2 } }) });
    expect(logFields(recordWith(at(-2)))['divergedAt']).toBe('tools:1-2');
    expect(logFields(recordWith(at(-1)))['divergedAt']).toBe('head:1-2');
    expect(Object.keys(JSON.parse(JSON.stringify(logFields(recordWith()))) as object)).not.toContain('routePolicy');
  });

  it('never says that more of a prompt was held than the engine told it to have', () => {
    const { reusableTokens, predictedTokens, promptTokens } = logFields(
      recordWith({ routing: sampleNote({ promptTokens: 20, reusableTokens: 19, predictedTokens: 5 }) }),
    );
    expect({ reusableTokens, predictedTokens, promptTokens }).toEqual({
      reusableTokens: 12,
      predictedTokens: 5,
      promptTokens: 12,
    });
  });

  it('holds the record’s figures, times to the microsecond', () => {
    expect(logFields(recordWith())).toMatchObject({
      requestId: 'req-1',
      outcome: 'ok',
      status: 200,
      method: 'POST',
      path: '/v1/chat/completions',
      endpoint: 'chat',
      model: 'm',
      backend: 'b1',
      engine: 'vllm',
      stream: true,
      warmth: 'prefix_hit',
      promptTokens: 12,
      cachedTokens: 8,
      outputTokens: 2,
      tokensFrom: 'usage',
      finish: ['stop'],
      ttftMs: 150.123,
      firstEventMs: 100,
      tpotMs: 20.377,
      decodeTokensPerSecond: 49.1,
      durationMs: 180,
      events: 2,
    });
  });

  it('leaves out what isn’t known, and keeps what is zero', () => {
    const record = recordWith({ tokens: { cached: { value: 0, source: 'usage' } }, marks: [], finishReasons: [] });
    const line = render(record);
    expect(line).toContain('cachedTokens=0');
    expect(line).not.toMatch(/promptTokens|outputTokens|tokensFrom|finish=|marks=|reason=|phase=|undefined|null|NaN/);
  });

  it('tells the phase of what ended badly, and only of that', () => {
    expect(render(recordWith({ outcome: 'timeout', reason: 'head_timeout', phase: 'waiting_head' }))).toContain(
      'reason=head_timeout phase=waiting_head',
    );
    expect(render(recordWith({ phase: 'streaming' }))).not.toContain('phase=');
  });

  it('R20 tells the longest stall and whose prompt it was, and what all stalls took where there were several', () => {
    const stalls = [
      { atMs: 1, durationMs: 1500.5, requestId: 'other', promptTokens: 908 },
      { atMs: 2, durationMs: 60, requestId: 'third' },
    ];
    expect(render(recordWith({ stalls }))).toContain(
      'stallMs=1500.5 stalledBy=other stalledByTokens=908 stalledMs=1560.5',
    );
    expect(render(recordWith({ stalls: stalls.slice(0, 1) }))).not.toContain('stalledMs');
    expect(render(recordWith())).not.toContain('stall');
  });

  it('has the moments that its figures don’t tell: of admission, and of the head where no first token was', () => {
    const record = recordWith();
    const timeline = { received: 990, receivedLast: 1000, queued: 995, admitted: 998.5, head: 1040.25 };
    expect(logFields({ ...record, timeline })).toMatchObject({ admittedMs: -1.5 });
    expect(logFields({ ...record, timeline })['headMs']).toBeUndefined();
    const { ttftMs: _none, ...figures } = record.figures;
    expect(logFields({ ...record, timeline, figures })['headMs']).toBe(40.25);
  });

  it('has the streams that decoded beside it as the concurrency table counts them', () => {
    expect(logFields(recordWith({ assessment: { decodeConcurrency: 2.499 } }))['decodeConcurrency']).toBe(2.499);
  });

  it('has the time to the first answer only where it is another than to the first token', () => {
    const { figures } = recordWith();
    expect(logFields(recordWith())['ttfaMs']).toBeUndefined();
    expect(logFields(recordWith({ figures: { ...figures, ttfaMs: 800 } }))['ttfaMs']).toBe(800);
  });

  it('never holds a prompt, an answer or a key, whatever the request and the answer were made of', () => {
    const { observer, startMs } = startObserver({ engine: 'vllm' });
    const call = `data: ${JSON.stringify({ choices: [{ index: 0, delta: { tool_calls: [{ index: 0, function: { name: 'f', arguments: 'arguments-of-a-call' } }] } }] })}\n\n`;
    const thought = `data: ${JSON.stringify({ choices: [{ index: 0, delta: { reasoning: 'thoughts' } }] })}\n\n`;
    const error = `data: ${JSON.stringify({ error: { message: 'the prompt was: the prompt; key sk-secret', code: 500 } })}\n\n`;
    playReads(observer, {}, startMs, [
      [1, role()],
      [2, text('the answer')],
      [3, call],
      [4, thought],
      [5, error],
      [6, 'data: the answer\n\n'],
    ]);
    observer.failed(new Error('at the answer'));
    const record = observer.finish({
      outcome: 'upstream_error',
      reason: 'error_event',
      spokenBy: 'backend',
      status: 200,
      atMs: startMs + 7,
    });
    const everything = `${render(record)}${JSON.stringify(logFields(record))}${JSON.stringify(record)}`;
    for (const secret of secrets) expect(everything).not.toContain(secret);
    expect(record.events).toBe(3);
  });

  it('shows of a path what stands before its query, where keys are', () => {
    const { observer, startMs } = startObserver({});
    const record = observer.finish({ outcome: 'ok', spokenBy: 'backend', atMs: startMs });
    expect(logFields(record).path).toBe('/v1/chat/completions');
  });

  it('is one line, whatever a model is called', () => {
    const line = render(recordWith({ model: 'm"\nlevel=error msg=forged\u2028 x=1' }));
    expect(line.trimEnd().split(/[\n\u2028]/)).toHaveLength(1);
    expect(line).toContain('model="m\\"\\nlevel=error');
  });
});

function render(record: RequestRecord): string {
  const lines: string[] = [];
  createLog({ level: 'info', format: 'logfmt' }, (line) => void lines.push(line)).info('request', logFields(record));
  return lines.join('');
}
