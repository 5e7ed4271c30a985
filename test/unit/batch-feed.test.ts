import { describe, expect, it } from 'vitest';
import { createBatchFeed } from '../../src/batch-feed.ts';
import type { LineAsk, LineEnd } from '../../src/batch/line-port.ts';
import type { RequestRecord } from '../../src/domain/record.ts';
import type { LineTerms, OwnTerms } from '../../src/passage.ts';
import type { ClientHead, ClientPort, ClientUpload } from '../../src/platform/client-port.ts';
import { createFakeClock } from '../support/fake-clock.ts';
import { sampleRecord } from '../support/sample-record.ts';

const ask: LineAsk = {
  tenant: 'anna',
  requestId: 'batch_1-1',
  path: '/v1/chat/completions',
  body: Buffer.from('{"messages":[]}'),
  reclaimed: 0,
  promptsTaken: 0,
};

/** One line on its way, its pipeline played by the test. */
function send(change: Partial<LineAsk> = {}, maxAnswerBytes = 10_000) {
  let served: { head: ClientHead; upload: ClientUpload; client: ClientPort; terms: LineTerms } | undefined;
  const ends: LineEnd[] = [];
  let places = 0;
  const feed = createBatchFeed(
    { maxAnswerBytes, maxReclaims: 2 },
    {
      clock: createFakeClock(),
      pipeline: () => ({
        serve(head: ClientHead, upload: ClientUpload, client: ClientPort, terms?: OwnTerms) {
          if (terms?.kind !== 'line') throw new Error('not a line');
          served = { head, upload, client, terms };
        },
      }),
    },
  );
  const sending = feed.send(
    { ...ask, ...change },
    (end) => ends.push(end),
    () => (places += 1),
  );
  if (served === undefined) throw new Error('nothing was served');
  const { client, terms } = served;
  return {
    ...served,
    ends,
    places: () => places,
    abort: () => sending.abort(),
    answer(text: string, type = 'application/json', status = 200) {
      client.head(status, 'OK', ['Content-Type', type], { kind: 'stream' });
      client.write(Buffer.from(text));
    },
    over(record: Partial<RequestRecord> = {}) {
      terms.booked({ ...sampleRecord(), ...record }, undefined);
      terms.over();
    },
  };
}

const done = 'data: [DONE]\n\n';
const chunk = (content: string, finish: string | null) =>
  `data: {"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"content":"${content}"},"finish_reason":${finish === null ? 'null' : `"${finish}"`}}]}\n\n`;

describe('a line on its way', () => {
  it('is a request of its tenant, with no credentials but its id', () => {
    const { head, terms, upload } = send();
    expect(head).toMatchObject({ method: 'POST', target: '/v1/chat/completions', requestId: 'batch_1-1' });
    expect(head.header('authorization')).toBeUndefined();
    expect(head.header('user-agent')).toBe('warmlane-batch');
    expect(head.rawHeaders).toContain('warmlane-batch');
    expect(upload.bytes).toBe(ask.body.length);
    expect(terms).toMatchObject({ tenant: 'anna', again: false, mayStream: { engines: ['llama-server', 'vllm'] } });
  });

  it('ends with its answer, told once', () => {
    const line = send();
    line.terms.placed();
    expect(line.places()).toBe(1);
    line.answer('{"id":"x"}');
    line.client.end();
    line.over();
    expect(line.ends).toMatchObject([{ kind: 'answered', status: 200, body: '{"id":"x"}' }]);
  });

  it('ends with the whole object where its answer streamed', () => {
    const line = send();
    line.answer(chunk('Hel', null), 'text/event-stream');
    line.client.write(Buffer.from(chunk('lo', 'stop') + done));
    line.client.end();
    line.over();
    const [end] = line.ends;
    expect(end?.kind === 'answered' && JSON.parse(end.body)).toMatchObject({
      object: 'chat.completion',
      choices: [{ index: 0, message: { role: 'assistant', content: 'Hello' }, finish_reason: 'stop' }],
    });
  });

  it('keeps no buffer of the socket past the call', () => {
    const line = send();
    const read = Buffer.from('{"id":"first"}');
    line.client.head(200, 'OK', ['content-type', 'application/json'], { kind: 'stream' });
    line.client.write(read);
    read.fill(0);
    line.client.end();
    line.over();
    expect(line.ends).toMatchObject([{ body: '{"id":"first"}' }]);
  });

  it('is aborted only where its answer was not whole yet', () => {
    const early = send();
    early.abort();
    expect(early.client.gone).toBe(true);
    early.over({ outcome: 'client_abort' });
    expect(early.ends).toEqual([{ kind: 'aborted' }]);
    const late = send();
    late.answer('{"id":"x"}');
    late.client.end();
    late.abort();
    late.over();
    expect(late.ends).toMatchObject([{ kind: 'answered' }]);
    const marked = send();
    marked.answer(chunk('a', 'stop') + done, 'text/event-stream');
    marked.abort();
    marked.over({ outcome: 'ok' });
    expect(marked.ends).toMatchObject([{ kind: 'answered' }]);
  });

  it('gives its place up when it is told to, and says so; after so many times it may stay', () => {
    const line = send();
    line.terms.taken?.('answer');
    expect(line.client.gone).toBe(true);
    line.over({ outcome: 'client_abort' });
    expect(line.ends).toEqual([{ kind: 'reclaimed', inPrompt: false }]);
    const early = send();
    early.terms.taken?.('prompt');
    early.over({ outcome: 'client_abort' });
    expect(early.ends).toEqual([{ kind: 'reclaimed', inPrompt: true }]);
    expect(send({ reclaimed: 1 }).terms).toMatchObject({ again: true, staysOnceBegun: false, promptsTaken: 0 });
    expect(send({ reclaimed: 2 }).terms.staysOnceBegun).toBe(true);
    // Where its prompt was taken it had not begun: that is counted apart, and makes it wait for quiet.
    expect(send({ reclaimed: 5, promptsTaken: 4 }).terms).toMatchObject({ staysOnceBegun: false, promptsTaken: 4 });
    expect(send({ reclaimed: 6, promptsTaken: 4 }).terms.staysOnceBegun).toBe(true);
  });

  it('fails for good when its answer is too long, and takes no more of it', () => {
    const line = send({}, 100);
    line.answer('{"id":"');
    line.client.write(Buffer.alloc(200, 'a'));
    expect(line.client.gone).toBe(true);
    line.over({ outcome: 'client_abort' });
    expect(line.ends).toMatchObject([{ kind: 'failed', code: 'answer_too_large', retryable: false }]);
  });

  it('comes again when its answer broke off', () => {
    const line = send();
    line.answer(chunk('Hel', null), 'text/event-stream');
    line.client.cut();
    line.over({ outcome: 'upstream_truncated', reason: 'reset' });
    expect(line.ends).toMatchObject([{ kind: 'failed', code: 'answer_broken', retryable: true }]);
  });

  it('has an end also where its record was lost', () => {
    const line = send();
    line.terms.over();
    expect(line.ends).toMatchObject([{ kind: 'failed', code: 'no_answer', retryable: true }]);
  });
});
