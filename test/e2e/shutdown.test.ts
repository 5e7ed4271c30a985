/** What SIGTERM does to the process and to each request, by real signals; and the record of each end. */
import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { hang, repeat } from '../../src/sim/fault-steps.ts';
import { chunk, DONE, FIN, lastChunk, ROLE, sseHead, T, wholeAnswer } from '../../src/sim/sse-script.ts';
import { serveBuilt, type Served } from '../support/built.ts';
import { chatBody, parseAnswer, postBytes, R0, rawClient, type RawClient } from '../support/raw-http.ts';
import { createStage, eventually, loadOf, sleep, type Stage, untilAsked, usersOf } from '../support/stage.ts';
import { createUpgradeBackend, handshakeBytes, switching } from '../support/upgrade-backend.ts';

let stage: Stage;
let opened: { end(): Promise<void> }[];
beforeEach(() => {
  stage = createStage();
  opened = [];
});
afterEach(async () => {
  for (const each of opened) await each.end();
  await stage.close();
});

async function serving(backend: { readonly url: string }, drainMs: number, more: object = {}): Promise<Served> {
  const served = await serveBuilt({ config: { backends: [{ url: backend.url, ...more }], deadlines: { drainMs } } });
  opened.push(served);
  return served;
}

async function client(served: Served): Promise<RawClient> {
  const made = await rawClient(served.port);
  opened.push({ end: async () => made.leave() });
  return made;
}

function errorsOf(served: Served): readonly object[] {
  return served.logged.filter(({ level, text }) => level === 'error' || text !== undefined);
}

const tokens = Array.from({ length: 20 }, (_, i) => T(`t${i} `));
const whole = [ROLE, ...tokens, FIN('stop'), DONE].join('');

/** Two seconds of tokens. */
async function* twoSeconds(): AsyncGenerator<string | Uint8Array | number> {
  yield sseHead();
  yield chunk(ROLE);
  for (const token of tokens) {
    yield 100;
    yield chunk(token);
  }
  yield chunk(FIN('stop'), DONE);
  yield lastChunk;
}

function* endless(): Generator<Uint8Array | string | ReturnType<typeof repeat>> {
  yield sseHead();
  yield chunk(ROLE);
  yield repeat(chunk(T('on ')), 50);
}

/** A process namespace of its own, where the kernel and the user's rights allow one. */
const namespace = ['unshare', '--user', '--map-root-user', '--pid', '--fork', '--kill-child=KILL'];

function canBePidOne(): boolean {
  return spawnSync('unshare', [...namespace.slice(1), 'true']).status === 0;
}

