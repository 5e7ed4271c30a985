/** Backends with few places: what is sent, what waits here, what an abandoned request still costs, what a stuck one does. */
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { hang, type Script, type ScriptStep } from '../../src/sim/fault-steps.ts';
import type { ScriptedServer } from '../../src/sim/faults.ts';
import { chunk, DONE, FIN, lastChunk, ROLE, sseHead, T, wholeAnswer } from '../../src/sim/sse-script.ts';
import type { Proxy } from '../support/proxy.ts';
import { chatBody, postBytes, R0, type RawClient } from '../support/raw-http.ts';
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

let stage: Stage;
beforeEach(() => {
  stage = createStage();
});
afterEach(() => stage.close());

const notStreamed = postBytes('/v1/chat/completions', { ...chatBody, stream: false });
const llamaHead = sseHead({ Server: 'llama.cpp' });

/** A llama-server whose `/slots` shows as many busy slots as the test says. */
async function llamaServer(slots: number, onRequest: (text: string) => Script) {
  const state = { busy: 0, slotsAsked: 0 };
  const backend = await stage.backend({
    probes: {
      engine: 'llama-server',
      slots,
      override(request): Iterable<ScriptStep> | undefined {
        if (!request.target.startsWith('/slots')) return undefined;
        state.slotsAsked += 1;
        const all = Array.from({ length: slots }, (_, id) => ({ id, n_ctx: 4096, is_processing: id < state.busy }));
        return [wholeAnswer(200, all, { Server: 'llama.cpp' })];
      },
    },
    onRequest: (request) => onRequest(request.text()),
  });
  return { backend, state };
}

async function ask(proxy: Proxy, request = R0): Promise<RawClient> {
  const client = await stage.client(proxy);
  client.send(request);
  return client;
}

function named(name: string, stream = true): string {
  return postBytes('/v1/chat/completions', { ...chatBody, stream, user: name });
}

async function untilGone(backend: ScriptedServer, number: number): Promise<void> {
  const request = await untilAsked(backend, number);
  await eventually(() => !backend.connectionOf(request).open, 'the backend sees the full close');
}

function* short(): Generator<Uint8Array | string | number> {
  yield llamaHead;
  yield chunk(ROLE);
  yield 60;
  yield chunk(T('a'), FIN('stop'), DONE);
  yield lastChunk;
}

