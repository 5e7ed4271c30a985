/** Two lanes over real sockets: what engines are told of them, what online work takes back from batch, and how the cap moves. */
import { gzipSync } from 'node:zlib';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { laneDefaults, type LaneSettings } from '../../src/admit/lane-settings.ts';
import type { Engine } from '../../src/domain/names.ts';
import { hang, type Script, until } from '../../src/sim/fault-steps.ts';
import type { ScriptedServer } from '../../src/sim/faults.ts';
import type { RawRequest } from '../../src/sim/raw-request.ts';
import { chunk, DONE, FIN, lastChunk, ROLE, sseHead, T, wholeAnswer } from '../../src/sim/sse-script.ts';
import type { Proxy } from '../support/proxy.ts';
import { chatBody, postBytes, type RawClient, requestBytes } from '../support/raw-http.ts';
import { createStage, eventually, loadOf, type Stage, untilAsked, usersOf } from '../support/stage.ts';
import { handshakeBytes } from '../support/upgrade-backend.ts';

let stage: Stage;
beforeEach(() => {
  stage = createStage();
});
afterEach(() => stage.close());

const flex = { ...chatBody, stream: false, service_tier: 'flex' };
const batchRequest = postBytes('/v1/chat/completions', flex);
const onlineRequest = postBytes('/v1/chat/completions', chatBody);
const answered = wholeAnswer(200, {
  choices: [{ index: 0, message: { role: 'assistant', content: 'late' }, finish_reason: 'stop' }],
  usage: { prompt_tokens: 3, completion_tokens: 2, total_tokens: 5 },
});

interface OpenSettings {
  readonly engine: Engine;
  readonly places?: number;
  readonly lanes?: LaneSettings;
}

async function open(
  { engine, places = 1, lanes = laneDefaults }: OpenSettings,
  onRequest: (request: RawRequest) => Script,
): Promise<{ backend: ScriptedServer; proxy: Proxy }> {
  const backend = await stage.backend({ onRequest });
  const backends = [{ url: backend.url, name: 'one', engine, maxInFlight: places }];
  const proxy = await stage.proxy(backend, { change: { fleet: { backends }, admit: { lanes } } });
  return { backend, proxy };
}

async function ask(proxy: Proxy, bytes: string | Uint8Array): Promise<RawClient> {
  const client = await stage.client(proxy);
  client.send(bytes);
  return client;
}

function isBatch(request: RawRequest): boolean {
  return request.text().includes('flex');
}

function* shortStream(): Script {
  yield sseHead();
  yield chunk(ROLE);
  yield chunk(T('a'), FIN('stop'), DONE);
  yield lastChunk;
}

interface LanesPage {
  readonly lanes: readonly { readonly lane: string; readonly waiting: number }[];
  readonly backends: readonly {
    readonly backend: string;
    readonly cap: number;
    readonly cause: string;
    readonly lastCut?: { readonly cause: string };
    readonly reclaimed: number;
    readonly wastedTokens: number;
    readonly running: { readonly online: number; readonly batch: number };
    readonly abortsWork?: boolean;
  }[];
}

async function lanesOf(proxy: Proxy): Promise<LanesPage> {
  return (await (await fetch(`${proxy.adminUrl}/lanes`)).json()) as LanesPage;
}

async function backendLanes(proxy: Proxy): Promise<LanesPage['backends'][number]> {
  const [only] = (await lanesOf(proxy)).backends;
  if (only === undefined) throw new Error('no backend on /lanes');
  return only;
}

