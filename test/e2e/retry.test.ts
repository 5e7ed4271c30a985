/** When a request is sent again, and when never: stale connections, refused ones, crashes, and answers that blame the request. */
import { afterEach, beforeEach, describe, expect, it } from 'vitest';

import { fin, hang, pause, reset, send } from '../../src/sim/fault-steps.ts';

import {
  chunk,
  DONE,
  FIN,
  responseHead,
  ROLE,
  sseHead,
  T,
  wholeAnswer,
  wholeStream,
} from '../../src/sim/sse-script.ts';
import { pass } from '../support/exchange.ts';

import { chatBody, postBytes } from '../support/raw-http.ts';
import { severalBackends } from '../support/several-backends.ts';
import { createStage, eventually, type Stage } from '../support/stage.ts';

let stage: Stage;
beforeEach(() => {
  stage = createStage();
});
afterEach(() => stage.close());

const short = postBytes('/v1/chat/completions', { ...chatBody, stream: false });
const events = [ROLE, T('a'), FIN('stop'), DONE];
const json = { choices: [{ index: 0, message: { content: 'a' }, finish_reason: 'stop' }] };

describe('a backend that crashes on a request', () => {
  it('C071 has seen it once: 502, and nobody else is asked by default', async () => {
    const fleet = await severalBackends(stage, { count: 2 }, () => [pause(300), reset()]);
    const { answer, record } = await fleet.send();
    expect(answer.status).toBe(502);
    expect(JSON.parse(answer.body.toString())).toMatchObject({
      error: { code: 'backend_closed_early', source: 'backend' },
    });
    expect(fleet.asked).toHaveLength(1);
    expect(record).toMatchObject({ outcome: 'upstream_error', attempts: 1, phase: 'waiting_head' });
  });

  it('C071 on a fresh connection is a crash even at once', async () => {
    const fleet = await severalBackends(stage, { count: 2 }, () => [fin()]);
    const { answer } = await fleet.send();
    expect(answer.status).toBe(502);
    expect(fleet.asked).toHaveLength(1);
  });

  it('C071 is followed by another with `retry.afterCrash`, which answers', async () => {
    const fleet = await severalBackends(stage, { count: 2, change: { relay: { retryAfterCrash: true } } }, (nth) =>
      nth === 1 ? [pause(50), reset()] : [wholeStream(...events)],
    );
    const { answer, record } = await fleet.send();
    expect(answer).toMatchObject({ status: 200, complete: true });
    expect(answer.body.toString()).toBe(events.join(''));
    expect(new Set(fleet.asked)).toEqual(new Set([0, 1]));
    expect(record).toMatchObject({ outcome: 'ok', attempts: 2 });
  });

  it('decision 11: is followed by one other at most: what broke two is refused, by name, to the third', async () => {
    const fleet = await severalBackends(stage, { count: 3, change: { relay: { retryAfterCrash: true } } }, () => [
      pause(30),
      reset(),
    ]);
    const { answer, record } = await fleet.send();
    expect(answer.status).toBe(502);
    expect(JSON.parse(answer.body.toString())).toMatchObject({ error: { code: 'prompt_killed_engine' } });
    expect(fleet.asked).toHaveLength(2);
    expect(record).toMatchObject({ outcome: 'upstream_error', attempts: 2, reason: 'prompt_killed_engine' });
  });

  it('C072 after a first token is not replaced: "one" stands there once, and no byte of another', async () => {
    const fleet = await severalBackends(stage, { count: 2, change: { relay: { retryAfterCrash: true } } }, (nth) =>
      nth === 1
        ? [send(sseHead()), send(chunk(ROLE)), send(chunk(T('one'))), pause(50), reset()]
        : [wholeStream(...events)],
    );
    const { answer, record } = await fleet.send();
    expect(fleet.asked).toHaveLength(1);
    expect(answer.complete).toBe(false);
    const text = answer.body.toString();
    expect(text.startsWith(ROLE + T('one'))).toBe(true);
    expect(text.split('"one"')).toHaveLength(2);
    expect(text).not.toContain(T('a'));
    expect(record).toMatchObject({ outcome: 'upstream_truncated', attempts: 1, tokens: { output: { value: 1 } } });
  });

  it('C072 after a head of which the client has nothing yet may be, where that is wanted', async () => {
    const fleet = await severalBackends(
      stage,
      { count: 2, engine: 'vllm', change: { relay: { retryAfterCrash: true, headHoldMs: 5000 } } },
      (nth) => (nth === 1 ? [send(sseHead()), pause(50), reset()] : [wholeStream(...events)]),
    );
    const { answer, record } = await fleet.send();
    expect(answer.body.toString()).toBe(events.join(''));
    expect(record).toMatchObject({ outcome: 'ok', attempts: 2 });
  });

  it('decision 11: a deadline that is over is no reason to ask another', async () => {
    const fleet = await severalBackends(
      stage,
      { count: 2, change: { relay: { deadlines: { headMs: 300, perBodyKibMs: 0 } } } },
      () => [hang()],
    );
    const { answer } = await fleet.send();
    expect(answer.status).toBe(504);
    expect(fleet.asked).toHaveLength(1);
  });
});

