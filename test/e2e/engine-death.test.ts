/** Engines that die, drain or fail in the middle of a stream, as vLLM and llama-server really do it. */
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { fin, hang, repeat, reset, type Script } from '../../src/sim/fault-steps.ts';
import type { ScriptedServer } from '../../src/sim/faults.ts';
import {
  chunk,
  DONE,
  FIN,
  lastChunk,
  responseHead,
  ROLE,
  sseHead,
  T,
  wholeAnswer,
  wholeStream,
} from '../../src/sim/sse-script.ts';
import { playRecorded } from '../support/play.ts';
import type { Proxy } from '../support/proxy.ts';
import { R0, R1, type RawAnswer } from '../support/raw-http.ts';
import { loadRecorded } from '../support/recorded.ts';
import { createStage, eventually, type Stage, untilAsked, untilIdle, usersOf } from '../support/stage.ts';

let stage: Stage;
beforeEach(() => {
  stage = createStage();
});
afterEach(() => stage.close());

const quick = {
  fleet: { probeIntervalMs: 1000, probeDownIntervalMs: 200, probeTimeoutMs: 500 },
  relay: { deadlines: { refusedStallMs: 500 } },
};

function healthOf(proxy: Proxy, backend: ScriptedServer) {
  return proxy.app.fleet.snapshot().backends.find(({ url }) => url === backend.url);
}

async function ask(proxy: Proxy, request = R0): Promise<RawAnswer> {
  const client = await stage.client(proxy);
  client.send(request);
  return client.answer(15_000);
}