describe('what a vLLM is told of lanes', () => {
  it('C162 is a header, the client’s own overruled and its body untouched', async () => {
    const { backend, proxy } = await open({ engine: 'vllm', places: 4 }, () => [answered]);
    const own = { 'X-Vllm-Priority': '-100' };
    const bodies = [
      { ...chatBody, stream: false, priority: -7 },
      { ...flex, priority: -7 },
    ];
    for (const body of bodies) await (await ask(proxy, postBytes('/v1/chat/completions', body, own))).answer();
    const sent = usersOf(backend);
    expect(sent.map((request) => request.headers.filter(([name]) => /priority/i.test(name)))).toEqual([
      [['X-Vllm-Priority', '0']],
      [['X-Vllm-Priority', '10']],
    ]);
    expect(sent.map((request) => request.text())).toEqual(bodies.map((body) => JSON.stringify(body)));
  });

  it('is nothing where control.enginePriority is off, and the client’s own stays here all the same', async () => {
    const lanes = { ...laneDefaults, control: { ...laneDefaults.control, enginePriority: false } };
    const { backend, proxy } = await open({ engine: 'vllm', lanes }, () => [answered]);
    const body = '{"priority": -7, "model":"m","messages":[],"stream":false}';
    await (await ask(proxy, postBytes('/v1/chat/completions', body, { 'X-Vllm-Priority': '3' }))).answer();
    const [asked] = usersOf(backend);
    expect(asked?.headers.filter(([name]) => /priority/i.test(name))).toEqual([]);
    expect(asked?.text()).toBe('{"model":"m","messages":[],"stream":false}');
  });

  it('never comes from the client: by no route, and not by a handshake', async () => {
    const { backend, proxy } = await open({ engine: 'vllm' }, () => [answered]);
    const own = { 'x-vllm-priority': '-100' };
    for (const request of [
      requestBytes('GET /v1/responses/r', own),
      requestBytes('DELETE /v1/responses/r', own),
      requestBytes('PUT /v1/chat/completions', own, '{}'),
      handshakeBytes('/v1/realtime', own),
    ])
      await (await ask(proxy, request)).answer();
    const sent = usersOf(backend);
    expect(sent).toHaveLength(4);
    for (const request of sent) expect(request.header('x-vllm-priority')).toBeUndefined();
  });
});

describe('what an SGLang is told of lanes', () => {
  it('stands in the body, where the config says so, and nowhere else', async () => {
    const backend = await stage.backend({ onRequest: () => [answered] });
    const one = { url: backend.url, name: 'one', engine: 'sglang', priorityField: true } as const;
    const proxy = await stage.proxy(backend, { change: { fleet: { backends: [one] } } });
    const bodies = ['{"model":"m","messages":[]}', '{"model":"m","priority": 99,"messages":[],"service_tier":"flex"}'];
    for (const body of bodies) await (await ask(proxy, postBytes('/v1/chat/completions', body))).answer();
    expect(usersOf(backend).map((request) => request.text())).toEqual([
      '{"priority":10,"model":"m","messages":[]}',
      '{"model":"m","priority": 0,"messages":[],"service_tier":"flex"}',
    ]);
  });
});

describe('a new configuration that gives batch more', () => {
  it.each([
    ['a larger minimum share', { minShare: 0.5 }],
    ['a smaller reserve', { reserveSlots: 0 }],
  ])('by %s lets a waiting batch request go at once', async (_, given) => {
    let end = () => {};
    const ended = new Promise<void>((resolve) => (end = resolve));
    const lanesWith = (batch: Partial<LaneSettings['batch']>): LaneSettings => ({
      ...laneDefaults,
      batch: { ...laneDefaults.batch, reserveSlots: 2, ...batch },
      // No look at the cap comes in time.
      control: { ...laneDefaults.control, tickMs: 600_000, gate: false },
    });
    const { backend, proxy } = await open({ engine: 'vllm', places: 2, lanes: lanesWith({}) }, () => [
      until(ended),
      answered,
    ]);
    const online = await ask(proxy, onlineRequest);
    await untilAsked(backend, 1);
    const batch = await ask(proxy, batchRequest);
    const queued = () => proxy.app.running().filter(({ phase }) => phase === 'queued').length;
    await eventually(() => queued() === 1, 'batch waits');
    const { config } = proxy;
    proxy.app.reload({ ...config, admit: { ...config.admit, lanes: lanesWith(given) } });
    await new Promise((resolve) => setImmediate(resolve));
    expect(queued()).toBe(0);
    await untilAsked(backend, 2);
    end();
    for (const client of [online, batch]) expect(await client.answer()).toMatchObject({ status: 200 });
  });
});

describe('a backend that refuses a request for want of room', () => {
  it.each([429, 503])('with %i gets less batch, which says why', async (status) => {
    const { backend, proxy } = await open({ engine: 'vllm', places: 16 }, () => [
      wholeAnswer(status, { error: { message: 'full' } }),
    ]);
    expect(await (await ask(proxy, batchRequest)).answer()).toMatchObject({ status });
    expect(usersOf(backend)).toHaveLength(1);
    const { lastCut, cap } = await backendLanes(proxy);
    expect(lastCut).toMatchObject({ cause: 'busy' });
    expect(cap).toBeLessThan(16);
  });

  it('is asked for no less batch by a refusal that is not for want of room', async () => {
    const { proxy } = await open({ engine: 'vllm', places: 16 }, () => [
      wholeAnswer(400, { error: { message: 'no' } }),
    ]);
    await (await ask(proxy, batchRequest)).answer();
    expect(await backendLanes(proxy)).toMatchObject({ cap: 16, cause: 'no_online' });
  });
});

