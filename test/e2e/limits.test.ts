/** Limits of tenants over real sockets: what is refused, what every answer tells of them, and that each request is settled once. */
import Anthropic from '@anthropic-ai/sdk';
import OpenAI from 'openai';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { TenantLimits } from '../../src/access/settings.ts';
import { type Script, until } from '../../src/sim/fault-steps.ts';
import { DONE, FIN, ROLE, T, USE, wholeAnswer, wholeStream } from '../../src/sim/sse-script.ts';
import { accessOf, keyOf } from '../support/keys.ts';
import type { ConfigChange, Proxy } from '../support/proxy.ts';
import { chatBody, postBytes, type RawAnswer, requestBytes } from '../support/raw-http.ts';
import { createStage, eventually, type Stage, untilAsked, usersOf } from '../support/stage.ts';

let stage: Stage;
beforeEach(() => {
  stage = createStage();
});
afterEach(() => stage.close());

const usage = { prompt_tokens: 30, completion_tokens: 20, total_tokens: 50 };
const ok = { id: 'x', object: 'chat.completion', choices: [], usage };
const plain = (): Script => [wholeAnswer(200, ok)];

async function limited(limits: TenantLimits, onRequest: () => Script = plain, change: ConfigChange = {}) {
  const backend = await stage.backend({ onRequest });
  const proxy = await stage.proxy(backend, {
    change: { access: accessOf([{ name: 'a', limits }, { name: 'b' }]), ...change },
  });
  return { backend, proxy };
}

async function ask(proxy: Proxy, request: string | Uint8Array): Promise<RawAnswer> {
  const client = await stage.client(proxy);
  client.send(request);
  const answer = await client.answer();
  client.leave();
  return answer;
}

const bearer = (tenant: string) => ({ Authorization: `Bearer ${keyOf(tenant)}` });
const chat = (tenant: string, body: object = chatBody) => postBytes('/v1/chat/completions', body, bearer(tenant));

const limitHeaders = ({ headers }: RawAnswer) =>
  Object.fromEntries(Object.entries(headers).filter(([name]) => name.startsWith('x-ratelimit-')));