describe('a llama-server with few slots', () => {
  it('R12 never has more requests than slots, though many come at once; all are served in the end', async () => {
    let inFlight = 0;
    let most = 0;
    const { backend } = await llamaServer(2, function* () {
      inFlight += 1;
      most = Math.max(most, inFlight);
      try {
        yield* short();
      } finally {
        inFlight -= 1;
      }
    });
    const proxy = await stage.proxy(backend);
    const clients = await Promise.all(Array.from({ length: 20 }, () => ask(proxy)));
    await eventually(async () => (await loadOf(proxy)).waiting > 10, 'most of them wait');
    const answers = await Promise.all(clients.map((client) => client.answer()));
    expect(answers.filter(({ complete, status }) => complete && status === 200)).toHaveLength(20);
    expect(most).toBe(2);
    expect(usersOf(backend)).toHaveLength(20);
    const waits = (await proxy.records(20)).map(({ figures }) => figures.queueMs ?? -1);
    expect(Math.max(...waits)).toBeGreaterThan(300);
    await untilIdle(proxy);
  });

  it('R12 is not taken for dead when its probes hang while own requests run', async () => {
    let silent = false;
    const backend = await stage.backend({
      probes: { engine: 'llama-server', slots: 2, override: () => (silent ? [hang()] : undefined) },
      onRequest: () => manySlow(),
    });
    const proxy = await stage.proxy(backend, {
      change: { fleet: { probeIntervalMs: 100, probeDownIntervalMs: 100, probeTimeoutMs: 150 } },
    });
    const client = await ask(proxy);
    await client.until(() => client.received.includes('t0'));
    silent = true;
    await sleep(1200);
    expect(proxy.app.fleet.snapshot().backends[0]).toMatchObject({ health: 'up' });
    expect((await client.answer()).complete).toBe(true);
    // With nothing of ours there, the same silence means something.
    await eventually(() => proxy.app.fleet.snapshot().backends[0]?.health === 'down', 'now it is down', 5000);
  });

  it('R12 choices of one request count as slots', async () => {
    const { backend } = await llamaServer(2, function* (text): Generator<ScriptStep> {
      // So long that a busy machine sees it there.
      if (text.includes('"n":2')) yield 2000;
      yield* short();
    });
    const proxy = await stage.proxy(backend);
    const first = await ask(proxy, postBytes('/v1/chat/completions', { ...chatBody, n: 2 }));
    await untilAsked(backend, 1);
    expect(await loadOf(proxy)).toMatchObject({ jobs: 1, slots: 2 });
    const second = await ask(proxy);
    await eventually(async () => (await loadOf(proxy)).waiting === 1, 'the second waits');
    await Promise.all([first.answer(), second.answer()]);
    const [, late] = usersOf(backend);
    expect((await proxy.records(2))[0]?.timeline.end).toBeLessThanOrEqual((late?.firstByteMs ?? 0) + 5);
  });

  it('R09 a request that waits here leaves at once; one that was sent is closed fully, and its record says the engine may go on', async () => {
    const { backend } = await llamaServer(1, () => [hang()]);
    const proxy = await stage.proxy(backend);
    const sent = await ask(proxy, named('sent', false));
    await untilAsked(backend, 1);
    const waiting = await ask(proxy, named('waiting', false));
    await eventually(async () => (await loadOf(proxy)).waiting === 1, 'one waits');
    waiting.leave();
    await eventually(async () => (await loadOf(proxy)).waiting === 0, 'it is gone at once', 500);
    const [left] = await proxy.records(1);
    expect(left).toMatchObject({ outcome: 'client_abort', phase: 'queued' });
    expect(left?.marks).not.toContain('engine_may_go_on');
    sent.leave();
    await untilGone(backend, 1);
    const [, aborted] = await proxy.records(2);
    expect(aborted).toMatchObject({ outcome: 'client_abort', phase: 'waiting_head' });
    expect(aborted?.marks).toContain('engine_may_go_on');
    expect(usersOf(backend)).toHaveLength(1);
  });

  it('R10 aborted in prefill: the record at once; the slot counts as busy until the engine shows it free, also for who waited already', async () => {
    const { backend, state } = await llamaServer(1, function* (text): Generator<ScriptStep> {
      if (text.includes('"prefill"')) {
        yield llamaHead;
        yield hang();
      } else yield* short();
    });
    const proxy = await stage.proxy(backend);
    const aborted = await ask(proxy, named('prefill'));
    await untilAsked(backend, 1);
    await aborted.until(() => aborted.received.includes('\r\n\r\n'));
    const waited = await ask(proxy, named('waited'));
    await eventually(async () => (await loadOf(proxy)).waiting === 1, 'one waits');
    state.busy = 1;
    const leftMs = performance.now();
    aborted.leave();
    const [record] = await proxy.records(1);
    expect(performance.now() - leftMs).toBeLessThan(500);
    expect(record).toMatchObject({ outcome: 'client_abort', phase: 'waiting_first_token' });
    expect(record?.marks).toContain('engine_may_go_on');
    const later = await ask(proxy, named('later'));
    await eventually(() => state.slotsAsked >= 1, 'its slots are looked at', 8000);
    await sleep(300);
    // The engine works on it still: nobody is sent there.
    expect(await loadOf(proxy)).toMatchObject({ ghostSlots: 1, waiting: 2, jobs: 0 });
    expect(usersOf(backend)).toHaveLength(1);
    state.busy = 0;
    const answers = await Promise.all([waited.answer(15_000), later.answer(15_000)]);
    expect(answers.map(({ complete }) => complete)).toEqual([true, true]);
    expect(usersOf(backend).map((request) => (request.json() as { user: string }).user)).toEqual([
      'prefill',
      'waited',
      'later',
    ]);
    expect(await loadOf(proxy)).toMatchObject({ ghostSlots: 0 });
    // Looked at seldom: each look restarts the engine's own search for clients that left (R13).
    expect(state.slotsAsked).toBeLessThan(6);
  });

  it.each([
    ['R09', 'before its first token', 'firstTokenMs', []],
    ['R10', 'in the middle of its stream', 'contentStallMs', [chunk(ROLE, T('a'))]],
  ] as const)('%s a limit that ends an answer %s leaves its slot busy too', async (_, __, limit, begun) => {
    const { backend, state } = await llamaServer(1, () => [llamaHead, ...begun, hang()]);
    const proxy = await stage.proxy(backend, { change: { relay: { deadlines: { [limit]: 400, perBodyKibMs: 0 } } } });
    state.busy = 1;
    const late = await ask(proxy);
    expect((await late.answer()).complete).toBe(false);
    const [record] = await proxy.records(1);
    expect(record).toMatchObject({ outcome: 'timeout', status: 200 });
    expect(record?.marks).toContain('engine_may_go_on');
    expect(await loadOf(proxy)).toMatchObject({ ghostSlots: 1, jobs: 0 });
  });

  it('R10 an abort in the middle of a stream frees its slot: the engine notices at its next token', async () => {
    const { backend } = await llamaServer(1, (text) => (text.includes('"first"') ? manySlow() : short()));
    const proxy = await stage.proxy(backend);
    const first = await ask(proxy, named('first'));
    await first.until(() => first.received.includes('t1'));
    const second = await ask(proxy, named('second'));
    await eventually(async () => (await loadOf(proxy)).waiting === 1, 'one waits');
    first.leave();
    await untilAsked(backend, 2, 1000);
    expect((await second.answer()).complete).toBe(true);
    const [record] = await proxy.records(1);
    expect(record).toMatchObject({ outcome: 'client_abort', phase: 'streaming' });
    expect(record?.marks).not.toContain('engine_may_go_on');
  });
});