describe('a priority in the body of a client', () => {
  const bodies = [
    '{"priority":99, "model":"m","messages":[]}',
    '{"model":"m" , "priority" : -99 ,"messages":[]}',
    '{"model":"m","messages":[],\n"prior\\u0069ty":99}',
  ];
  const without = ['{"model":"m","messages":[]}', '{"model":"m" ,"messages":[]}', '{"model":"m","messages":[]}'];

  it.each([
    ['openai', laneDefaults, without],
    ['sglang', laneDefaults, without],
    ['vllm', laneDefaults, bodies],
    ['llama-server', laneDefaults, bodies],
    ['openai', { ...laneDefaults, control: { ...laneDefaults.control, trustClientPriority: true } }, bodies],
  ] as const)('on its way to %s', async (engine, lanes, expected) => {
    const { backend, proxy } = await open({ engine, lanes, places: 4 }, () => [answered]);
    for (const body of bodies) await (await ask(proxy, postBytes('/v1/chat/completions', body))).answer();
    expect(usersOf(backend).map((request) => request.text())).toEqual(expected);
  });

  it('is taken out where vectors are asked for, and stays where it may mean anything', async () => {
    const { backend, proxy } = await open({ engine: 'openai' }, () => [answered]);
    const body = '{"input":"x","priority":99}';
    for (const path of ['/v1/embeddings', '/v1/rerank', '/v1/jobs'])
      await (await ask(proxy, postBytes(path, body))).answer();
    expect(usersOf(backend).map((request) => request.text())).toEqual(['{"input":"x"}', '{"input":"x"}', body]);
  });

  it('is refused when it stands there twice: servers may take either', async () => {
    const { backend, proxy } = await open({ engine: 'openai' }, () => [answered]);
    const twice = '{"priority":1,"input":"x","model":"m","messages":[],"Priority":2}';
    for (const path of ['/v1/chat/completions', '/v1/embeddings']) {
      const answer = await (await ask(proxy, postBytes(path, twice))).answer();
      expect(answer.status).toBe(400);
      expect(answer.body.toString()).toContain('duplicate_key');
    }
    expect(usersOf(backend)).toEqual([]);
  });

  const text = '{"priority":99,"model":"m","messages":[]}';
  const covered = [
    ['UTF-16', {}, Buffer.from(text, 'utf16le')],
    ['UTF-16 with a mark', {}, Buffer.from(`\uFEFF${text}`, 'utf16le')],
    ['UTF-16, big end first', {}, Buffer.from(text, 'utf16le').swap16()],
    ['UTF-32', {}, Buffer.from(text.split('').flatMap((letter) => [0, 0, 0, letter.charCodeAt(0)]))],
    ['gzip', { 'Content-Encoding': 'gzip' }, gzipSync(text)],
  ] as const;

  it.each(covered)('is refused where it has to go and nobody can see it: %s', async (_, headers, body) => {
    const json = { 'Content-Type': 'application/json', ...headers };
    const { control } = laneDefaults;
    for (const [engine, lanes, status] of [
      ['openai', laneDefaults, 400],
      ['sglang', laneDefaults, 400],
      ['vllm', { ...laneDefaults, control: { ...control, enginePriority: false } }, 400],
      ['vllm', laneDefaults, 200],
      ['llama-server', laneDefaults, 200],
      ['openai', { ...laneDefaults, control: { ...control, trustClientPriority: true } }, 200],
    ] as const) {
      const { backend, proxy } = await open({ engine, lanes, places: 4 }, () => [answered]);
      for (const path of ['/v1/chat/completions', '/v1/embeddings']) {
        const answer = await (await ask(proxy, requestBytes(`POST ${path}`, json, body))).answer();
        expect([engine, answer.status]).toEqual([engine, status]);
        if (status === 400) expect(answer.body.toString()).toMatch(/trustClientPriority.*body_unreadable/s);
      }
      // It may mean anything here.
      const other = await (await ask(proxy, requestBytes('POST /v1/jobs', json, body))).answer();
      expect(other.status).toBe(200);
      expect(usersOf(backend)).toHaveLength(status === 200 ? 3 : 1);
    }
  });

  it.each(['{"priority":99,', '[{"priority":99}]', 'priority=99', '{"a":"\u0000"} x'])(
    "is the engine's to refuse in what is JSON for nobody: %s",
    async (body) => {
      const { backend, proxy } = await open({ engine: 'openai' }, () => [answered]);
      const answer = await (await ask(proxy, postBytes('/v1/chat/completions', body))).answer();
      expect(answer.status).toBe(200);
      expect(usersOf(backend)[0]?.text()).toBe(body);
    },
  );

  it('goes out beside what else is changed in the body', async () => {
    const { backend, proxy } = await open({ engine: 'sglang' }, () => [answered]);
    const streamed = '{"priority":99,"stream":true,"model":"m","messages":[]}';
    await (await ask(proxy, postBytes('/v1/chat/completions', streamed))).answer();
    expect(usersOf(backend)[0]?.text()).toBe(
      '{"stream_options":{"include_usage":true},"stream":true,"model":"m","messages":[]}',
    );
  });
});