describe('a backend that can’t be reached', () => {
  it('C071 has seen nothing, so another is asked', async () => {
    const change = { route: { policy: 'round-robin' } } as const;
    const fleet = await severalBackends(stage, { count: 2, change }, () => [wholeAnswer(200, json)]);
    await fleet.send(short);
    const [used = 0] = fleet.asked;
    const unused = 1 - used;
    await fleet.backends[unused]?.refuse();
    for (const connection of fleet.backends[unused]?.connections ?? []) connection.socket.destroy();
    const { answer, record } = await fleet.send(short);
    expect(answer.status).toBe(200);
    expect(fleet.asked).toEqual([used, used]);
    expect(record).toMatchObject({ outcome: 'ok', attempts: 2 });
    await eventually(
      () => fleet.proxy.app.fleet.snapshot().backends[unused]?.health === 'down',
      'the refused one is down',
    );
  });

  it('C071 nor any of the others: 502 with Retry-After, which names the cause', async () => {
    const fleet = await severalBackends(stage, { count: 2 }, () => [wholeAnswer(200, json)]);
    for (const backend of fleet.backends) {
      await backend.refuse();
      for (const connection of backend.connections) connection.socket.destroy();
    }
    const { answer, record } = await fleet.send(short);
    expect(answer.status).toBe(502);
    expect(answer.headers['retry-after']).toMatch(/^\d+$/);
    expect(JSON.parse(answer.body.toString())).toMatchObject({
      error: {
        code: 'backend_unreachable',
        source: 'backend',
        message: expect.stringMatching(/127\.0\.0\.1:\d+/) as string,
      },
    });
    expect(record).toMatchObject({ outcome: 'upstream_error', attempts: 2, phase: 'connecting' });
  });
});

