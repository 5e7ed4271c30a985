/** Browsers: cross-origin headers have one owner, the backend while CORS is off, warmlane when it is on. */
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { Script } from '../../src/sim/fault-steps.ts';
import { chunk, DONE, FIN, lastChunk, ROLE, sseHead, wholeAnswer } from '../../src/sim/sse-script.ts';
import type { Proxy } from '../support/proxy.ts';
import { postBytes, R0, requestBytes } from '../support/raw-http.ts';
import { createStage, type Stage, usersOf } from '../support/stage.ts';

let stage: Stage;
beforeEach(() => {
  stage = createStage();
});
afterEach(() => stage.close());

const app = 'http://app.test';
const onFor = (...origins: string[]) => ({ change: { http: { cors: { origins } } } });
/** As llama-server answers. */
const llama = {
  'Access-Control-Allow-Origin': '',
  'Access-Control-Allow-Credentials': 'true',
  'Access-Control-Expose-Headers': 'X-Theirs',
};
const preflight = requestBytes('OPTIONS /v1/chat/completions', {
  Origin: app,
  'Access-Control-Request-Method': 'POST',
  'Access-Control-Request-Headers': 'authorization, x-stainless-os, content-type',
});

async function ask(proxy: Proxy, request: string | Uint8Array) {
  const client = await stage.client(proxy);
  client.send(request);
  const answer = await client.answer();
  client.leave();
  const cross = answer.rawHead.split('\r\n').filter((line) => /^access-control-/i.test(line));
  return { ...answer, cross, allowed: cross.filter((line) => /^access-control-allow-origin:/i.test(line)) };
}

describe('with CORS off', () => {
  it("C098 the backend's headers pass as they are: its one, even if it is empty", async () => {
    const backend = await stage.backend({ onRequest: () => [wholeAnswer(200, {}, llama)] });
    const proxy = await stage.proxy(backend);
    for (const headers of [{}, { Origin: app }]) {
      const { cross } = await ask(proxy, postBytes('/v1/chat/completions', {}, headers));
      expect(cross.map((line) => line.trim())).toEqual([
        'Access-Control-Allow-Origin:',
        'Access-Control-Allow-Credentials: true',
        'Access-Control-Expose-Headers: X-Theirs',
      ]);
    }
    expect(usersOf(backend)[1]?.header('origin')).toBe(app);
  });

  it('C098 none is added where the backend has none, and to no refusal of warmlane itself', async () => {
    const backend = await stage.backend({ onRequest: () => [wholeAnswer(200, {})] });
    const proxy = await stage.proxy(backend);
    expect((await ask(proxy, postBytes('/v1/chat/completions', {}, { Origin: app }))).cross).toEqual([]);
    expect((await ask(proxy, requestBytes('POST /sleep', { Origin: app }))).cross).toEqual([]);
    expect((await ask(proxy, requestBytes('GET /health', { Origin: app }))).cross).toEqual([]);
  });

  it('C099 a preflight passes through, and its answer, too', async () => {
    const backend = await stage.backend({
      onRequest: () => [wholeAnswer(400, 'Disallowed CORS origin', { 'Content-Type': 'text/plain' })],
    });
    const proxy = await stage.proxy(backend);
    const answer = await ask(proxy, preflight);
    expect(answer).toMatchObject({ status: 400, cross: [] });
    expect(answer.body.toString()).toBe('Disallowed CORS origin');
    const [asked] = usersOf(backend);
    expect(asked?.header('access-control-request-headers')).toBe('authorization, x-stainless-os, content-type');
    expect(await proxy.records(1)).toHaveLength(1);
  });
});

