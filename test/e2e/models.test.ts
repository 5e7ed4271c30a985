/** `GET /v1/models`: one backend's own answer untouched, several backends' answers as one list. */
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { Script } from '../../src/sim/fault-steps.ts';
import { hang } from '../../src/sim/fault-steps.ts';
import { wholeAnswer } from '../../src/sim/sse-script.ts';
import type { Proxy } from '../support/proxy.ts';
import { postBytes, requestBytes } from '../support/raw-http.ts';
import { createStage, type Stage, usersOf } from '../support/stage.ts';

let stage: Stage;
beforeEach(() => {
  stage = createStage();
});
afterEach(() => stage.close());

const plain = (): Script => [wholeAnswer(200, { ok: true })];

async function ask(proxy: Proxy, request: string | Uint8Array) {
  const client = await stage.client(proxy);
  client.send(request);
  const answer = await client.answer();
  client.leave();
  return answer;
}

function idsOf(body: Buffer): readonly string[] {
  return (JSON.parse(body.toString()) as { data: { id: string }[] }).data.map(({ id }) => id);
}

describe('with one backend', () => {
  it("the list is the backend's own answer, byte for byte, with its status and headers", async () => {
    const body = '{ "object":"list",\n"data":[{"id":"m","created":1.0}], "models":[{"name":"m"}] }\n';
    const backend = await stage.backend({
      onRequest: () => [wholeAnswer(200, body, { 'Content-Type': 'application/json; charset=utf-8', 'X-Mine': '1' })],
    });
    const proxy = await stage.proxy(backend);
    for (const path of ['/v1/models', '/models', '/v1/models?x=1']) {
      const answer = await ask(proxy, requestBytes(`GET ${path}`));
      expect(answer.body.toString()).toBe(body);
      expect(answer.headers['x-mine']).toBe('1');
    }
    expect(usersOf(backend).map(({ target }) => target)).toEqual(['/v1/models', '/models', '/v1/models?x=1']);
  });

  it("the backend's own refusal comes back", async () => {
    const backend = await stage.backend({ onRequest: () => [wholeAnswer(401, { error: 'Unauthorized' })] });
    expect(await ask(await stage.proxy(backend), requestBytes('GET /v1/models'))).toMatchObject({ status: 401 });
  });

  it('aliases are added to its list', async () => {
    const backend = await stage.backend({ probes: { engine: 'vllm', model: 'qwen' } });
    const proxy = await stage.proxy(backend, { change: { classify: { modelAliases: { 'gpt-4o': 'qwen' } } } });
    const answer = await ask(proxy, requestBytes('GET /v1/models'));
    expect(idsOf(answer.body)).toEqual(['qwen', 'gpt-4o']);
    const [model, alias] = (JSON.parse(answer.body.toString()) as { data: object[] }).data;
    expect(alias).toEqual({ ...model, id: 'gpt-4o' });
  });
});