describe('SIGTERM', () => {
  it('C201 lets running streams end, exact; the process exits right behind the last one, with 0', async () => {
    const backend = await stage.backend({ onRequest: twoSeconds });
    const served = await serving(backend, 10_000);
    const clients = await Promise.all([1, 2, 3].map(() => client(served)));
    for (const each of clients) each.send(R0);
    await untilAsked(backend, 3);
    await sleep(500);
    served.child.kill('SIGTERM');
    const answers = await Promise.all(clients.map((each) => each.answer()));
    const endedMs = performance.now();
    for (const answer of answers) {
      expect(answer.complete).toBe(true);
      expect(answer.body.toString()).toBe(whole);
    }
    const exit = await served.exited;
    expect(exit).toMatchObject({ code: 0, signal: null });
    expect(exit.atMs - endedMs).toBeLessThan(700);
    expect(served.logged.filter(({ msg }) => msg === 'request').map(({ outcome }) => outcome)).toEqual([
      'ok',
      'ok',
      'ok',
    ]);
    expect(errorsOf(served)).toEqual([]);
  });

  it('says how much still runs, open WebSockets included', async () => {
    const backend = await createUpgradeBackend({ onHandshake: ({ socket }) => void socket.write(switching) });
    opened.push({ end: () => backend.close() });
    const served = await serving(backend, 200);
    const each = await client(served);
    each.send(handshakeBytes('/ws'));
    await each.until(() => each.received.length === switching.length);
    served.child.kill('SIGTERM');
    expect(await served.exited).toMatchObject({ code: 0 });
    expect(served.logged.find(({ msg }) => String(msg).startsWith('stopping'))).toMatchObject({ running: 1 });
    expect(served.logged.find(({ msg }) => msg === 'request')).toMatchObject({
      outcome: 'shutdown',
      phase: 'tunnel',
      status: 101,
    });
  });

  it('C201 ends at once where nothing runs, keep-alive connections or not', async () => {
    const backend = await stage.backend();
    const served = await serving(backend, 10_000);
    const idle = await client(served);
    idle.send(postBytes('/v1/chat/completions', { ...chatBody, stream: false }));
    await idle.answer();
    const never = await client(served);
    const sentMs = performance.now();
    served.child.kill('SIGTERM');
    const exit = await served.exited;
    expect(exit).toMatchObject({ code: 0 });
    expect(exit.atMs - sentMs).toBeLessThan(2000);
    await idle.until(() => idle.ended !== 'no');
    await never.until(() => never.ended !== 'no');
  });

  it('C202 ends an endless stream at the deadline: an error event, an unclean end, the backend cancelled, exit', async () => {
    const backend = await stage.backend({ onRequest: endless });
    const served = await serving(backend, 1000);
    const asking = await client(served);
    asking.send(R0);
    const request = await untilAsked(backend, 1);
    await asking.until(() => asking.received.includes('on '));
    const sentMs = performance.now();
    served.child.kill('SIGTERM');
    const answer = await asking.answer();
    const elapsedMs = performance.now() - sentMs;
    expect(elapsedMs).toBeGreaterThan(900);
    expect(elapsedMs).toBeLessThan(2500);
    expect(answer.complete).toBe(false);
    const text = answer.body.toString();
    expect(text).toMatch(/\n\ndata: \{"error":\{[^\n]*"code":"shutting_down"[^\n]*\}\}\n\n$/);
    expect(text).not.toContain('[DONE]');
    expect(text).not.toContain('"finish_reason":"');
    const connection = backend.connectionOf(request);
    await eventually(() => !connection.open, 'the backend is cancelled');
    const exit = await served.exited;
    expect(exit.code).toBe(0);
    expect(exit.atMs - sentMs).toBeLessThan(3500);
    expect(served.logged.find(({ msg }) => msg === 'request')).toMatchObject({
      outcome: 'shutdown',
      reason: 'drain_deadline',
      phase: 'streaming',
      status: 200,
    });
    expect(errorsOf(served)).toEqual([]);
  });

  it('C202 a second signal ends at once', async () => {
    const backend = await stage.backend({ onRequest: endless });
    const served = await serving(backend, 60_000);
    const asking = await client(served);
    asking.send(R0);
    await asking.until(() => asking.received.includes('on '));
    served.child.kill('SIGINT');
    await sleep(400);
    expect(served.child.exitCode).toBeNull();
    const sentMs = performance.now();
    served.child.kill('SIGTERM');
    const exit = await served.exited;
    expect(exit.code).toBe(1);
    expect(exit.atMs - sentMs).toBeLessThan(500);
    expect(served.logged.find(({ msg }) => msg === 'request')).toMatchObject({
      outcome: 'shutdown',
      reason: 'second_signal',
      phase: 'streaming',
    });
  });

  it('C202 what waits, is received or has no answer yet gets a true 503 at the deadline, and a record that says so', async () => {
    const backend = await stage.backend({ onRequest: () => [hang()] });
    const served = await serving(backend, 700, { maxInFlight: 1 });
    const [running, queued, receiving] = [await client(served), await client(served), await client(served)];
    running.send(R0);
    await untilAsked(backend, 1);
    queued.send(R0);
    await eventually(async () => (await loadOf(served)).waiting === 1, 'one waits');
    receiving.send(R0.slice(0, -5));
    await eventually(async () => (await loadOf(served)).running.length === 3, 'one is received');
    served.child.kill('SIGTERM');
    for (const each of [running, queued, receiving]) {
      const answer = await each.answer();
      expect(answer.status).toBe(503);
      expect(answer.headers['connection']).toBe('close');
      expect(answer.headers['retry-after']).toBe('1');
      expect(answer.body.toString()).toContain('"code":"shutting_down"');
    }
    const exit = await served.exited;
    expect(exit.code).toBe(0);
    const lines = served.logged.filter(({ msg }) => msg === 'request');
    expect(lines.map(({ outcome, status }) => ({ outcome, status }))).toEqual(
      Array.from({ length: 3 }, () => ({ outcome: 'shutdown', status: 503 })),
    );
    expect(new Set(lines.map(({ phase }) => phase))).toEqual(new Set(['waiting_head', 'queued', 'receiving']));
    expect(usersOf(backend)).toHaveLength(1);
    expect(errorsOf(served)).toEqual([]);
  });

  it('C203 no new work: not ready at once, new requests refused, idle connections closed; what runs goes on', async () => {
    const backend = await stage.backend({ onRequest: twoSeconds });
    const served = await serving(backend, 10_000);
    const running = await client(served);
    running.send(R0);
    await untilAsked(backend, 1);
    const idle = await client(served);
    idle.send('GET /livez HTTP/1.1\r\nHost: x\r\n\r\n');
    await idle.answer();
    // Connections that the balancer has opened and not used yet.
    const [asksHealth, asksWork] = [await client(served), await client(served)];
    await sleep(100);
    served.child.kill('SIGTERM');
    await eventually(() => served.logged.some(({ msg }) => String(msg).startsWith('stopping')), 'it stops');
    await idle.until(() => idle.ended !== 'no', 1000);
    asksHealth.send('GET /readyz HTTP/1.1\r\nHost: x\r\n\r\n');
    expect((await asksHealth.answer()).status).toBe(503);
    asksWork.send(R0);
    const refused = await asksWork.answer();
    expect(refused.status).toBe(503);
    expect(refused.headers['connection']).toBe('close');
    expect(refused.body.toString()).toContain('"code":"shutting_down"');
    await expect(rawClient(served.port)).rejects.toThrow(/ECONNREFUSED/);
    // The admin listener still tells what is going on.
    expect((await loadOf(served)).running).toHaveLength(1);
    const answer = await running.answer();
    expect(answer.complete).toBe(true);
    expect(answer.body.toString()).toBe(whole);
    const endedMs = performance.now();
    const exit = await served.exited;
    expect(exit.code).toBe(0);
    expect(exit.atMs - endedMs).toBeLessThan(1700);
    expect(usersOf(backend)).toHaveLength(1);
    const outcomes = served.logged.filter(({ msg }) => msg === 'request').map(({ outcome }) => outcome);
    expect(new Set(outcomes)).toEqual(new Set(['ok', 'shutdown']));
    expect(outcomes).toHaveLength(2);
  });

  it('C203 what waited for a place when it came is still served', async () => {
    const backend = await stage.backend({
      onRequest: (request) => (request.text().includes('"A"') ? twoSeconds() : [wholeAnswer(200, { ok: true })]),
    });
    const served = await serving(backend, 10_000, { maxInFlight: 1 });
    const [a, b] = [await client(served), await client(served)];
    a.send(postBytes('/v1/chat/completions', { ...chatBody, user: 'A' }));
    await untilAsked(backend, 1);
    b.send(postBytes('/v1/chat/completions', { ...chatBody, user: 'B', stream: false }));
    await eventually(async () => (await loadOf(served)).waiting === 1, 'B waits');
    served.child.kill('SIGTERM');
    expect((await a.answer()).complete).toBe(true);
    expect((await b.answer()).status).toBe(200);
    expect(await served.exited).toMatchObject({ code: 0 });
  });

  it('C204 is heeded in a shell whose whole group is signalled, as by Ctrl-C and by process supervisors', async () => {
    const backend = await stage.backend({ onRequest: twoSeconds });
    const served = await serveBuilt({
      // The shell waits for it, as npm's does.
      wrapper: ['sh', '-c', 'trap "" INT; "$@"; exit $?', 'sh'],
      group: true,
      config: { backends: [{ url: backend.url }], deadlines: { drainMs: 10_000 } },
    });
    opened.push(served);
    const asking = await client(served);
    asking.send(R0);
    await untilAsked(backend, 1);
    await sleep(300);
    process.kill(-served.pid, 'SIGINT');
    const answer = await asking.answer();
    expect(answer.complete).toBe(true);
    expect(answer.body.toString()).toBe(whole);
    expect(await served.exited).toMatchObject({ code: 0, signal: null });
    expect(served.logged.filter(({ msg }) => msg === 'stopped')).toHaveLength(1);
  });

  it.runIf(canBePidOne())('C204 is heeded by process 1 of a container, which has no default action', async () => {
    const backend = await stage.backend({ onRequest: twoSeconds });
    const served = await serveBuilt({
      wrapper: namespace,
      config: { backends: [{ url: backend.url }], deadlines: { drainMs: 10_000 } },
    });
    opened.push(served);
    const pid = Number(readFileSync(`/proc/${served.pid}/task/${served.pid}/children`, 'utf8').trim());
    expect(readFileSync(`/proc/${pid}/status`, 'utf8')).toMatch(/^NSpid:.*\t1$/m);
    const asking = await client(served);
    asking.send(R0);
    await untilAsked(backend, 1);
    await sleep(300);
    process.kill(pid, 'SIGTERM');
    expect((await asking.answer()).complete).toBe(true);
    expect(await served.exited).toMatchObject({ code: 0 });
  });

  it('C204 comes while requests are answered in quick succession: none is cut, each is served or refused', async () => {
    const backend = await stage.backend({ onRequest: () => [wholeAnswer(200, { ok: 'yes'.repeat(100) })] });
    const served = await serving(backend, 5000);
    const clients = await Promise.all(Array.from({ length: 8 }, () => client(served)));
    const statuses: number[] = [];
    let cut = 0;
    const asking = clients.map(async (each) => {
      while (each.ended === 'no') {
        const before = each.received.length;
        each.send(postBytes('/v1/chat/completions', { ...chatBody, stream: false }));
        const last = () => parseAnswer(each.received.subarray(before), each.ended !== 'no');
        await each.until(() => each.ended !== 'no' || last()?.complete === true);
        const answer = last();
        if (answer === undefined) break;
        if (answer.complete) statuses.push(answer.status);
        else cut += 1;
        if (answer.headers['connection'] === 'close') break;
      }
    });
    await eventually(() => statuses.length > 50, 'some are answered');
    served.child.kill('SIGTERM');
    await Promise.all(asking);
    expect(cut).toBe(0);
    expect(new Set(statuses.map((status) => status === 200 || status === 503))).toEqual(new Set([true]));
    expect(await served.exited).toMatchObject({ code: 0 });
    expect(errorsOf(served)).toEqual([]);
  });
});