describe('with CORS on', () => {
  it('C098 an allowed origin is named once, and nothing of what the backend says stays', async () => {
    const backend = await stage.backend({
      onRequest: () => [wholeAnswer(200, {}, { ...llama, Vary: 'Accept-Encoding' })],
    });
    const answer = await ask(
      await stage.proxy(backend, onFor(app)),
      postBytes('/v1/chat/completions', {}, { Origin: app }),
    );
    expect(answer.cross).toEqual([`Access-Control-Allow-Origin: ${app}`, 'Access-Control-Expose-Headers: *']);
    expect(answer.headers['vary']).toBe('Accept-Encoding, Origin');
  });

  it('C098 no origin is named to a request that has none or another one', async () => {
    const backend = await stage.backend({ onRequest: () => [wholeAnswer(200, {}, llama)] });
    const proxy = await stage.proxy(backend, onFor(app));
    for (const headers of [{}, { Origin: 'http://evil.test' }, { Origin: 'null' }]) {
      const answer = await ask(proxy, postBytes('/v1/chat/completions', {}, headers));
      expect(answer).toMatchObject({ status: 200, cross: [] });
    }
  });

  it('C098 a stream has them, too, and is the same', async () => {
    const backend = await stage.backend({
      onRequest: () => [sseHead(llama), chunk(ROLE, FIN('stop'), DONE), lastChunk],
    });
    const answer = await ask(
      await stage.proxy(backend, onFor('*')),
      R0.replace('Host: test\r\n', `Host: test\r\nOrigin: ${app}\r\n`),
    );
    expect(answer.allowed).toEqual(['Access-Control-Allow-Origin: *']);
    expect(answer.headers['vary']).toBeUndefined();
    expect(answer.body.toString()).toBe(ROLE + FIN('stop') + DONE);
  });

  it('C098 refusals and health answers can be read by the page as well', async () => {
    const proxy = await stage.proxy(await stage.backend(), onFor(app));
    for (const line of ['POST /sleep', 'GET /health', 'GET /readyz']) {
      const { allowed, headers } = await ask(proxy, requestBytes(line, { Origin: app }));
      expect([line, allowed.length, headers['access-control-allow-origin']]).toEqual([line, 1, app]);
    }
  });

  it('C099 a preflight is answered at once with what it asked for, is not passed on, and is no request', async () => {
    const backend = await stage.backend({ onRequest: (): Script => [wholeAnswer(200, {})] });
    const proxy = await stage.proxy(backend, onFor(app));
    const answer = await ask(proxy, preflight);
    expect(answer).toMatchObject({ status: 204, complete: true });
    expect(answer.headers).toMatchObject({
      'access-control-allow-origin': app,
      'access-control-allow-methods': 'POST',
      'access-control-allow-headers': 'authorization, x-stainless-os, content-type',
      'access-control-max-age': '7200',
    });
    expect(answer.allowed).toHaveLength(1);
    expect(answer.headers).not.toHaveProperty('content-length');
    await ask(proxy, postBytes('/v1/chat/completions', {}, { Origin: app }));
    expect((await proxy.records(1)).map(({ method }) => method)).toEqual(['POST']);
    expect(usersOf(backend).map(({ method }) => method)).toEqual(['POST']);
  });

  it('C099 a preflight from elsewhere is granted nothing and passed on to nobody', async () => {
    const backend = await stage.backend();
    const proxy = await stage.proxy(backend, onFor('https://other.test'));
    expect(await ask(proxy, preflight)).toMatchObject({ status: 204, cross: [] });
    expect(usersOf(backend)).toEqual([]);
  });

  it('C099 a plain OPTIONS is no preflight, and the connection goes on after one', async () => {
    const backend = await stage.backend({ onRequest: (): Script => [wholeAnswer(200, { ok: true })] });
    const proxy = await stage.proxy(backend, onFor(app));
    const client = await stage.client(proxy);
    client.send(Buffer.concat([preflight, requestBytes('OPTIONS /v1/chat/completions')]));
    await client.until(() => client.received.includes('{"ok":true}'));
    expect(usersOf(backend).map(({ method }) => method)).toEqual(['OPTIONS']);
  });
});
