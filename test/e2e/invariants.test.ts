/**
 * What holds after whatever happened: no place, no waiter, no socket, no timer, no listener is left; each request is
 * answered once at most and recorded exactly once. Chance decides what goes wrong; its seed is printed.
 */
import { Socket } from 'node:net';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { RequestRecord } from '../../src/domain/record.ts';
import { fin, hang, repeat, reset, type Script, trickle } from '../../src/sim/fault-steps.ts';
import {
  chunk,
  DONE,
  FIN,
  lastChunk,
  responseHead,
  ROLE,
  sseHead,
  T,
  USE,
  wholeAnswer,
  wholeStream,
} from '../../src/sim/sse-script.ts';
import type { Proxy } from '../support/proxy.ts';
import { chatBody, parseAnswer, postBytes, rawClient, type RawClient } from '../support/raw-http.ts';
import { type Chance, createChance } from '../support/seed.ts';
import {
  createStage,
  eventually,
  loadOf,
  sleep,
  type Stage,
  untilAsked,
  untilIdle,
  usersOf,
} from '../support/stage.ts';

const full = process.env['WARMLANE_TEST_FULL'] === '1';

let stage: Stage;
const warnings: Error[] = [];
const onWarning = (warning: Error) => warnings.push(warning);
beforeEach(() => {
  stage = createStage();
  warnings.length = 0;
  process.on('warning', onWarning);
});
afterEach(async () => {
  process.off('warning', onWarning);
  await stage.close();
});

function timers(): number {
  return process.getActiveResourcesInfo().filter((kind) => kind === 'Timeout').length;
}

/**
 * Sockets in use on one of these ports, at the side that took or at the side that made the connection. Idle pooled ones
 * don't count: they keep nothing alive, and Node doesn't list them.
 */
function sockets(side: 'localPort' | 'remotePort', ports: readonly number[]): readonly string[] {
  // Undocumented, and the only way to see all sockets of a process.
  const handles = (process as unknown as { _getActiveHandles(): unknown[] })._getActiveHandles();
  return handles
    .filter((handle) => handle instanceof Socket && ports.includes(handle[side] ?? 0))
    .map((handle) => `${(handle as Socket).localPort} to ${(handle as Socket).remotePort}`);
}

const tokens = (count: number) => Array.from({ length: count }, (_, i) => T(`t${i} `));
const json = {
  object: 'chat.completion',
  choices: [{ index: 0, message: { role: 'assistant', content: 'a' }, finish_reason: 'stop' }],
};
const errorEvent = 'data: {"error": {"message": "it failed", "type": "InternalServerError", "code": 500}}\n\n';
const whole = wholeStream(ROLE, ...tokens(5), FIN('stop'), USE(3, 5), DONE);

type Play = (chance: Chance) => Script;

const answers: Readonly<Record<string, Play>> = {
  stream: () => [whole],
  json: () => [wholeAnswer(200, json)],
  'slow stream': function* () {
    yield sseHead();
    for (const token of tokens(8)) {
      yield chunk(token);
      yield 15;
    }
    yield chunk(FIN('stop'), DONE);
    yield lastChunk;
  },
  'one byte a write': () => [trickle(whole.subarray(0, 700), 7), hang()],
  'hang before the head': () => [hang()],
  'hang after the head': () => [sseHead(), hang()],
  'hang among tokens': () => [sseHead(), chunk(ROLE, ...tokens(3)), hang()],
  'pings for ever': () => [sseHead(), chunk(ROLE, ...tokens(2)), repeat(chunk(': ping\n\n'), 20)],
  'tokens for ever': () => [sseHead(), repeat(chunk(...tokens(3)), 5)],
  'reset somewhere': (chance) => [whole.subarray(0, chance.below(whole.length)), chance.below(20), reset()],
  'end somewhere': (chance) => [whole.subarray(0, chance.below(whole.length)), chance.below(20), fin()],
  'reset at once': () => [reset()],
  'no HTTP': () => ['SSH-2.0-OpenSSH_9.6\r\n', hang()],
  'bad chunk': () => [sseHead(), chunk(ROLE), 'zz\r\nnope\r\n', hang()],
  'error event': () => [wholeStream(ROLE, ...tokens(2), errorEvent)],
  'error event at once': () => [wholeStream(errorEvent)],
  'close-delimited': () => [responseHead(200, { 'Content-Type': 'text/event-stream' }), ROLE, ...tokens(2), fin()],
  '500': () => [wholeAnswer(500, { error: { message: 'broken' } })],
  '503': () => [wholeAnswer(503, { error: { message: 'busy' } })],
  '429': () => [wholeAnswer(429, { error: { message: 'slow down' } })],
  '400': () => [wholeAnswer(400, { error: { message: 'what?' } })],
  '204': () => [responseHead(204)],
  bulk: function* () {
    yield sseHead();
    for (let i = 0; i < 30; i += 1) yield chunk(T('x'.repeat(100_000)));
    yield chunk(FIN('stop'), DONE);
    yield lastChunk;
  },
};