describe('a tenant with limits', () => {
  it('is told of them on every answer, streamed or not, its own or a refusal; others are not', async () => {
    const given = { 'x-ratelimit-limit-requests': '7', 'x-ratelimit-limit-project-tokens': '9' };
    const { proxy } = await limited({ requestsPerMinute: 600, tokensPerMinute: 10_000 }, () => [
      wholeAnswer(200, ok, given),
    ]);
    const body = { model: 'm', messages: [{ role: 'user', content: 'hi' }], max_tokens: 1000 };
    const first = await ask(proxy, chat('a', body));
    expect(limitHeaders(first)).toMatchObject({
      'x-ratelimit-limit-requests': '600',
      'x-ratelimit-remaining-requests': '599',
      'x-ratelimit-limit-tokens': '10000',
    });
    expect(first.headers['x-ratelimit-reset-requests']).toMatch(/^\d+ms$/);
    // The 1,000 that may come are charged at first.
    expect(Number(first.headers['x-ratelimit-remaining-tokens'])).toBeLessThan(9000);
    // What a backend says of its own limits is about warmlane's key there.
    expect(limitHeaders(first)).not.toHaveProperty('x-ratelimit-limit-project-tokens');
    await proxy.records(1);
    const second = await ask(proxy, requestBytes('GET /v1/models', bearer('a')));
    // 50 were counted in the end.
    expect(Number(second.headers['x-ratelimit-remaining-tokens'])).toBeGreaterThanOrEqual(9949);
    expect(second.headers['x-ratelimit-limit-requests']).toBe('600');
    expect(await ask(proxy, postBytes('/v1/load_lora_adapter', {}, bearer('a')))).toMatchObject({ status: 403 });
    expect(limitHeaders(await ask(proxy, chat('b')))).toEqual(given);
  });

  it('has them on streams, and on answers that are given again', async () => {
    const { proxy, backend } = await limited(
      { requestsPerMinute: 60, tokensPerMinute: 10_000 },
      () => [wholeStream(ROLE, T('hi'), FIN('stop'), USE(30, 20), DONE)],
      { answerCache: { enabled: true } },
    );
    const body = { model: 'm', messages: [{ role: 'user', content: 'hi' }], temperature: 0, stream: true };
    const first = await ask(proxy, chat('a', body));
    expect(first.headers['x-ratelimit-remaining-requests']).toBe('59');
    await proxy.records(1);
    const again = await ask(proxy, chat('a', body));
    expect(again.headers['x-warmlane-cache']).toContain('hit');
    expect(again.headers['x-ratelimit-remaining-requests']).toBe('58');
    expect(again.rawHead.match(/x-ratelimit-limit-requests/gi)).toHaveLength(1);
    await proxy.records(2);
    // Nobody computed anything for it.
    const third = await ask(proxy, requestBytes('GET /v1/models', bearer('a')));
    expect(Number(third.headers['x-ratelimit-remaining-tokens'])).toBeGreaterThanOrEqual(9949);
    // Another tenant's same request is not answered with it.
    const other = await ask(proxy, chat('b', body));
    expect(other.headers['x-warmlane-cache']).toBe('miss');
    expect(limitHeaders(other)).toEqual({});
    expect(usersOf(backend).filter(({ method }) => method === 'POST')).toHaveLength(2);
  });

  it('gets 429 past its requests a minute, with Retry-After, and the official clients raise what their users catch', async () => {
    const { proxy, backend } = await limited({ requestsPerMinute: 2 });
    await ask(proxy, chat('a'));
    await ask(proxy, chat('a'));
    const refused = await ask(proxy, chat('a'));
    expect(refused.status).toBe(429);
    expect(refused.headers).toMatchObject({ 'retry-after': '30', 'x-ratelimit-remaining-requests': '0' });
    expect(JSON.parse(refused.body.toString())).toMatchObject({
      error: { code: 'rate_limit_exceeded', type: 'requests', source: 'warmlane' },
    });
    const body = { model: 'm', messages: [{ role: 'user' as const, content: 'hi' }] };
    const openai = new OpenAI({ baseURL: `${proxy.url}/v1`, apiKey: keyOf('a'), maxRetries: 0 });
    await expect(openai.chat.completions.create(body)).rejects.toBeInstanceOf(OpenAI.RateLimitError);
    const anthropic = new Anthropic({ baseURL: proxy.url, apiKey: keyOf('a'), maxRetries: 0 });
    const error: unknown = await anthropic.messages
      .create({ ...body, max_tokens: 5 })
      .catch((thrown: unknown) => thrown);
    expect(error).toBeInstanceOf(Anthropic.RateLimitError);
    expect(String(error)).toContain('rate_limit_error');
    expect(usersOf(backend)).toHaveLength(2);
    expect(await ask(proxy, chat('b'))).toMatchObject({ status: 200 });
    const records = await proxy.records(6);
    expect(records[2]).toMatchObject({ tenant: 'a', outcome: 'rejected', status: 429, reason: 'limit_requests' });
    const metrics = await (await fetch(`${proxy.adminUrl}/metrics`)).text();
    expect(metrics).toMatch(/warmlane_tenant_refused_total\{tenant="a",reason="limit_requests"\} 3/);
    expect(metrics).toMatch(/warmlane_tenant_requests_total\{tenant="a",lane="online",outcome="ok"\} 2/);
    expect(metrics).toMatch(/warmlane_tenant_input_tokens_total\{tenant="a",lane="online"\} 60/);
  });

  it('holds its places while requests run or wait, and gives them back however they end', async () => {
    let release = (): void => {};
    const gate = new Promise<void>((resolve) => (release = resolve));
    const backend = await stage.backend({ onRequest: () => [until(gate), wholeAnswer(200, ok)] });
    const access = accessOf([{ name: 'a', limits: { concurrent: 2 } }]);
    const proxy = await stage.proxy(backend, { places: 1, change: { access } });
    const runs = await stage.client(proxy);
    runs.send(chat('a'));
    await untilAsked(backend, 1);
    const waits = await stage.client(proxy);
    waits.send(chat('a'));
    const phases = async () => {
      const { running } = (await (await fetch(`${proxy.adminUrl}/running`)).json()) as { running: { phase: string }[] };
      return running.map(({ phase }) => phase);
    };
    await eventually(async () => (await phases()).includes('queued'), 'one waits');
    const refused = await ask(proxy, chat('a'));
    expect([refused.status, refused.headers['retry-after']]).toEqual([429, '1']);
    // It leaves while it waits: its place is another's.
    waits.leave();
    await eventually(async () => !(await phases()).includes('queued'), 'nobody waits');
    const next = await stage.client(proxy);
    next.send(chat('a'));
    await eventually(async () => (await phases()).includes('queued'), 'one waits again');
    release();
    expect(await runs.answer()).toMatchObject({ status: 200 });
    expect(await next.answer()).toMatchObject({ status: 200 });
    await proxy.records(4);
    expect(await ask(proxy, chat('a'))).toMatchObject({ status: 200 });
  });

  it('gives tokens back that no engine worked for', async () => {
    const { proxy } = await limited({ tokensPerMinute: 1000 }, () => [wholeAnswer(500, { error: 'no' })]);
    const body = { model: 'm', messages: [], max_tokens: 900 };
    for (let round = 0; round < 4; round += 1) {
      expect(await ask(proxy, chat('a', body))).toMatchObject({ status: 500 });
      await proxy.records(round + 1);
    }
  });
});

describe('the lane of a key', () => {
  it('is the highest that its requests get, whatever their header says', async () => {
    const backend = await stage.backend({ onRequest: plain });
    const access = accessOf([{ name: 'night', lane: 'batch' }, { name: 'day' }]);
    const proxy = await stage.proxy(backend, { change: { access } });
    const send = (tenant: string, headers: Record<string, string>, body: object = chatBody) =>
      ask(proxy, postBytes('/v1/chat/completions', body, { ...bearer(tenant), ...headers }));
    await send('night', { 'X-Warmlane-Lane': 'online' });
    await send('day', { 'X-Warmlane-Lane': 'batch' });
    await send('day', {}, { ...chatBody, service_tier: 'flex' });
    await send('day', { 'X-Warmlane-Lane': 'online' });
    const records = await proxy.records(4);
    expect(records.map(({ tenant, lane }) => `${tenant} ${lane}`)).toEqual([
      'night batch',
      'day batch',
      'day batch',
      'day online',
    ]);
  });
});