describe('a vLLM that got SIGTERM', () => {
  it('R04 falls silent, its port refuses: the stream ends soon, uncleanly, with an error event; its place is free', async () => {
    const recorded = loadRecorded('vllm', 'sigterm-mid-stream');
    const backend = await stage.backend({
      probes: { engine: 'vllm', model: 'smollm2' },
      *onRequest() {
        yield* playRecorded(recorded);
        yield hang();
      },
    });
    const proxy = await stage.proxy(backend, { places: 1, change: quick });
    const client = await stage.client(proxy);
    client.send(R0);
    await client.until(() => client.received.includes('" tail"'));
    const silentMs = performance.now();
    await backend.refuse();
    const answer = await client.answer(15_000);
    const elapsedMs = performance.now() - silentMs;
    // A look at the port and the short limit after it; far from the usual two minutes.
    expect(elapsedMs).toBeGreaterThan(450);
    expect(elapsedMs).toBeLessThan(6000);
    expect(answer.complete).toBe(false);
    const body = answer.body.toString();
    expect(body.startsWith(recorded.body.toString())).toBe(true);
    expect(body.slice(recorded.body.length)).toMatch(
      /^data: \{"error":\{[^\n]*"code":"backend_lost"[^\n]*"source":"backend"\}\}\n\n$/,
    );
    const [record] = await proxy.records(1);
    expect(record).toMatchObject({
      outcome: 'upstream_error',
      reason: 'backend_lost',
      phase: 'streaming',
      finishReasons: [],
    });
    expect(record?.events).toBeGreaterThan(25);
    expect(healthOf(proxy, backend)).toMatchObject({ health: 'down', healthReason: 'refused' });
    await eventually(
      () => backend.connections.every(({ requests, open }) => requests[0]?.method !== 'POST' || !open),
      'its socket is closed',
    );
    await untilIdle(proxy);
  });

  it('R04 whose tokens still come is left alone, though its port refuses', async () => {
    const backend = await stage.backend({
      probes: { engine: 'vllm' },
      *onRequest() {
        yield sseHead();
        yield chunk(ROLE);
        for (let i = 0; i < 30; i += 1) {
          yield chunk(T(`t${i}`));
          yield 100;
        }
        yield chunk(FIN('stop'), DONE);
        yield lastChunk;
      },
    });
    const proxy = await stage.proxy(backend, { change: quick });
    const client = await stage.client(proxy);
    client.send(R1);
    await client.until(() => client.received.includes('"t1"'));
    await backend.refuse();
    await eventually(async () => (await fetch(`${proxy.url}/readyz`)).status === 503, 'its port is seen to refuse');
    expect(client.ended).toBe('no');
    const answer = await client.answer();
    expect(answer.complete).toBe(true);
    expect((await proxy.records(1))[0]).toMatchObject({ outcome: 'ok', events: 30 });
  });

  it('R05 that drains says so with a 500: the request goes elsewhere, running streams are left alone, no new work comes', async () => {
    const draining = {
      object: 'error',
      message: 'cannot schedule new futures after shutdown',
      type: 'InternalServerError',
      code: 500,
    };
    const recorded = loadRecorded('vllm', 'sigterm-with-shutdown-timeout');
    let drains = false;
    const old = await stage.backend({
      probes: { engine: 'vllm' },
      onRequest: (): Script => (drains ? [wholeAnswer(500, { error: draining })] : playRecorded(recorded, 40)),
    });
    const other = await stage.backend({
      probes: { engine: 'vllm' },
      onRequest: () => [wholeStream(ROLE, T('elsewhere'), FIN('stop'), DONE)],
    });
    const alone = await stage.proxy(old);
    const runs = await stage.client(alone);
    runs.send(R1);
    await untilAsked(old, 1);
    drains = true;
    // In turn, so that the draining one is met whatever the prompt.
    const proxy = await stage.proxy([old, other], { change: { route: { policy: 'round-robin' } } });
    for (let i = 0; i < 4; i += 1) {
      const answer = await ask(proxy);
      expect(answer.status).toBe(200);
      expect(answer.body.toString()).toContain('elsewhere');
    }
    const records = await proxy.records(4);
    expect(records.map(({ outcome }) => outcome)).toEqual(['ok', 'ok', 'ok', 'ok']);
    // One of them found out; none after it was sent there.
    expect(records.reduce((sum, { attempts }) => sum + attempts, 0)).toBe(5);
    expect(usersOf(old)).toHaveLength(2);
    expect(healthOf(proxy, old)).toMatchObject({ health: 'draining' });
    const answer = await runs.answer(15_000);
    expect(answer.complete).toBe(true);
    expect(answer.body.equals(recorded.body)).toBe(true);
    expect((await alone.records(1))[0]).toMatchObject({ outcome: 'ok', tokens: { output: { value: 60 } } });
  });

  it('R05 that drains and is the only one: its 500 passes as it is', async () => {
    const body = JSON.stringify({
      error: { message: 'cannot schedule new futures after shutdown', type: 'InternalServerError', code: 500 },
    });
    const backend = await stage.backend({
      probes: { engine: 'vllm' },
      onRequest: () => [wholeAnswer(500, body, { 'Content-Type': 'application/json' })],
    });
    const proxy = await stage.proxy(backend);
    const answer = await ask(proxy);
    expect(answer.status).toBe(500);
    expect(answer.body.toString()).toBe(body);
    expect((await proxy.records(1))[0]).toMatchObject({ outcome: 'upstream_error', attempts: 1 });
    expect(healthOf(proxy, backend)).toMatchObject({ health: 'draining' });
  });

  it('R06 whose engine died says so, then ends as if all were well: an error all the same, exact bytes, down at once', async () => {
    const recorded = loadRecorded('vllm', 'engine-died-mid-stream');
    const backend = await stage.backend({
      probes: { engine: 'vllm', model: 'smollm2' },
      onRequest: () => playRecorded(recorded),
    });
    const proxy = await stage.proxy(backend, { places: 1 });
    const client = await stage.client(proxy);
    client.send(R0);
    await client.until(() => client.received.includes('EngineCore encountered an issue'));
    await eventually(() => healthOf(proxy, backend)?.health === 'down', 'it is down at once', 500);
    const answer = await client.answer();
    expect(answer.complete).toBe(true);
    expect(answer.body.equals(recorded.body)).toBe(true);
    const [record] = await proxy.records(1);
    expect(record).toMatchObject({
      outcome: 'upstream_error',
      reason: 'error_event',
      status: 200,
      finishReasons: [],
      spokenBy: 'backend',
    });
    expect(record?.events).toBeGreaterThan(15);
    expect(healthOf(proxy, backend)).toMatchObject({ health: 'down', healthReason: 'engine_dead' });
  });
});