type Behaviour = (client: RawClient, chance: Chance) => Promise<void>;

const behaviours: Readonly<Record<string, Behaviour>> = {
  'waits for its answer': async (client) => {
    await client.answer(8000).catch(() => undefined);
  },
  'leaves somewhen': async (client, chance) => {
    await sleep(chance.below(60));
    client.leave();
  },
  'resets somewhen': async (client, chance) => {
    await sleep(chance.below(60));
    client.reset();
  },
  'half-closes somewhen': async (client, chance) => {
    await sleep(chance.below(40));
    client.halfClose();
    await client.until(() => client.ended !== 'no', 8000);
  },
  'reads nothing, then leaves': async (client, chance) => {
    client.socket.pause();
    await sleep(100 + chance.below(500));
    client.leave();
  },
  'reads nothing until it is cut': async (client) => {
    client.socket.pause();
    await sleep(1500);
    client.socket.resume();
    await sleep(50);
    client.leave();
  },
};

const maker: Readonly<Record<string, (id: string) => string>> = {
  stream: (id) => postBytes('/v1/chat/completions', chatBody, { 'X-Request-Id': id }),
  'not streamed': (id) => postBytes('/v1/chat/completions', { ...chatBody, stream: false }, { 'X-Request-Id': id }),
  embeddings: (id) => postBytes('/v1/embeddings', { model: 'm', input: 'a' }, { 'X-Request-Id': id }),
  'a large body': (id) =>
    postBytes('/v1/chat/completions', { ...chatBody, user: 'x'.repeat(300_000) }, { 'X-Request-Id': id }),
  'a body nobody reads': (id) =>
    postBytes('/v1/files', 'x'.repeat(200_000), { 'X-Request-Id': id, 'Content-Type': 'application/octet-stream' }),
  'half a body': (id) =>
    postBytes('/v1/chat/completions', { ...chatBody, user: 'y'.repeat(500) }, { 'X-Request-Id': id }).slice(0, -400),
  'asks to continue': (id) =>
    postBytes('/v1/chat/completions', chatBody, { 'X-Request-Id': id, Expect: '100-continue' }),
  'bad JSON': (id) => postBytes('/v1/chat/completions', '{"model":"m","stream":tr', { 'X-Request-Id': id }),
  'old HTTP': (id) =>
    postBytes('/v1/chat/completions', chatBody, { 'X-Request-Id': id }).replace('HTTP/1.1', 'HTTP/1.0'),
};

interface Case {
  readonly id: string;
  readonly asks: string;
  readonly answer: string;
  readonly client: string;
}

async function play(proxy: Proxy, one: Case, chance: Chance): Promise<void> {
  const client = await rawClient(proxy.port);
  client.send(maker[one.asks]?.(`${one.id}.${one.answer.replaceAll(' ', '_')}`) ?? '');
  await behaviours[one.client]?.(client, chance);
  const text = client.received.toString('latin1');
  const heads = text.match(/HTTP\/1\.1 (?!100)\d{3} /g) ?? [];
  expect(heads.length, `answers to ${JSON.stringify(one)}: ${text.slice(0, 300)}`).toBeLessThanOrEqual(1);
  if (heads.length === 1) expect(parseAnswer(client.received)?.rest.length ?? 0).toBe(0);
  client.leave();
}