describe('a backend whose slots are stuck', () => {
  it('C088 limits fire, no pile grows in front of it, it is shown as busy, and the rest of the proxy answers', async () => {
    const { backend, state } = await llamaServer(2, (text) => (text.includes('"streams"') ? manySlow() : [hang()]));
    const proxy = await stage.proxy(backend, {
      change: {
        admit: { queueTimeoutMs: 1500, maxQueuedJobs: 3 },
        relay: { deadlines: { headMs: 600, perBodyKibMs: 0 } },
      },
    });
    const streams = [await ask(proxy, named('streams')), await ask(proxy, named('streams'))];
    for (const client of streams) await client.until(() => client.received.includes('t0'));
    // It ignores that its clients leave, and works on.
    state.busy = 2;
    for (const client of streams) client.leave();
    await untilIdle(proxy);
    const clients = await Promise.all(Array.from({ length: 7 }, () => ask(proxy, named('hangs'))));
    expect((await fetch(`${proxy.url}/livez`)).status).toBe(200);
    const statuses = (await Promise.all(clients.map((client) => client.answer()))).map(({ status }) => status);
    // Two went there and heard nothing, three waited in vain, two found the queue full.
    expect(statuses.toSorted((a, b) => a - b)).toEqual([429, 429, 503, 503, 503, 504, 504]);
    expect(usersOf(backend)).toHaveLength(4);
    expect(await loadOf(proxy)).toMatchObject({ ghostSlots: 2, jobs: 0, waiting: 0 });
    const outcomes = (await proxy.records(9)).map(({ outcome }) => outcome);
    expect(outcomes.filter((outcome) => outcome === 'rejected')).toHaveLength(5);
    expect(outcomes.filter((outcome) => outcome === 'timeout')).toHaveLength(2);
  });

  it('C088 another backend is preferred', async () => {
    const { backend: stuck, state } = await llamaServer(2, () => [hang()]);
    const { backend: good } = await llamaServer(2, short);
    const proxy = await stage.proxy([stuck, good], {
      change: { relay: { deadlines: { headMs: 500, perBodyKibMs: 0 } } },
    });
    state.busy = 2;
    for (let i = 0; i < 20 && usersOf(stuck).length < 2; i += 1) {
      await Promise.all((await Promise.all([1, 2, 3, 4].map(() => ask(proxy)))).map((client) => client.answer()));
    }
    expect(usersOf(stuck)).toHaveLength(2);
    for (let i = 0; i < 6; i += 1) {
      const answers = await Promise.all(
        (await Promise.all([1, 2].map(() => ask(proxy)))).map((client) => client.answer()),
      );
      expect(answers.map(({ status }) => status)).toEqual([200, 200]);
    }
    expect(usersOf(stuck)).toHaveLength(2);
  });
});

function* manySlow(): Generator<Uint8Array | string | number> {
  yield llamaHead;
  yield chunk(ROLE);
  for (let i = 0; i < 20; i += 1) {
    yield chunk(T(`t${i}`));
    yield 100;
  }
  yield chunk(FIN('stop'), DONE);
  yield lastChunk;
}

describe('places that never run over', () => {
  it('a request that is not generating takes no place, and gets through while all places are taken', async () => {
    const backend = await stage.backend({
      onRequest: (request): Script =>
        request.target === '/tokenize' ? [wholeAnswer(200, { tokens: [1, 2] })] : [hang()],
    });
    const proxy = await stage.proxy(backend, { places: 1 });
    await ask(proxy, notStreamed);
    await untilAsked(backend, 1);
    const client = await ask(proxy, postBytes('/tokenize', { content: 'a' }));
    expect((await client.answer()).status).toBe(200);
  });
});
