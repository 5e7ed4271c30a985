/** Prefill ahead of time against simulated engines: who is warmed, what a user gains, and that nobody waits for it. */
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { RequestRecord } from '../../src/domain/record.ts';
import type { WarmUpSettings } from '../../src/route/warm-up-settings.ts';
import { reset } from '../../src/sim/fault-steps.ts';
import { createScriptedServer } from '../../src/sim/faults.ts';
import { createSimServer, type SimServer } from '../../src/sim/server.ts';
import { instantLlamaServer, instantVllmServer, type SimServerSettings } from '../../src/sim/server-settings.ts';
import { wholeAnswer } from '../../src/sim/sse-script.ts';
import type { ConfigChange, Proxy } from '../support/proxy.ts';
import { startProxy } from '../support/proxy.ts';
import { eventually, sleep, untilIdle } from '../support/stage.ts';

const words = (count: number, first: string) => Array.from({ length: count }, (_, i) => `${first}${i}`).join(' ');
const instructions = words(1500, 'rule');
const system = { role: 'system', content: instructions };
const warmUp: WarmUpSettings = {
  prompts: [
    {
      name: 'warmUp.prompts[0]',
      path: '/v1/chat/completions',
      body: JSON.stringify({ model: 'simulated', messages: [system] }),
    },
  ],
  hottest: { enabled: false, count: 4, maxBytes: 1024 * 1024 },
  maxConcurrentPerFleet: 2,
  timeoutMs: 30_000,
};
const none: WarmUpSettings = { ...warmUp, prompts: [] };

let servers: SimServer[] = [];
let proxies: Proxy[] = [];
beforeEach(() => {
  servers = [];
  proxies = [];
});
afterEach(async () => {
  for (const proxy of proxies) {
    await untilIdle(proxy);
    const errors = proxy.logged.filter(({ level }) => level === 'error');
    await proxy.close();
    if (errors.length > 0) throw new Error(JSON.stringify(errors));
  }
  await Promise.all(servers.map((server) => server.close()));
});

async function sim(settings: SimServerSettings, port = 0): Promise<SimServer> {
  const server = await createSimServer(settings, { port });
  servers.push(server);
  return server;
}

async function serve(backends: readonly SimServer[], change: ConfigChange): Promise<Proxy> {
  const proxy = await startProxy(
    backends.map(({ url }) => url),
    { ...change, fleet: { probeIntervalMs: 100, probeDownIntervalMs: 100, probeTimeoutMs: 1000 } },
  );
  proxies.push(proxy);
  return proxy;
}

async function chat(proxy: Proxy, question: string, maxTokens = 3): Promise<RequestRecord> {
  const requestId = `user-${question.slice(0, 40).replaceAll(' ', '-')}-${Math.random().toString(36).slice(2)}`;
  const body = {
    model: 'simulated',
    stream: true,
    max_tokens: maxTokens,
    messages: [system, { role: 'user', content: question }],
  };
  const answer = await fetch(`${proxy.url}/v1/chat/completions`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', 'x-request-id': requestId },
    body: JSON.stringify(body),
  });
  await answer.text();
  expect(answer.status).toBe(200);
  let found: RequestRecord | undefined;
  await eventually(async () => {
    found = (await proxy.records(1)).find((record) => record.requestId === requestId);
    return found !== undefined;
  }, 'the record of a user');
  if (found === undefined) throw new Error('no record');
  return found;
}

async function warmUps(proxy: Proxy): Promise<readonly RequestRecord[]> {
  return (await proxy.records(0)).filter(({ marks }) => marks.includes('warm_up'));
}

async function untilWarm(proxy: Proxy, count: number): Promise<readonly RequestRecord[]> {
  let found: readonly RequestRecord[] = [];
  await eventually(async () => (found = await warmUps(proxy)).length >= count, `${count} warm-ups`, 15_000);
  return found;
}

async function metric(proxy: Proxy, start: string): Promise<number | undefined> {
  const text = await (await fetch(`${proxy.adminUrl}/metrics`)).text();
  const lines = text.split('\n').filter((line) => line.startsWith(start));
  return lines.length === 0 ? undefined : lines.reduce((sum, line) => sum + Number(line.split(' ').at(-1)), 0);
}

const isUp = (proxy: Proxy) => proxy.app.fleet.snapshot().backends.every(({ health }) => health === 'up');

const kinds: readonly (readonly [string, SimServerSettings])[] = [
  ['vLLM', instantVllmServer],
  ['llama-server', instantLlamaServer],
];