describe('after many random faults and aborts', () => {
  it(
    'nothing is left behind, each request was answered once at most and recorded once',
    async () => {
      const chance = createChance();
      const count = full ? 3000 : 300;
      const script = (id: string | undefined): Script => {
        const name = id?.split('.')[1]?.replaceAll('_', ' ') ?? 'json';
        return answers[name]?.(chance) ?? [wholeAnswer(200, json)];
      };
      const backends = await Promise.all(
        [1, 2, 3].map(() => stage.backend({ onRequest: (request) => script(request.header('x-request-id')) })),
      );
      const proxy = await stage.proxy(backends, {
        places: 4,
        change: {
          admit: { maxQueuedJobs: 6, queueTimeoutMs: 400 },
          fleet: { probeIntervalMs: 300, probeDownIntervalMs: 100, probeTimeoutMs: 300 },
          http: {
            requestHeadMs: 1000,
            requestMs: 1000,
            maxRecords: 10_000,
            maxBodyBytes: 1_000_000,
            maxHeldBytes: 1_500_000,
          },
          relay: {
            retryAfterCrash: true,
            deadlines: {
              headMs: 300,
              firstTokenMs: 350,
              contentStallMs: 250,
              refusedStallMs: 100,
              totalMs: 900,
              clientStallMs: 300,
              perBodyKibMs: 0,
            },
          },
        },
      });
      await untilIdle(proxy);
      const before = { timers: timers(), listeners: process.eventNames().map((name) => process.listenerCount(name)) };

      const cases: Case[] = Array.from({ length: count }, (_, i) => ({
        id: `r${i}`,
        asks: chance.of(Object.keys(maker)),
        answer: chance.of(Object.keys(answers)),
        client: chance.of(Object.keys(behaviours)),
      }));
      let next = 0;
      const workers = Array.from({ length: 16 }, async () => {
        for (let one = cases[next++]; one !== undefined; one = cases[next++]) await play(proxy, one, chance);
      });
      await Promise.all(workers);

      await untilIdle(proxy, 10_000);
      expect((await loadOf(proxy)).ghostSlots).toBe(0);
      const listed = await fetch(`${proxy.adminUrl}/records?limit=100000`);
      const { records } = (await listed.json()) as { records: RequestRecord[] };
      const ids = records.map(({ requestId }) => requestId);
      expect(new Set(ids).size, 'recorded once').toBe(ids.length);
      // A client that resets its connection at once may never have been heard at all.
      expect(ids.length).toBeGreaterThan(count * 0.9);
      expect(records.filter(({ outcome }) => outcome === 'proxy_error')).toEqual([]);
      const outcomes = new Set(records.map(({ outcome }) => outcome));
      for (const outcome of [
        'ok',
        'client_abort',
        'upstream_error',
        'timeout',
        'rejected',
        'client_error',
        'upstream_truncated',
      ])
        expect(outcomes).toContain(outcome);
      const lines = proxy.logged.filter(({ msg }) => msg === 'request');
      expect(lines).toHaveLength(records.length);
      expect(proxy.logged.filter(({ level }) => level === 'error')).toEqual([]);
      expect(warnings).toEqual([]);

      await eventually(
        () => sockets('localPort', [proxy.port]).length === 0,
        'connections of clients are closed',
      ).catch(() => undefined);
      expect(sockets('localPort', [proxy.port])).toEqual([]);
      const ports = backends.map(({ port }) => port);
      await eventually(
        () => sockets('remotePort', ports).length === 0,
        'connections to backends are closed or idle',
      ).catch(() => undefined);
      expect(sockets('remotePort', ports)).toEqual([]);
      await eventually(() => timers() <= before.timers + 4, 'timers are over');
      expect(process.eventNames().map((name) => process.listenerCount(name))).toEqual(before.listeners);
      // And it still serves.
      const fresh = await stage.backend({ onRequest: () => [whole] });
      const again = await stage.proxy(fresh);
      const client = await stage.client(again);
      client.send(maker['stream']?.('last') ?? '');
      expect((await client.answer()).complete).toBe(true);
    },
    full ? 600_000 : 60_000,
  );

  it('held bytes are given back, whatever became of their requests', async () => {
    const chance = createChance();
    const backend = await stage.backend({ onRequest: () => [chance.of([reset(), hang(), fin()])] });
    const proxy = await stage.proxy(backend, {
      places: 2,
      change: {
        http: { maxBodyBytes: 100_000, maxHeldBytes: 400_000 },
        admit: { queueTimeoutMs: 100 },
        relay: { deadlines: { headMs: 100, perBodyKibMs: 0 } },
      },
    });
    const body = postBytes('/v1/chat/completions', { ...chatBody, user: 'x'.repeat(90_000) });
    for (let i = 0; i < 60; i += 1) {
      const client = await rawClient(proxy.port);
      client.send(body.slice(0, chance.of([body.length, body.length - 10, 50_000])));
      await sleep(chance.below(30));
      if (chance.below(3) > 0) client.leave();
      else await Promise.race([client.answer(3000).catch(() => undefined), sleep(250)]).then(() => client.leave());
    }
    await untilIdle(proxy);
    // All of the budget is there again: four bodies fit at once, which a leak of one would not allow.
    const clients = await Promise.all([1, 2, 3, 4].map(() => stage.client(proxy)));
    for (const client of clients) client.send(body.slice(0, -10));
    await eventually(async () => (await loadOf(proxy)).running.length === 4, 'four are received');
    await sleep(100);
    expect((await loadOf(proxy)).running.map(({ phase }) => phase)).toEqual([
      'receiving',
      'receiving',
      'receiving',
      'receiving',
    ]);
    expect(clients.map((client) => client.receivedBytes)).toEqual([0, 0, 0, 0]);
  });
});