describe('an answer that blames the request', () => {
  it.each([
    [
      'R24',
      500,
      'llama-server',
      { error: { code: 500, message: '[json.exception.parse_error.101] parse error', type: 'server_error' } },
    ],
    ['R24', 400, 'llama-server', { error: { code: 400, message: 'bad', type: 'invalid_request_error' } }],
    ['C062', 400, 'vllm', { error: { message: 'too long', code: 400 } }],
  ] as const)(
    '%s %i of %s is passed on, not sent elsewhere, and says nothing of the backend’s health',
    async (_, status, engine, body) => {
      const fleet = await severalBackends(stage, { count: 2, engine }, (nth) => [
        nth <= 20 ? wholeAnswer(status, body) : wholeStream(...events),
      ]);
      for (let i = 0; i < 20; i += 1) {
        const { answer, record } = await fleet.send();
        expect(answer.status).toBe(status);
        expect(answer.body.toString()).toBe(JSON.stringify(body));
        expect(record).toMatchObject({ attempts: 1, status });
      }
      expect(fleet.proxy.app.fleet.snapshot().backends.map(({ health }) => health)).toEqual(['up', 'up']);
      const { answer } = await fleet.send();
      expect(answer.status).toBe(200);
      expect(fleet.asked).toHaveLength(21);
    },
  );

  it('C059 503 passes with its own words where the other is known to be down', async () => {
    let busy = false;
    const fleet = await severalBackends(stage, { count: 2 }, () => [
      busy ? wholeAnswer(503, { error: { message: 'busy' } }, { 'Retry-After': '17' }) : wholeAnswer(200, json),
    ]);
    const [, other] = fleet.backends;
    await other?.refuse();
    for (const connection of other?.connections ?? []) connection.socket.destroy();
    for (let i = 0; i < 2; i += 1) await fleet.send(short);
    const healths = () => fleet.proxy.app.fleet.snapshot().backends.map(({ health }) => health);
    await eventually(() => healths()[1] === 'down', 'the other is down');
    busy = true;
    const { answer, record } = await fleet.send(short);
    expect(answer.status).toBe(503);
    expect(answer.headers['retry-after']).toBe('17');
    expect(JSON.parse(answer.body.toString())).toEqual({ error: { message: 'busy' } });
    expect(record).toMatchObject({ outcome: 'rejected', attempts: 1 });
  });

  it('C059 503 is asked of the other; if that says so too, its own words pass', async () => {
    const busy = (nth: number) =>
      wholeAnswer(503, { error: { message: `busy ${nth}` } }, { 'Retry-After': String(10 + nth) });
    const both = await severalBackends(stage, { count: 2 }, (nth) => [busy(nth)]);
    const { answer, record } = await both.send();
    expect(answer.status).toBe(503);
    expect(answer.headers['retry-after']).toBe('12');
    expect(answer.body.toString()).toContain('busy 2');
    expect(record).toMatchObject({ outcome: 'rejected', attempts: 2 });
    const one = await severalBackends(stage, { count: 2 }, (nth) =>
      nth === 1 ? [busy(nth)] : [wholeStream(...events)],
    );
    expect((await one.send()).answer.body.toString()).toBe(events.join(''));
  });
});

describe('R23 answers that are written otherwise', () => {
  it.each([
    ['blanks after colons and commas', 400, '/v1/chat/completions', '{"error": {"message": "bad" , "code": 400}}'],
    [
      'OpenAI’s shape on Anthropic’s route',
      400,
      '/v1/messages',
      '{"error":{"message":"bad","type":"BadRequestError","param":null,"code":400}}',
    ],
    ['a string for an error', 401, '/v1/chat/completions', '{"error":"Unauthorized"}'],
    ['FastAPI’s own', 404, '/v1/nowhere', '{"detail":"Not Found"}'],
    ['no JSON at all', 404, '/v1/chat/completions', 'nope'],
  ])('R23 %s pass unchanged', async (_, status, path, body) => {
    const { answer, record } = await pass(
      stage,
      () => [wholeAnswer(status, body, { 'Content-Type': 'application/json' })],
      { engine: 'vllm', request: postBytes(path, chatBody) },
    );
    expect(answer).toMatchObject({ status, complete: true });
    expect(answer.body.toString()).toBe(body);
    expect(record).toMatchObject({ outcome: 'client_error', status, spokenBy: 'backend' });
  });

  it('R24 415 without a body passes', async () => {
    const { answer, record } = await pass(stage, () => [send(responseHead(415, { 'Content-Length': '0' }))], {
      engine: 'llama-server',
    });
    expect(answer).toMatchObject({ status: 415, complete: true });
    expect(answer.body).toHaveLength(0);
    expect(record).toMatchObject({ outcome: 'client_error', status: 415 });
  });
});
