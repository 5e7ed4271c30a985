/** The whole fleet over real sockets, against servers that answer with the recorded bytes of the real ones. */
import { readFileSync } from 'node:fs';
import net, { type AddressInfo } from 'node:net';
import { afterEach, expect, it } from 'vitest';
import { describeFleet } from '../../../src/fleet/describe.ts';
import { findLocalServers } from '../../../src/fleet/discover.ts';
import { createFleet, type Fleet } from '../../../src/fleet/fleet.ts';
import { createProbeFetch } from '../../../src/fleet/probe-fetch.ts';
import type { ProbeTarget } from '../../../src/fleet/probe-port.ts';
import type { FleetSettings } from '../../../src/fleet/settings.ts';
import { systemClock } from '../../../src/platform/clock.ts';
import { silentLog } from '../../../src/platform/log.ts';
import { createFakeClock, settle } from '../../support/fake-clock.ts';
import { llamaAnswers, llamaProps, vllmAnswers, type Script } from './scripted-backend.ts';

interface RawServer {
  readonly port: number;
  readonly url: string;
  /** Path → whole answer, as bytes on the wire. */
  answers: Record<string, string>;
  otherwise: string;
  readonly asked: string[];
  close(): Promise<void>;
}

const servers: RawServer[] = [];
let fleet: Fleet | undefined;

afterEach(async () => {
  fleet?.stop();
  fleet = undefined;
  await Promise.all(servers.splice(0).map((server) => server.close()));
});

async function listenRaw(answers: Record<string, string>, port = 0): Promise<RawServer> {
  const sockets = new Set<net.Socket>();
  const listener = net.createServer((socket) => {
    sockets.add(socket);
    socket.on('close', () => sockets.delete(socket));
    socket.on('error', () => socket.destroy());
    let text = '';
    socket.on('data', (chunk) => {
      text += chunk.toString('latin1');
      if (!text.includes('\r\n\r\n')) return;
      const path = text.split(' ')[1] ?? '';
      server.asked.push(path);
      socket.end(server.answers[path] ?? server.otherwise, 'latin1');
    });
  });
  await new Promise<void>((resolve) => listener.listen(port, '127.0.0.1', resolve));
  const bound = (listener.address() as AddressInfo).port; // A TCP server's address is no string.
  const server: RawServer = {
    port: bound,
    url: `http://127.0.0.1:${bound}`,
    answers,
    otherwise: onWire({ status: 404, headers: {}, body: '{"detail":"Not Found"}' }),
    asked: [],
    close() {
      for (const socket of sockets) socket.destroy();
      return new Promise((resolve) => void listener.close(() => resolve()));
    },
  };
  servers.push(server);
  return server;
}

function recorded(name: string): string {
  return readFileSync(`test/fixtures/recorded/llama-server/${name}/response.http`, 'latin1');
}

function onWire(script: Script): string {
  if (script === 'hang' || !('status' in script)) throw new Error('only whole answers go on the wire');
  const headers = Object.entries({ ...script.headers, 'content-length': String(Buffer.byteLength(script.body)) });
  return `HTTP/1.1 ${script.status} X\r\n${headers.map(([name, value]) => `${name}: ${value}\r\n`).join('')}\r\n${script.body}`;
}

const wired = (answers: Record<string, Script>) =>
  Object.fromEntries(Object.entries(answers).map(([path, script]) => [path, onWire(script)]));

const recordedLlama = (models = 'models') => ({
  ...wired(llamaAnswers()),
  '/v1/models': recorded(models),
  '/props': onWire(llamaProps({ endpoint_metrics: false })),
});

function settingsFor(...urls: string[]): FleetSettings {
  const backends = urls.map((url) => ({ name: url.slice('http://'.length), url }));
  return { backends, probeIntervalMs: 5000, probeDownIntervalMs: 1000, probeTimeoutMs: 2000, engineMetrics: false };
}

const realFetch = (target: ProbeTarget) => createProbeFetch(target, systemClock);

it.each(['models', 'b11549-models'])(
  'a llama-server that lists its models as recorded in %s is known',
  async (name) => {
    const server = await listenRaw(recordedLlama(name));
    fleet = createFleet(settingsFor(server.url), {
      clock: systemClock,
      log: silentLog,
      probeFetch: realFetch,
      ownLoad: () => ({ jobs: 0, slots: 0 }),
    });
    await fleet.start();
    expect(describeFleet(fleet.snapshot())).toEqual([
      `llama-server b1-7e4c0a9 at ${server.url} · models smollm2 · 2 slots · context 2048 tokens · up`,
      '  its counters of tokens and cache hits are closed; start llama-server with --metrics',
    ]);
  },
);