describe('the moment of the grant', () => {
  it(
    'C081 a place granted to a client that leaves in that very moment is not lost',
    async () => {
      const chance = createChance();
      const rounds = full ? 500 : 100;
      let release: () => void = () => undefined;
      const backend = await stage.backend({
        async *onRequest(request) {
          yield sseHead();
          yield chunk(ROLE, T('a'));
          // The first one of each round ends when the test says so.
          if (request.text().includes('"A"'))
            yield { kind: 'until', gate: new Promise<void>((resolve) => (release = resolve)) } as const;
          else yield 20;
          yield chunk(FIN('stop'), DONE);
          yield lastChunk;
        },
      });
      const proxy = await stage.proxy(backend, { places: 1, change: { http: { maxRecords: 10_000 } } });
      const named = (name: string) => postBytes('/v1/chat/completions', { ...chatBody, user: name });
      for (let round = 0; round < rounds; round += 1) {
        const [a, b] = [await rawClient(proxy.port), await rawClient(proxy.port)];
        a.send(named('A'));
        await a.until(() => a.received.includes('"a"'));
        b.send(named('B'));
        await eventually(() => proxy.app.pipeline.running().length === 2, 'B is there');
        // Up to 3 ms before or after.
        const before = chance.below(2) === 0;
        const apartMs = chance.below(4);
        if (before) b.leave();
        else release();
        const endMs = performance.now() + apartMs;
        while (performance.now() < endMs) await new Promise((resolve) => setImmediate(resolve));
        if (before) release();
        else b.leave();
        await a.answer();
        a.leave();
        await eventually(() => proxy.app.pipeline.running().length === 0, `nothing runs after round ${round}`);
      }
      await untilIdle(proxy);
      const records = await proxy.records(rounds * 2);
      const started = records.filter(({ attempts }) => attempts > 0);
      await eventually(() => usersOf(backend).length <= started.length, 'no request was sent that nobody knows of');
      expect(records.filter(({ outcome }) => outcome === 'ok').length).toBeGreaterThanOrEqual(rounds);
      expect(records.every(({ outcome }) => outcome === 'ok' || outcome === 'client_abort')).toBe(true);
      const next = await stage.client(proxy);
      next.send(named('last'));
      expect((await next.answer()).complete).toBe(true);
      await untilAsked(backend, usersOf(backend).length);
    },
    full ? 300_000 : 60_000,
  );
});