describe('an online request that finds every place taken by batch', () => {
  it('gets one at once; the batch request is ended without its client’s knowing, and runs again', async () => {
    let batchRuns = 0;
    const { backend, proxy } = await open({ engine: 'vllm' }, (request) => {
      if (!isBatch(request)) return shortStream();
      batchRuns += 1;
      return batchRuns === 1 ? [hang()] : [answered];
    });
    const batch = await ask(proxy, batchRequest);
    const first = await untilAsked(backend, 1);
    const online = await ask(proxy, onlineRequest);
    expect(await online.answer()).toMatchObject({ status: 200, complete: true });
    expect(backend.connectionOf(first).open).toBe(false);
    const answer = await batch.answer();
    expect(answer).toMatchObject({ status: 200, complete: true });
    expect(answer.body.toString()).toContain('late');
    const records = await proxy.records(2);
    const record = records.find(({ lane }) => lane === 'batch');
    expect(record).toMatchObject({ outcome: 'ok', reclaimed: 1, attempts: 2 });
    expect(record?.failedAttempts).toEqual([{ backend: 'one', outcome: 'rejected', reason: 'reclaimed' }]);
    expect(records.find(({ lane }) => lane === 'online')?.figures.ttftMs).toBeLessThan(1000);
    expect(await backendLanes(proxy)).toMatchObject({ reclaimed: 1, abortsWork: true });
    expect((await backendLanes(proxy)).wastedTokens).toBeGreaterThan(0);
    expect(proxy.logged.filter(({ msg }) => msg === 'backend ejected: it failed at its work')).toEqual([]);
  });

  it('takes one and the same request back twice, and waits for it the third time', async () => {
    let free: (() => void) | undefined;
    const { backend, proxy } = await open({ engine: 'vllm' }, (request) => {
      if (!isBatch(request)) return shortStream();
      const held = new Promise<void>((resolve) => (free = resolve));
      return (async function* () {
        await held;
        yield answered;
      })();
    });
    const batch = await ask(proxy, batchRequest);
    await untilAsked(backend, 1);
    for (const round of [1, 2]) {
      expect(await (await ask(proxy, onlineRequest)).answer()).toMatchObject({ status: 200 });
      await untilAsked(backend, 1 + 2 * round);
    }
    const online = await ask(proxy, onlineRequest);
    await eventually(async () => (await lanesOf(proxy)).lanes[0]?.waiting === 1, 'the third one waits');
    free?.();
    expect(await batch.answer()).toMatchObject({ status: 200, complete: true });
    expect(await online.answer()).toMatchObject({ status: 200, complete: true });
    expect((await proxy.records(4)).find(({ lane }) => lane === 'batch')?.reclaimed).toBe(2);
  });

  it('R09 leaves an answer in one piece on a llama-server to its end: leaving would free nothing there', async () => {
    const { backend, proxy } = await open({ engine: 'llama-server' }, (request) =>
      isBatch(request) ? [600, answered] : shortStream(),
    );
    const batch = await ask(proxy, batchRequest);
    await untilAsked(backend, 1);
    const online = await ask(proxy, onlineRequest);
    expect(await batch.answer()).toMatchObject({ status: 200, complete: true });
    expect(await online.answer()).toMatchObject({ status: 200, complete: true });
    expect((await backendLanes(proxy)).reclaimed).toBe(0);
  });

  it('R10 takes a stream without a head back from a llama-server, and counts its slot as taken until that says it is free', async () => {
    let busy = 1;
    const backend = await stage.backend({
      probes: {
        engine: 'llama-server',
        slots: 1,
        override: (request) =>
          request.target.startsWith('/slots')
            ? [wholeAnswer(200, [{ id: 0, n_ctx: 4096, is_processing: busy > 0 }], { Server: 'llama.cpp' })]
            : undefined,
      },
      onRequest: (request) => (isBatch(request) ? [hang()] : shortStream()),
    });
    const proxy = await stage.proxy(backend);
    const batch = await ask(proxy, postBytes('/v1/chat/completions', { ...flex, stream: true }));
    const first = await untilAsked(backend, 1);
    const online = await ask(proxy, onlineRequest);
    await eventually(() => !backend.connectionOf(first).open, 'the batch request is ended');
    await eventually(async () => (await loadOf(proxy)).ghostSlots === 1, 'its slot counts as taken');
    expect(usersOf(backend)).toHaveLength(1);
    busy = 0;
    expect(await online.answer()).toMatchObject({ status: 200, complete: true });
    expect((await backendLanes(proxy)).reclaimed).toBe(1);
    batch.leave();
  });

  it('leaves a stream alone that its client has begun to read', async () => {
    const { backend, proxy } = await open({ engine: 'vllm' }, (request) =>
      isBatch(request)
        ? [sseHead(), chunk(ROLE), chunk(T('a')), 500, chunk(T('b'), FIN('stop'), DONE), lastChunk]
        : shortStream(),
    );
    const batch = await ask(proxy, postBytes('/v1/chat/completions', { ...flex, stream: true }));
    await untilAsked(backend, 1);
    await batch.until(() => batch.received.includes('"a"'));
    const online = await ask(proxy, onlineRequest);
    expect(await online.answer()).toMatchObject({ status: 200, complete: true });
    expect((await batch.answer()).body.toString()).toContain('[DONE]');
    expect((await backendLanes(proxy)).reclaimed).toBe(0);
  });

  it('takes nothing back from an engine of which nobody knows whether it stops', async () => {
    const { backend, proxy } = await open({ engine: 'openai' }, (request) =>
      isBatch(request) ? [400, answered] : shortStream(),
    );
    const batch = await ask(proxy, batchRequest);
    await untilAsked(backend, 1);
    const online = await ask(proxy, onlineRequest);
    expect(await batch.answer()).toMatchObject({ status: 200, complete: true });
    expect(await online.answer()).toMatchObject({ status: 200, complete: true });
    expect((await backendLanes(proxy)).reclaimed).toBe(0);
  });
});