describe('prefill ahead of time', () => {
  it.each(kinds)('warms a %s that starts: its first user finds the prompt in the cache', async (_name, settings) => {
    const proxy = await serve([await sim(settings)], { warmUp });
    const [warm] = await untilWarm(proxy, 1);
    expect(warm).toMatchObject({ lane: 'batch', outcome: 'ok', attempts: 1, routing: { policy: 'warm' } });
    expect(warm?.routing?.cause).toBeUndefined();
    const promptTokens = warm?.tokens.prompt?.value ?? 0;
    expect(promptTokens).toBeGreaterThan(1000);
    const first = await chat(proxy, 'first question');
    expect(first.tokens.cached?.value).toBeGreaterThan(promptTokens * 0.9);
    expect(first).toMatchObject({ lane: 'online', warmth: 'prefix_hit' });
    // Routing knew of it, too.
    expect(first.routing?.predictedTokens).toBeGreaterThan(promptTokens * 0.8);
    const again = await chat(proxy, 'second question');
    expect(again.tokens.cached?.value).toBeGreaterThan(0);
    expect(await metric(proxy, 'warmlane_warm_up_prompts_total')).toBe(1);
    expect(await metric(proxy, 'warmlane_warm_up_tokens_total')).toBe(promptTokens);
    expect(await metric(proxy, 'warmlane_warm_up_used_total')).toBe(1);
    expect(await metric(proxy, 'warmlane_warm_up_saved_seconds_total')).toBeGreaterThan(0);
  });

  it('warms a backend that was started anew, before its next user', async () => {
    const server = await sim(instantVllmServer);
    const proxy = await serve([server], { warmUp });
    await untilWarm(proxy, 1);
    await server.close();
    await eventually(() => !isUp(proxy), 'seen down');
    await sim(instantVllmServer, server.port);
    const [, second] = await untilWarm(proxy, 2);
    expect(second?.tokens.cached?.value).toBe(0);
    const user = await chat(proxy, 'after the restart');
    expect(user.tokens.cached?.value).toBeGreaterThan(1000);
  });

  it('is no traffic of users: not in the windows, though the engine is known to have worked', async () => {
    const proxy = await serve([await sim(instantVllmServer)], { warmUp });
    await untilWarm(proxy, 1);
    const stats = (await (await fetch(`${proxy.adminUrl}/stats`)).json()) as { populations: unknown[] };
    expect(stats.populations).toEqual([]);
    expect(await metric(proxy, 'warmlane_requests_marked_total{mark="warm_up"')).toBe(1);
  });

  it('makes way at once on a llama-server with one slot: its user does not wait for it', async () => {
    const slow: SimServerSettings = {
      ...instantLlamaServer,
      abortPollMs: 50,
      engine: {
        ...instantLlamaServer.engine,
        maxSequences: 1,
        stepTokens: 64,
        // The warm-up's prompt takes more than three seconds.
        stepTime: { ...instantLlamaServer.engine.stepTime, perPrefillTokenMs: 1 },
      },
    };
    const proxy = await serve([await sim(slow)], { warmUp });
    await eventually(
      () => proxy.app.running().some(({ phase }) => phase === 'waiting_first_token' || phase === 'waiting_head'),
      'a warm-up runs',
    );
    await sleep(300);
    const began = performance.now();
    const answer = await fetch(`${proxy.url}/v1/chat/completions`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ model: 'simulated', max_tokens: 1, messages: [{ role: 'user', content: 'quick' }] }),
    });
    await answer.text();
    expect(answer.status).toBe(200);
    const tookMs = performance.now() - began;
    expect(tookMs).toBeLessThan(1500);
    const first = (await warmUps(proxy))[0];
    expect(first).toMatchObject({ outcome: 'client_abort', lane: 'batch' });
    const text = await (await fetch(`${proxy.adminUrl}/metrics`)).text();
    expect(text).toMatch(/warmlane_warm_up_prompts_total\{[^}]*ending="aborted"[^}]*\} 1/);
    // Then it is the warm-up's turn again, once.
    const [, second] = await untilWarm(proxy, 2);
    expect(second?.outcome).toBe('ok');
  });

  it('R10 counts the slot of a llama-server as busy where it left a warm-up in the middle of a batch, until that is over', async () => {
    const { engine } = instantLlamaServer;
    const slow: SimServerSettings = {
      ...instantLlamaServer,
      abortPollMs: 50,
      // The whole of the warm-up's prompt in one batch: more than three seconds.
      engine: { ...engine, maxSequences: 1, stepTokens: 8192, stepTime: { ...engine.stepTime, perPrefillTokenMs: 1 } },
    };
    const [left, other] = [
      await sim(slow),
      await sim({ ...instantLlamaServer, engine: { ...engine, maxSequences: 1 } }),
    ];
    const proxy = await serve([left, other], { warmUp: { ...warmUp, timeoutMs: 500 } });
    const name = `127.0.0.1:${left.port}`;
    const ghosts = () => proxy.app.fleet.snapshot().backends.map(({ ghostSlots }) => ghostSlots);
    await eventually(() => ghosts()[0] === 1, 'the slot of the warm-up that was left is a ghost');
    expect(ghosts()).toEqual([1, 0]);
    const abandoned = (await warmUps(proxy)).find(({ backend }) => backend === name);
    expect(abandoned?.outcome).toBe('client_abort');
    expect(abandoned?.marks).toContain('engine_may_go_on');
    // Nobody is sent behind it, whatever their prompts' beginnings point to; no warm-up is, either.
    for (const question of ['red', 'green', 'blue', 'black', 'white', 'brown']) {
      const answer = await fetch(`${proxy.url}/v1/completions`, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify({ model: 'simulated', max_tokens: 1, prompt: question }),
      });
      await answer.text();
      expect([answer.status, answer.headers.get('x-warmlane-backend')]).toEqual([200, `127.0.0.1:${other.port}`]);
    }
    expect(ghosts()).toEqual([1, 0]);
    await eventually(() => ghosts()[0] === 0, 'the batch is over, and /slots shows it', 15_000);
  });

  it('waits for a busy backend', async () => {
    const slow: SimServerSettings = {
      ...instantVllmServer,
      engine: { ...instantVllmServer.engine, stepTime: { ...instantVllmServer.engine.stepTime, baseMs: 25 } },
    };
    const server = await sim(slow);
    const proxy = await serve([server], { warmUp });
    await untilWarm(proxy, 1);
    const user = chat(proxy, 'a long answer', 60);
    await eventually(() => proxy.app.running().some(({ phase }) => phase === 'streaming'), 'it streams');
    // Taken out and back: it is to be warmed anew, though a stream runs on there.
    for (const verb of ['drain', 'undrain']) {
      const answer = await fetch(`${proxy.adminUrl}/backends/127.0.0.1:${server.port}/${verb}`, { method: 'POST' });
      expect(answer.status).toBe(200);
    }
    const { timeline } = await user;
    const [, second] = await untilWarm(proxy, 2);
    expect(second?.outcome).toBe('ok');
    expect(second?.timeline.received).toBeGreaterThanOrEqual(timeline.end ?? Infinity);
  });

  it('warms by opt-in what many users begin with, though the config names nothing', async () => {
    const [one, two] = [await sim(instantVllmServer), await sim(instantVllmServer)];
    const hottest = { ...none, hottest: { ...none.hottest, enabled: true } };
    const proxy = await serve([one, two], { warmUp: hottest });
    await eventually(() => isUp(proxy), 'both up');
    for (let i = 0; i < 5; i += 1) await chat(proxy, `question ${i}`);
    expect(await warmUps(proxy)).toEqual([]);
    expect(await metric(proxy, 'warmlane_warm_up_remembered_bytes')).toBeGreaterThan(instructions.length);
    await two.close();
    await eventually(() => !isUp(proxy), 'seen down');
    await sim(instantVllmServer, two.port);
    const [warm] = await untilWarm(proxy, 1);
    expect(warm).toMatchObject({ outcome: 'ok', backend: `127.0.0.1:${two.port}` });
    expect(warm?.tokens.prompt?.value).toBeGreaterThan(1000);
  });

  it('costs nothing where it fails, and is said once', async () => {
    const wrong = {
      ...warmUp,
      prompts: [{ name: 'p', path: '/v1/chat/completions', body: '{"model":"other","messages":[]}' }],
    };
    const proxy = await serve([await sim(instantVllmServer)], { warmUp: wrong });
    await untilWarm(proxy, 2);
    await sleep(400);
    expect(await warmUps(proxy)).toHaveLength(2);
    expect(proxy.logged.filter(({ msg, message }) => String(msg ?? message).includes('ahead of time'))).toHaveLength(1);
    await chat(proxy, 'all the same');
  });

  it('ejects no backend where it fails, and leaves it alone then', async () => {
    let asked = 0;
    const backend = await createScriptedServer({
      probes: {
        override({ target }) {
          if (target !== '/v1/chat/completions') return undefined;
          asked += 1;
          // In turn: an error of the server's own, and the end of one that dies of the prompt.
          return asked % 2 === 0 ? [reset()] : [wholeAnswer(500, { error: { message: 'boom' } })];
        },
      },
    });
    const prompts = Array.from({ length: 6 }, (_, i) => ({
      name: `p${i}`,
      path: '/v1/chat/completions',
      body: `{"messages":[{"role":"system","content":"${i}"}]}`,
    }));
    const proxy = await startProxy([backend.url], {
      warmUp: { ...warmUp, prompts },
      fleet: { probeIntervalMs: 100, probeDownIntervalMs: 100, probeTimeoutMs: 1000 },
    });
    proxies.push(proxy);
    await untilWarm(proxy, 12);
    await sleep(1000);
    expect(asked).toBe(12);
    expect(isUp(proxy)).toBe(true);
    expect(await metric(proxy, 'warmlane_backend_ejections_total')).toBe(0);
    expect(proxy.logged.filter(({ msg, to }) => String(msg).startsWith('backend ') && to !== 'up')).toEqual([]);
    await backend.close();
  });
});