describe('with several backends', () => {
  it('the list is that of all, each object once and as it was given, and it is recorded', async () => {
    const vllm = await stage.backend({ probes: { engine: 'vllm', model: 'qwen' } });
    const llama = await stage.backend({ probes: { engine: 'llama-server', model: 'smol' } });
    const twin = await stage.backend({ probes: { engine: 'openai', model: 'qwen' } });
    const proxy = await stage.proxy([vllm, llama, twin], {
      change: { classify: { modelAliases: { fast: 'smol', nobody: 'nothing' } } },
    });
    const answer = await ask(proxy, requestBytes('GET /v1/models'));
    expect(answer).toMatchObject({
      status: 200,
      headers: { 'content-type': 'application/json; charset=utf-8', 'content-length': String(answer.body.length) },
    });
    expect(idsOf(answer.body)).toEqual(['qwen', 'smol', 'fast']);
    expect(JSON.parse(answer.body.toString())).toMatchObject({
      object: 'list',
      data: [
        { owned_by: 'vllm', max_model_len: 4096 },
        { owned_by: 'llamacpp', meta: { n_ctx: 4096 } },
        { id: 'fast', meta: { n_ctx: 4096 } },
      ],
    });
    const [record] = await proxy.records(1);
    expect(record).toMatchObject({
      endpoint: 'models',
      outcome: 'ok',
      status: 200,
      spokenBy: 'warmlane',
      attempts: 0,
      responseBytes: answer.body.length,
    });
    expect(record?.requestId).toBe(answer.headers['x-request-id']);
    // All of them are probes' requests: no user's request reached a backend.
    expect([vllm, llama, twin].flatMap((each) => [...usersOf(each)])).toEqual([]);
  });

  it('HEAD has the same head', async () => {
    const proxy = await stage.proxy([await stage.backend(), await stage.backend({ probes: { model: 'n' } })]);
    const { body } = await ask(proxy, requestBytes('GET /v1/models'));
    const client = await stage.client(proxy);
    client.send(requestBytes('HEAD /v1/models'));
    await client.until(() => client.received.includes('\r\n\r\n'));
    expect(client.received.toString('latin1').toLowerCase()).toContain(`content-length: ${body.length}\r\n`);
    client.send(requestBytes('GET /livez'));
    await client.until(() => client.received.includes('{"status":"ok"}'));
    expect(client.received.toString()).not.toContain('"data"');
  });

  it('the credentials of the client are those that the backends see', async () => {
    const backends = [await stage.backend(), await stage.backend({ probes: { model: 'n' } })];
    const proxy = await stage.proxy(backends);
    await ask(proxy, requestBytes('GET /v1/models', { Authorization: 'Bearer user-7' }));
    for (const { probes } of backends) expect(probes.at(-1)?.header('authorization')).toBe('Bearer user-7');
  });

  it('one that is silent costs its time-out and keeps its models in the list; one that is gone leaves it', async () => {
    let silent = false;
    const slow = await stage.backend({
      probes: {
        model: 'slow',
        override: (request) => (silent && request.target === '/v1/models' ? [hang()] : undefined),
      },
    });
    const quick = await stage.backend({ probes: { model: 'quick' } });
    const gone = await stage.backend({ probes: { model: 'gone' } });
    const proxy = await stage.proxy([slow, quick, gone], { change: { fleet: { probeTimeoutMs: 200 } } });
    silent = true;
    await gone.close();
    const answer = await ask(proxy, requestBytes('GET /v1/models'));
    expect(
      idsOf(answer.body)
        .filter((id) => id !== 'gone')
        .toSorted(),
    ).toEqual(['quick', 'slow']);
    await ask(proxy, postBytes('/v1/chat/completions', { model: 'gone' }));
    expect(idsOf((await ask(proxy, requestBytes('GET /v1/models'))).body).toSorted()).toEqual(['quick', 'slow']);
  });

  it('a backend that refuses the key speaks itself when no list comes about', async () => {
    const refusing = {
      probes: { override: () => [wholeAnswer(401, { error: 'Unauthorized' })] },
      onRequest: (): Script => [wholeAnswer(401, { error: 'Unauthorized' })],
    };
    const proxy = await stage.proxy([await stage.backend(refusing), await stage.backend(refusing)]);
    expect(await ask(proxy, requestBytes('GET /v1/models'))).toMatchObject({ status: 401 });
  });

  it('one model is asked of a backend that serves it', async () => {
    const [a, b] = [
      await stage.backend({ onRequest: plain, probes: { model: 'org/a' } }),
      await stage.backend({ onRequest: plain, probes: { model: 'b' } }),
    ];
    const proxy = await stage.proxy([a, b]);
    for (let i = 0; i < 3; i += 1) await ask(proxy, requestBytes('GET /v1/models/org%2Fa'));
    expect([usersOf(a).length, usersOf(b).length]).toEqual([3, 0]);
  });
});
