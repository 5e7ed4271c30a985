/** The dialects besides OpenAI's chat, over real sockets: their events, their ends and their own counters. */
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { send } from '../../src/sim/fault-steps.ts';
import { chunk, DONE, FIN, lastChunk, ROLE, sseEvent, T, USE, wholeStream } from '../../src/sim/sse-script.ts';
import { marksOf, pass, played } from '../support/exchange.ts';
import { postBytes, R0, R1 } from '../support/raw-http.ts';
import { createStage, type Stage } from '../support/stage.ts';

let stage: Stage;
beforeEach(() => {
  stage = createStage();
});
afterEach(() => stage.close());

describe('other dialects', () => {
  it('C033 Anthropic’s messages: counts at start and end, cache reads among the prompt', async () => {
    const body = [
      sseEvent(
        {
          type: 'message_start',
          message: {
            id: 'msg_1',
            model: 'm',
            usage: { input_tokens: 10, cache_read_input_tokens: 30, output_tokens: 1 },
          },
        },
        'message_start',
      ),
      sseEvent(
        { type: 'content_block_start', index: 0, content_block: { type: 'text', text: '' } },
        'content_block_start',
      ),
      sseEvent({ type: 'ping' }, 'ping'),
      ...['a', 'b', 'c'].map((text) =>
        sseEvent({ type: 'content_block_delta', index: 0, delta: { type: 'text_delta', text } }, 'content_block_delta'),
      ),
      sseEvent({ type: 'content_block_stop', index: 0 }, 'content_block_stop'),
      sseEvent(
        { type: 'message_delta', delta: { stop_reason: 'max_tokens' }, usage: { output_tokens: 3 } },
        'message_delta',
      ),
      sseEvent({ type: 'message_stop' }, 'message_stop'),
    ].join('');
    const { record, answer } = await pass(stage, () => played(body, 'a chunk for each byte'), {
      request: R0.replace('/v1/chat/completions', '/v1/messages'),
    });
    expect(answer.body.toString()).toBe(body);
    expect(record).toMatchObject({
      outcome: 'ok',
      endpoint: 'messages',
      events: 3,
      finishReasons: ['max_tokens'],
      responseModel: 'm',
    });
    expect(record.tokens).toMatchObject({ prompt: { value: 40 }, cached: { value: 30 }, output: { value: 3 } });
    expect(marksOf(record)).toEqual([]);
  });

  it('C035 Ollama’s lines: counts of the last one, whatever an earlier one filled in', async () => {
    const line = (value: object) => `${JSON.stringify({ model: 'm', ...value })}\n`;
    const body = [
      line({ message: { role: 'assistant', content: 'a' }, done: false, prompt_eval_count: 0, eval_count: 0 }),
      line({ message: { role: 'assistant', content: 'b' }, done: false }),
      line({
        message: { role: 'assistant', content: '' },
        done: true,
        done_reason: 'stop',
        prompt_eval_count: 26,
        eval_count: 2,
        prompt_eval_duration: 130_000_000,
      }),
    ].join('');
    const { record, answer } = await pass(
      stage,
      () => [
        send('HTTP/1.1 200 OK\r\nContent-Type: application/x-ndjson\r\nTransfer-Encoding: chunked\r\n\r\n'),
        send(chunk(body)),
        send(lastChunk),
      ],
      { request: postBytes('/api/chat', { model: 'm', messages: [] }), engine: 'ollama' },
    );
    expect(answer.body.toString()).toBe(body);
    expect(record).toMatchObject({
      outcome: 'ok',
      format: 'ollama_chat',
      streamed: true,
      events: 2,
      finishReasons: ['stop'],
    });
    expect(record.tokens).toMatchObject({
      prompt: { value: 26, source: 'native' },
      output: { value: 2, source: 'native' },
    });
  });

  it('C033 an engine that says nothing of its cache is not said to have none', async () => {
    const { record } = await pass(stage, () => [wholeStream(ROLE, T('a'), FIN('stop'), USE(400, 1), DONE)], {
      request: R1,
    });
    expect(record.tokens.cached).toBeUndefined();
    expect(record.warmth).toBe('unknown');
  });
});