it('a vLLM, a llama-server that loads as recorded, one that refuses the key as recorded, and a closed port', async () => {
  const vllm = await listenRaw(wired(vllmAnswers()));
  const loading = await listenRaw({});
  loading.otherwise = recorded('error-503-loading');
  const locked = await listenRaw({ ...recordedLlama(), '/props': recorded('error-401') });
  const closed = await listenRaw({});
  await closed.close();
  fleet = createFleet(settingsFor(vllm.url, loading.url, locked.url, closed.url), {
    clock: systemClock,
    log: silentLog,
    probeFetch: realFetch,
    ownLoad: () => ({ jobs: 0, slots: 0 }),
  });
  await fleet.start();
  expect(describeFleet(fleet.snapshot())).toEqual([
    `vllm 0.32.0 at ${vllm.url} · models m1, my-lora · context 32768 tokens · block 16 · cache 9168 tokens · up`,
    `llama-server at ${loading.url} · loading its model`,
    `llama-server at ${locked.url} · models smollm2 · context 2048 tokens · refuses the key: set its apiKey`,
    `unknown engine at ${closed.url} · down (connection refused)`,
  ]);
});

it('R10 the recorded /slots of a busy server keep a ghost, those of an idle one end it', async () => {
  const clock = createFakeClock();
  const server = await listenRaw({ ...recordedLlama(), '/slots': recorded('slots-busy') });
  const [backend] = settingsFor(server.url).backends;
  if (backend === undefined) throw new Error('no backend');
  fleet = createFleet(settingsFor(server.url), {
    clock,
    log: silentLog,
    probeFetch: realFetch,
    ownLoad: () => ({ jobs: 1, slots: 1 }),
  });
  await fleet.start();
  fleet.ghost(backend.name, 1);
  const ghosts = () => fleet?.snapshot().backends[0]?.ghostSlots;
  clock.advance(2000);
  await until(() => server.asked.at(-1) === '/slots');
  expect(ghosts()).toBe(1);
  server.answers['/slots'] = recorded('slots-idle');
  const asked = server.asked.length;
  // The round ends on a real socket, and the next one is armed only then: time has to move on until it is asked.
  await until(() => {
    clock.advance(100);
    return server.asked.slice(asked).includes('/slots');
  });
  await until(() => ghosts() === 0);
});

it('R04 C064 over real sockets: a closed port is refused and told, and a server that comes back there is up again', async () => {
  const server = await listenRaw(wired(vllmAnswers()));
  const settings: FleetSettings = { ...settingsFor(server.url), probeIntervalMs: 20, probeDownIntervalMs: 20 };
  const refusals: string[] = [];
  fleet = createFleet(settings, {
    clock: systemClock,
    log: silentLog,
    probeFetch: realFetch,
    ownLoad: () => ({ jobs: 0, slots: 0 }),
  });
  fleet.onRefused((name) => refusals.push(name));
  await fleet.start();
  const health = () => fleet?.snapshot().backends[0]?.health;
  expect(health()).toBe('up');
  await server.close();
  await until(() => health() === 'down');
  expect(refusals).toEqual([`127.0.0.1:${server.port}`]);
  await listenRaw(wired(vllmAnswers()), server.port);
  await until(() => health() === 'up');
});

it('finds the model servers among what listens at the usual places', async () => {
  const llama = await listenRaw(recordedLlama());
  const website = await listenRaw({ '/v1/models': onWire({ status: 200, headers: {}, body: '<html>' }) });
  const loading = await listenRaw({});
  loading.otherwise = recorded('error-503-loading');
  const vllm = await listenRaw(wired(vllmAnswers()));
  const closed = await listenRaw({});
  await closed.close();
  const ports = [website, vllm, closed, loading, llama].map((server) => server.port);
  const found = await findLocalServers({ clock: systemClock, probeFetch: realFetch }, ports, 2000);
  expect(found).toEqual([vllm.url, loading.url, llama.url]);
});

it('a silent server at a usual place costs no more than the time limit', async () => {
  const clock = createFakeClock();
  const hanging = () => (_path: string, options: { timeoutMs: number }) =>
    new Promise<{ failure: 'timeout'; detail: string }>((resolve) => {
      clock.timer(options.timeoutMs, () => resolve({ failure: 'timeout', detail: '' }));
    });
  const finding = findLocalServers({ clock, probeFetch: hanging });
  clock.advance(300);
  expect(await finding).toEqual([]);
});

async function until(holds: () => boolean): Promise<void> {
  while (!holds()) await settle();
}