describe('the cap on batch', () => {
  it('falls while an online stream is slower than its bound, and rises again when it is done', async () => {
    const control = { ...laneDefaults.control, tickMs: 50, tpotMs: 20, gate: false, idleMs: 60_000 };
    const { proxy } = await open({ engine: 'vllm', places: 8, lanes: { ...laneDefaults, control } }, (request) =>
      isBatch(request) ? [4000, answered] : slowStream(),
    );
    const online = await ask(proxy, onlineRequest);
    await online.until(() => online.received.includes('"t0"'));
    const batch = await Promise.all([1, 2, 3].map(() => ask(proxy, batchRequest)));
    await eventually(async () => (await backendLanes(proxy)).cap === 0, 'the cap is down');
    expect(['tpot', 'itl']).toContain((await backendLanes(proxy)).cause);
    await online.answer();
    await eventually(async () => (await backendLanes(proxy)).cap >= 1, 'the cap is up again', 9000);
    for (const client of batch) client.leave();
  });

  it('is shown in metrics, beside who waits and what runs', async () => {
    const { backend, proxy } = await open({ engine: 'vllm', places: 2 }, (request) =>
      isBatch(request) ? [hang()] : shortStream(),
    );
    const batch = await ask(proxy, batchRequest);
    await untilAsked(backend, 1);
    const text = await (await fetch(`${proxy.adminUrl}/metrics`)).text();
    for (const line of [
      'warmlane_batch_cap{backend="one"} 2',
      'warmlane_lane_running{backend="one",lane="batch"} 1',
      'warmlane_lane_queue_jobs{lane="online"} 0',
      'warmlane_batch_reclaimed_total{backend="one"} 0',
    ])
      expect(text).toContain(line);
    batch.leave();
  });
});

/** 40 tokens at 50 ms. */
function* slowStream(): Script {
  yield sseHead();
  yield chunk(ROLE);
  for (let i = 0; i < 40; i += 1) {
    yield chunk(T(`t${i}`));
    yield 50;
  }
  yield chunk(FIN('stop'), DONE);
  yield lastChunk;
}