describe('a llama-server that got SIGTERM', () => {
  it('R07 cuts its streams after a while: no finish is made up, and a ping was no content', async () => {
    const recorded = loadRecorded('llama-server', 'chat-sigterm');
    const backend = await stage.backend({
      probes: { engine: 'llama-server', model: 'smollm2' },
      *onRequest() {
        yield* playRecorded(recorded, 2);
        yield fin();
      },
    });
    const proxy = await stage.proxy(backend);
    const answer = await ask(proxy);
    expect(answer.complete).toBe(false);
    const body = answer.body.toString();
    expect(body.startsWith(recorded.body.toString())).toBe(true);
    expect(body.slice(recorded.body.length)).toMatch(
      /^data: \{"error":\{[^\n]*"code":"backend_closed_early"[^\n]*\}\}\n\n$/,
    );
    const [record] = await proxy.records(1);
    expect(record).toMatchObject({ outcome: 'upstream_truncated', status: 200, phase: 'streaming', finishReasons: [] });
    await untilIdle(proxy);
  });

  it('R07 is silent but for pings while its port refuses: the short limit holds, pings or not', async () => {
    const backend = await stage.backend({
      probes: { engine: 'llama-server' },
      *onRequest() {
        yield sseHead({ Server: 'llama.cpp' });
        yield chunk(ROLE, T('a'));
        yield 300;
        yield chunk(':\n\n');
        yield 1300;
        yield repeat(chunk(':\n\n'), 1200);
      },
    });
    const proxy = await stage.proxy(backend, { change: quick });
    const client = await stage.client(proxy);
    client.send(R0);
    await client.until(() => client.received.includes('"a"'));
    await backend.refuse();
    const answer = await client.answer(15_000);
    expect(performance.now() - client.sentMs).toBeLessThan(8000);
    expect(answer.complete).toBe(false);
    expect(answer.body.toString()).toContain('"code":"backend_lost"');
    expect((await proxy.records(1))[0]).toMatchObject({ outcome: 'upstream_error', reason: 'backend_lost' });
    await untilIdle(proxy);
  });

  it('R08 fails inside a stream with an error event and nothing after it: an error, the tokens so far kept, exact bytes', async () => {
    const recorded = loadRecorded('llama-server', 'error-in-stream');
    const backend = await stage.backend({
      probes: { engine: 'llama-server', model: 'smollm2' },
      onRequest: () => playRecorded(recorded, 1),
    });
    const proxy = await stage.proxy(backend);
    const answer = await ask(proxy);
    expect(answer.complete).toBe(true);
    expect(answer.body.equals(recorded.body)).toBe(true);
    const [record] = await proxy.records(1);
    expect(record).toMatchObject({ outcome: 'upstream_error', reason: 'error_event', finishReasons: [] });
    const events = recorded.body.toString().match(/"content":"/g)?.length;
    expect(record?.events).toBe(events);
    expect(record?.tokens.output).toEqual({ value: events, source: 'events_estimate' });
    expect(healthOf(proxy, backend)).toMatchObject({ health: 'up' });
  });
});

describe('a backend that breaks off', () => {
  it('in the middle of an event: the half stays as it is, no error event is written behind it, the end is unclean', async () => {
    const half = T('never whole').slice(0, 60);
    const backend = await stage.backend({
      *onRequest() {
        yield sseHead();
        yield chunk(ROLE, T('a'));
        yield chunk(half);
        yield 50;
        yield reset();
      },
    });
    const proxy = await stage.proxy(backend);
    const answer = await ask(proxy);
    expect(answer.complete).toBe(false);
    expect(answer.body.toString()).toBe(ROLE + T('a') + half);
    expect((await proxy.records(1))[0]).toMatchObject({ outcome: 'upstream_truncated', phase: 'streaming' });
  });

  it('while the client knows no chunks: its connection is reset, since a plain end would look complete', async () => {
    const backend = await stage.backend({
      *onRequest() {
        yield sseHead();
        yield chunk(ROLE, T('a'));
        yield 50;
        yield reset();
      },
    });
    const proxy = await stage.proxy(backend);
    const client = await stage.client(proxy);
    client.send(R0.replace('HTTP/1.1', 'HTTP/1.0'));
    await client.until(() => client.ended !== 'no');
    expect(client.ended).toBe('reset');
    const text = client.received.toString();
    expect(text).toContain(ROLE + T('a'));
    expect(text).toMatch(/data: \{"error":\{[^\n]*\}\}\n\n$/);
    expect((await proxy.records(1))[0]).toMatchObject({ outcome: 'upstream_truncated' });
  });

  it('before any byte, on a fresh connection: 502 at once, not sent twice', async () => {
    const backends = await Promise.all([1, 2].map(() => stage.backend({ onRequest: () => [reset()] })));
    const proxy = await stage.proxy(backends);
    const answer = await ask(proxy);
    expect(answer.status).toBe(502);
    expect(JSON.parse(answer.body.toString())).toMatchObject({
      error: { code: 'backend_closed_early', source: 'backend' },
    });
    expect(backends.reduce((sum, backend) => sum + usersOf(backend).length, 0)).toBe(1);
  });

  it('while the client was promised a length: cut short of it, nothing added', async () => {
    const backend = await stage.backend({
      *onRequest() {
        yield responseHead(200, { 'Content-Type': 'text/event-stream', 'Content-Length': '5000' });
        yield ROLE + T('a');
        yield 50;
        yield fin();
      },
    });
    const proxy = await stage.proxy(backend);
    const answer = await ask(proxy);
    expect(answer.complete).toBe(false);
    expect(answer.body.toString()).toBe(ROLE + T('a'));
    expect((await proxy.records(1))[0]).toMatchObject({ outcome: 'upstream_truncated' });
  });
});
