/** Backends that come, go, are drained, fail and come back while requests run, over real sockets. */
import { mkdtempSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { BackendView } from '../../src/domain/fleet.ts';
import { hang, type Script, until } from '../../src/sim/fault-steps.ts';
import type { ScriptedServer } from '../../src/sim/faults.ts';
import { chunk, DONE, FIN, lastChunk, ROLE, sseHead, T, wholeAnswer, wholeStream } from '../../src/sim/sse-script.ts';
import { type ConfigChange, type Proxy, startProxy } from '../support/proxy.ts';
import { chatBody, postBytes, R0, rawClient } from '../support/raw-http.ts';
import { createStage, eventually, loadOf, type Stage, untilAsked, untilIdle, usersOf } from '../support/stage.ts';

let stage: Stage;
let folder: string;
const proxies: Proxy[] = [];
beforeEach(() => {
  stage = createStage();
  folder = mkdtempSync(join(tmpdir(), 'warmlane-fleet-'));
});
afterEach(async () => {
  for (const proxy of proxies.splice(0)) {
    await untilIdle(proxy);
    await proxy.close();
  }
  await stage.close();
  rmSync(folder, { recursive: true, force: true });
});

const quick: ConfigChange = {
  fleet: { probeIntervalMs: 30, probeDownIntervalMs: 30, probeTimeoutMs: 500 },
  route: { policy: 'least-load', slowStartMs: 0 },
};

interface Shown extends BackendView {
  readonly load: { readonly jobs: number; readonly slots: number };
}

/** A stream whose end waits until it is let go. */
function gated() {
  let go = () => {};
  const gate = new Promise<void>((resolve) => (go = resolve));
  const script = (): Script => [
    sseHead(),
    chunk(ROLE, T('a')),
    until(gate),
    chunk(T('b')),
    chunk(FIN('stop'), DONE),
    lastChunk,
  ];
  return { go: () => go(), script };
}

const whole = (text: string): Script => [wholeStream(ROLE, T(text), FIN('stop'), DONE)];

/** A proxy with no backend of its own in its config, which the test adds. */
async function emptyProxy(change: ConfigChange = {}): Promise<Proxy> {
  const proxy = await startProxy([], { ...quick, ...change });
  proxies.push(proxy);
  return proxy;
}

async function admin(proxy: Proxy, line: string, body?: unknown, headers: Readonly<Record<string, string>> = {}) {
  const [method = '', path = ''] = line.split(' ');
  const answer = await fetch(`${proxy.adminUrl}${path}`, {
    method,
    ...(body === undefined ? {} : { body: typeof body === 'string' ? body : JSON.stringify(body) }),
    headers: { ...(body === undefined ? {} : { 'Content-Type': 'application/json' }), ...headers },
  });
  return { status: answer.status, json: (await answer.json()) as { error?: { message: string; param?: string } } };
}

async function shown(proxy: Proxy): Promise<readonly Shown[]> {
  const answer = await fetch(`${proxy.adminUrl}/backends`);
  return ((await answer.json()) as { backends: Shown[] }).backends;
}

const upAt = (proxy: Proxy, name: string) =>
  eventually(async () => (await shown(proxy)).some((one) => one.name === name && one.health === 'up'), `${name} is up`);

async function ask(proxy: Proxy, body: object = chatBody) {
  const client = await stage.client(proxy);
  client.send(postBytes('/v1/chat/completions', body));
  const answer = await client.answer();
  client.leave();
  return answer;
}

describe('backends by the admin API', () => {
  it('C147 one that leaves and returns under its name keeps its load right, and its share', async () => {
    const streams = [gated(), gated()];
    let nth = 0;
    const one = await stage.backend({ onRequest: () => streams[nth++]?.script() ?? whole('1') });
    const other = await stage.backend({ onRequest: () => whole('2') });
    const proxy = await emptyProxy();
    const add = () => admin(proxy, 'POST /backends', { url: one.url, name: 'one', maxInFlight: 4 });
    expect((await add()).status).toBe(201);
    await upAt(proxy, 'one');
    const [a, b] = [await stage.client(proxy), await stage.client(proxy)];
    a.send(R0);
    await a.until(() => a.received.includes('"a"'));
    expect((await admin(proxy, 'DELETE /backends/one')).status).toBe(200);
    expect(await shown(proxy)).toEqual([]);
    expect((await ask(proxy)).status).toBe(503);
    await add();
    await upAt(proxy, 'one');
    b.send(R0);
    await b.until(() => b.received.includes('"a"'));
    expect((await loadOf(proxy)).jobs).toBe(2);
    streams[0]?.go();
    expect((await a.answer()).body.toString()).toContain('[DONE]');
    await eventually(async () => (await loadOf(proxy)).jobs === 1, 'the first one is settled');
    streams[1]?.go();
    expect((await b.answer()).body.toString()).toContain('[DONE]');
    await untilIdle(proxy);
    await admin(proxy, 'POST /backends', { url: other.url, name: 'other', maxInFlight: 4 });
    await upAt(proxy, 'other');
    for (let i = 0; i < 20; i += 1) expect((await ask(proxy)).status).toBe(200);
    expect(usersOf(one).length - 2).toBe(10);
    expect(usersOf(other)).toHaveLength(10);
  });

  it('another server under the same name gets its own work while the old one’s stream ends well', async () => {
    const old = gated();
    const first = await stage.backend({ onRequest: () => old.script() });
    const second = await stage.backend({ onRequest: () => whole('new') });
    const proxy = await emptyProxy();
    await admin(proxy, 'POST /backends', { url: first.url, name: 'gpu', maxInFlight: 1 });
    await upAt(proxy, 'gpu');
    const [runs, waits] = [await stage.client(proxy), await stage.client(proxy)];
    runs.send(R0);
    await runs.until(() => runs.received.includes('"a"'));
    waits.send(R0);
    await eventually(async () => (await loadOf(proxy)).waiting === 1, 'one waits for the only place');
    await admin(proxy, 'POST /backends', { url: second.url, name: 'gpu2', maxInFlight: 1 });
    expect((await waits.answer()).body.toString()).toContain('new');
    await admin(proxy, 'DELETE /backends/gpu2');
    await admin(proxy, 'DELETE /backends/gpu');
    await admin(proxy, 'POST /backends', { url: second.url, name: 'gpu', maxInFlight: 1 });
    await upAt(proxy, 'gpu');
    // The old one's permit is not held against the new one's only place.
    expect((await ask(proxy)).body.toString()).toContain('new');
    old.go();
    const answer = await runs.answer();
    expect(answer.complete).toBe(true);
    expect(answer.body.toString()).toContain('"b"');
    expect((await shown(proxy))[0]?.load).toEqual({ jobs: 0, slots: 0 });
  });

  it('a drained one takes no new work and ends what runs; undrained it works again', async () => {
    const stream = gated();
    let nth = 0;
    const backend = await stage.backend({ onRequest: () => (nth++ === 0 ? stream.script() : whole('after')) });
    const proxy = await emptyProxy();
    await admin(proxy, 'POST /backends', { url: backend.url, name: 'one', labels: { zone: 'a' } });
    await upAt(proxy, 'one');
    const client = await stage.client(proxy);
    client.send(R0);
    await client.until(() => client.received.includes('"a"'));
    const { json } = await admin(proxy, 'POST /backends/one/drain');
    expect(json).toMatchObject({
      name: 'one',
      backend: { health: 'draining', healthReason: 'asked', source: 'api', labels: { zone: 'a' }, load: { jobs: 1 } },
    });
    const refused = await ask(proxy);
    expect(refused.status).toBe(503);
    expect(refused.body.toString()).toContain('drained');
    stream.go();
    expect((await client.answer()).complete).toBe(true);
    expect((await admin(proxy, 'POST /backends/one/undrain')).json).toMatchObject({ backend: { health: 'up' } });
    expect((await ask(proxy)).body.toString()).toContain('after');
    expect(usersOf(backend)).toHaveLength(2);
  });

  it('one of the config that was taken out comes back under its name when its URL is added', async () => {
    const backend = await stage.backend({ onRequest: () => whole('b') });
    const proxy = await emptyProxy({ fleet: { ...quick.fleet, backends: [{ name: 'b', url: backend.url }] } });
    await upAt(proxy, 'b');
    await admin(proxy, 'DELETE /backends/b');
    const { status, json } = await admin(proxy, 'POST /backends', { url: backend.url });
    expect(status).toBe(201);
    expect(json).toMatchObject({ name: 'b', backend: { name: 'b', url: backend.url, source: 'config' } });
    expect(proxy.logged.find(({ msg }) => msg === 'backend added by the admin API')).toMatchObject({ backend: 'b' });
    expect(await (await fetch(`${proxy.adminUrl}/config`)).json()).toMatchObject({ leftOut: [] });
    expect((await admin(proxy, 'DELETE /backends/b')).status).toBe(200);
    expect(await shown(proxy)).toEqual([]);
  });

  it('says what is wrong, in its own words, and changes nothing then', async () => {
    const backend = await stage.backend();
    const proxy = await emptyProxy();
    await admin(proxy, 'POST /backends', { url: backend.url, name: 'one' });
    const before = await shown(proxy);
    const cases: readonly [string, unknown, number, string, string?][] = [
      ['POST /backends', {}, 400, 'is missing', 'url'],
      ['POST /backends', { ulr: 'http://x' }, 400, 'ulr: unknown key; did you mean "url"? url: is missing.', 'ulr'],
      ['POST /backends', { url: 'http://x', wieght: 1 }, 400, 'did you mean "weight"?', 'wieght'],
      ['POST /backends', '{', 400, 'no JSON'],
      ['POST /backends', { url: backend.url, name: 'two' }, 409, 'is there already, as one', 'url'],
      ['POST /backends', { url: 'http://x', name: 'one' }, 409, 'is taken', 'name'],
      ['POST /backends', JSON.stringify({ url: 'x'.repeat(70_000) }), 413, 'longer than 64 KiB'],
      ['DELETE /backends/none', undefined, 404, 'no backend none'],
      ['POST /backends/none/drain', undefined, 404, 'no backend none'],
    ];
    for (const [line, body, status, message, param] of cases) {
      const answer = await admin(proxy, line, body);
      expect([line, answer.status]).toEqual([line, status]);
      expect(answer.json.error?.message).toContain(message);
      expect(answer.json.error?.param).toBe(param);
    }
    expect((await admin(proxy, 'PUT /backends')).status).toBe(405);
    const plain = await fetch(`${proxy.adminUrl}/backends`, { method: 'POST', body: '{"url":"http://x"}' });
    expect(plain.status).toBe(415);
    expect((await shown(proxy)).map(({ name }) => name)).toEqual(before.map(({ name }) => name));
  });

  it('refuses what a page of another site sends, and takes what its own or no page does', async () => {
    const backend = await stage.backend();
    const proxy = await emptyProxy();
    await admin(proxy, 'POST /backends', { url: backend.url, name: 'one' });
    const port = new URL(proxy.adminUrl).port;
    const sent = async (headers: Record<string, string>) => {
      const client = await rawClient(Number(port));
      client.send(postBytes('/backends/one/drain', {}, { Host: `127.0.0.1:${port}`, ...headers }));
      const { status } = await client.answer();
      client.leave();
      return status;
    };
    expect(await sent({ 'Sec-Fetch-Site': 'cross-site' })).toBe(403);
    expect(await sent({ 'Sec-Fetch-Site': 'same-site' })).toBe(403);
    expect(await sent({ Origin: 'https://evil.example' })).toBe(403);
    expect(await sent({ Origin: 'null' })).toBe(403);
    expect(await sent({ Host: 'evil.example', Origin: 'http://evil.example' })).toBe(403);
    expect((await shown(proxy))[0]?.healthReason).not.toBe('asked');
    expect(await sent({ Origin: `http://127.0.0.1:${port}`, 'Sec-Fetch-Site': 'same-origin' })).toBe(200);
    expect((await shown(proxy))[0]?.healthReason).toBe('asked');
  });
});

describe('an admin listener that others reach', () => {
  it('lets nobody change the fleet unless the config says so', async () => {
    const body = { url: 'http://127.0.0.1:9', name: 'x' };
    const open = { host: '0.0.0.0', port: 0 };
    const cases = [
      [{ admin: open }, 403],
      [{ admin: open, adminChanges: 'always' }, 201],
      [{ adminChanges: 'never' }, 403],
    ] as const;
    for (const [http, status] of cases) {
      const proxy = await emptyProxy({ http });
      const answer = await admin(proxy, 'POST /backends', body);
      expect(answer.status).toBe(status);
      if (status === 403) expect(answer.json.error?.message).toContain('admin.changes');
    }
  });
});

describe('backends from elsewhere', () => {
  it('a name that resolves brings one for each of its addresses', async () => {
    const backend = await stage.backend({ onRequest: () => whole('by dns') });
    const dns = {
      name: 'localhost',
      port: backend.port,
      scheme: 'http',
      intervalMs: 1000,
      family: 'ipv4',
      path: '',
      each: { labels: { by: 'dns' } },
    } as const;
    const proxy = await emptyProxy({ discovery: { dns: [dns] } });
    expect(await shown(proxy)).toMatchObject([
      { name: 'localhost/127.0.0.1', url: backend.url, health: 'up', source: 'dns', labels: { by: 'dns' } },
    ]);
    expect((await ask(proxy)).body.toString()).toContain('by dns');
    const drained = await admin(proxy, `POST /backends/${encodeURIComponent('localhost/127.0.0.1')}/drain`);
    expect(drained.status).toBe(200);
  });

  it('a file is followed as it changes; bad content changes nothing and is named', async () => {
    const [a, b] = [
      await stage.backend({ onRequest: () => whole('A') }),
      await stage.backend({ onRequest: () => whole('B') }),
    ];
    const path = join(folder, 'backends.yaml');
    writeFileSync(path, `- { url: "${a.url}", name: a }\n`);
    const proxy = await emptyProxy({ discovery: { file: { path } } });
    const names = async () => (await shown(proxy)).map(({ name, source }) => `${name} ${source}`);
    expect(await names()).toEqual(['a file']);
    // A URL that another source names too counts once.
    expect((await admin(proxy, 'POST /backends', { url: a.url, name: 'again' })).status).toBe(409);
    writeFileSync(`${path}.new`, `[{"url": "${a.url}", "name": "a"}, {"url": "${b.url}", "name": "b"}]`);
    renameSync(`${path}.new`, path);
    await eventually(async () => (await names()).length === 2, 'the second is there');
    await upAt(proxy, 'b');
    writeFileSync(path, `- { url: "${a.url}", name: a }\n- { url: broken }\n`);
    await eventually(
      () => proxy.logged.some(({ problem }) => String(problem).includes('backends[1].url')),
      'it is named',
    );
    expect(await names()).toEqual(['a file', 'b file']);
    rmSync(path);
    await eventually(() => proxy.logged.some(({ problem }) => String(problem).includes('not there')), 'it is missed');
    expect(await names()).toEqual(['a file', 'b file']);
    writeFileSync(path, `- { url: "${b.url}", name: b }\n`);
    await eventually(async () => (await names()).join() === 'b file', 'the last one holds');
    expect((await ask(proxy)).body.toString()).toContain('B');
    const config = await fetch(`${proxy.adminUrl}/config`);
    expect(await config.json()).toMatchObject({ sources: [{ kind: 'file', name: path, backends: 1 }] });
  });
});

describe('a backend that fails at its work', () => {
  const bad = () => [wholeAnswer(500, { error: { message: 'CUDA error', code: 500 } })];
  const states = async (proxy: Proxy) =>
    (await shown(proxy)).map(({ health, healthReason, onTrial }) =>
      onTrial === true ? 'trial' : healthReason === 'ejected' ? 'ejected' : health,
    );

  it('C065 4xx neither close a trial nor end a run of failures: the breaker opens on the 500s', async () => {
    let script: readonly number[] = [];
    const backend = await stage.backend({
      onRequest() {
        const [status = 200, ...rest] = script;
        script = rest;
        return status === 200 ? whole('ok') : [wholeAnswer(status, { error: { message: 'x' } })];
      },
    });
    const proxy = await stage.proxy(backend, { change: quick });
    script = [400, 500, 400, 500, 400, 500, 400, 500, 400, 500];
    const sent = [...script];
    for (const status of sent) expect((await ask(proxy)).status).toBe(status);
    expect(await states(proxy)).toEqual(['ejected']);
    await eventually(async () => (await states(proxy))[0] === 'trial', 'its trial');
    script = [400, 500];
    expect((await ask(proxy)).status).toBe(400);
    expect(await states(proxy)).toEqual(['trial']);
    expect((await ask(proxy)).status).toBe(500);
    expect(await states(proxy)).toEqual(['ejected']);
    // The last one there is gets the work all the same; a good answer ends it.
    expect((await ask(proxy)).status).toBe(200);
    expect(await states(proxy)).toEqual(['up']);
  });

  it('gets no more work while another can do it, then one job at a time, and is back after a good one', async () => {
    let broken = true;
    const gate = gated();
    let trial = false;
    const [sick, well] = [
      await stage.backend({ onRequest: () => (broken ? bad() : trial ? gate.script() : whole('sick')) }),
      await stage.backend({ onRequest: () => whole('well') }),
    ];
    const proxy = await stage.proxy([sick, well], { change: quick });
    for (let i = 0; i < 40 && (await states(proxy))[0] !== 'ejected'; i += 1) await ask(proxy);
    const asked = usersOf(sick).length;
    expect(asked).toBe(5);
    for (let i = 0; i < 5; i += 1) expect((await ask(proxy)).body.toString()).toContain('well');
    expect(usersOf(sick)).toHaveLength(asked);
    [broken, trial] = [false, true];
    await eventually(async () => (await states(proxy))[0] === 'trial', 'its trial');
    const tried = await stage.client(proxy);
    tried.send(R0);
    for (let i = 0; i < 6 && usersOf(sick).length === asked; i += 1) await ask(proxy);
    await untilAsked(sick, asked + 1);
    for (let i = 0; i < 6; i += 1) expect((await ask(proxy)).body.toString()).toContain('well');
    expect(usersOf(sick)).toHaveLength(asked + 1);
    trial = false;
    gate.go();
    await tried.answer();
    await eventually(async () => (await states(proxy))[0] === 'up', 'it is back');
  });

  it('C062 C065 busy and refused requests eject nobody', async () => {
    const statuses = [400, 422, 429, 503];
    let nth = 0;
    const backend = await stage.backend({
      onRequest: () => [wholeAnswer(statuses[nth++ % statuses.length] ?? 400, { error: { message: 'no' } })],
    });
    const proxy = await stage.proxy(backend, { change: quick });
    for (let i = 0; i < 40; i += 1) await ask(proxy);
    expect(await states(proxy)).toEqual(['up']);
  });

  it('C068 a running stream outlives its backend’s ejection, and a busy one that answers probes late is not ejected', async () => {
    const stream = gated();
    let nth = 0;
    const backend = await stage.backend({ onRequest: () => (nth++ === 0 ? stream.script() : bad()) });
    const proxy = await stage.proxy(backend, { change: quick });
    const client = await stage.client(proxy);
    client.send(R0);
    await client.until(() => client.received.includes('"a"'));
    for (let i = 0; i < 5; i += 1) await ask(proxy);
    expect(await states(proxy)).toEqual(['ejected']);
    stream.go();
    const answer = await client.answer();
    expect(answer.complete).toBe(true);
    expect(answer.body.toString()).toContain('[DONE]');

    const slow = gated();
    let late = false;
    const busy = await stage.backend({
      onRequest: () => slow.script(),
      probes: { override: () => (late ? [hang()] : undefined) },
    });
    const second = await stage.proxy(busy, {
      change: { ...quick, fleet: { probeIntervalMs: 30, probeDownIntervalMs: 30, probeTimeoutMs: 60 } },
    });
    const runs = await stage.client(second);
    runs.send(R0);
    await runs.until(() => runs.received.includes('"a"'));
    late = true;
    await eventually(() => busy.probes.length > 6, 'several probes went unanswered');
    expect(await states(second)).toEqual(['up']);
    slow.go();
    expect((await runs.answer()).complete).toBe(true);
  });

  it('C064 is used again within one probe of coming back, without a restart', async () => {
    const backend = await stage.backend({ onRequest: () => whole('ok') });
    const proxy = await stage.proxy(backend, { change: quick });
    await backend.refuse();
    for (const { socket } of backend.connections) socket.destroy();
    for (let i = 0; i < 8; i += 1) expect((await ask(proxy)).status).toBe(502);
    await backend.listenAgain();
    await eventually(async () => (await ask(proxy)).status === 200, 'requests succeed again', 1500);
  });
});

describe('probes', () => {
  it('C075 leave the turns of users’ requests as they are', async () => {
    const onRequest = () => whole('x');
    const servers: ScriptedServer[] = [await stage.backend({ onRequest }), await stage.backend({ onRequest })];
    const proxy = await stage.proxy(servers, {
      change: { ...quick, route: { policy: 'round-robin', slowStartMs: 0 } },
    });
    const counts = () => servers.map((server) => usersOf(server).length);
    const probed = servers.map((server) => server.probes.length);
    for (let i = 0; i < 100; i += 1) expect((await ask(proxy)).status).toBe(200);
    expect(counts()).toEqual([50, 50]);
    expect(servers.every((server, index) => server.probes.length > (probed[index] ?? 0))).toBe(true);
    expect((await loadOf(proxy)).jobs).toBe(0);
  });
});
