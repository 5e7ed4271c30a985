/** Ceilings and concurrency over real sockets: what the pages say of simulated engines whose step times are known. */
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { BackendConcurrency } from '../../src/account/ceiling/ceiling-account.ts';
import type { HardwareSettings, ShapeSettings } from '../../src/account/ceiling/settings.ts';
import type { CeilingPage } from '../../src/account/ceiling/page.ts';
import { instantLlamaServer, instantVllmServer } from '../../src/sim/server-settings.ts';
import type { SimServer } from '../../src/sim/server.ts';
import type { StepTimeSettings } from '../../src/sim/settings.ts';
import { mean } from '../support/moments.ts';
import { chat, createFindingWorld, type FindingWorld, words } from '../support/finding-world.ts';
import type { Proxy } from '../support/proxy.ts';
import { eventually } from '../support/stage.ts';

let world: FindingWorld;
beforeEach(() => {
  world = createFindingWorld();
});
afterEach(() => world.close());

/** 20 ms a step and 2 ms for each sequence in it; 2,000 prompt tokens a second. A busy machine makes steps longer, never shorter. */
const stepTime: StepTimeSettings = {
  baseMs: 20,
  perSequenceMs: 2,
  perContextTokenMs: 0,
  perPrefillTokenMs: 0.5,
  perPrefillPairMs: 0,
  prefillBaseMs: 0,
  combine: 'sum',
  jitterShare: 0,
};

const servers = {
  vllm: { ...instantVllmServer, engine: { ...instantVllmServer.engine, stepTime } },
  'llama-server': { ...instantLlamaServer, engine: { ...instantLlamaServer.engine, stepTime } },
} as const;

interface Given {
  readonly engine?: keyof typeof servers;
  readonly hardware?: HardwareSettings;
  readonly shape?: Omit<ShapeSettings, 'model'>;
}

async function start(given: Given = {}): Promise<Proxy> {
  return before(await world.sim(servers[given.engine ?? 'vllm']), given);
}

function before(sim: SimServer, { hardware, shape }: Given): Promise<Proxy> {
  const backend = `127.0.0.1:${sim.port}`;
  return world.proxy([sim.url], {
    ceiling: {
      hardware: hardware === undefined ? [] : [{ backend, hardware }],
      shapes: shape === undefined ? [] : [{ model: 'simulated', ...shape }],
    },
  });
}

async function ceilingOf(proxy: Proxy): Promise<CeilingPage> {
  const answer = await fetch(`${proxy.adminUrl}/ceiling`);
  const { backends } = (await answer.json()) as { backends: CeilingPage[] };
  if (backends[0] === undefined) throw new Error('no backend on the page');
  return backends[0];
}

async function concurrencyOf(proxy: Proxy, query = ''): Promise<BackendConcurrency> {
  const answer = await fetch(`${proxy.adminUrl}/concurrency${query}`);
  const { backends } = (await answer.json()) as { backends: BackendConcurrency[] };
  if (backends[0] === undefined) throw new Error('no backend on the page');
  return backends[0];
}

/** The simulated engine's own mean gap between tokens since the last call, ms. */
function ownGaps(sim: SimServer): () => Promise<number> {
  let [sum, count] = [0, 0];
  return async () => {
    const text = await (await fetch(`${sim.url}/metrics`)).text();
    const read = (part: string) =>
      Number(new RegExp(`^vllm:inter_token_latency_seconds_${part}\\{.*\\} (\\S+)$`, 'm').exec(text)?.[1]);
    const [sumBefore, countBefore] = [sum, count];
    [sum, count] = [read('sum'), read('count')];
    return ((sum - sumBefore) * 1000) / (count - countBefore);
  };
}

/** Weights that a step reads in 16 ms of the simulated 22. */
const plausible = {
  hardware: { bandwidthGBps: 500, peakTflops: 100, pricePerHour: 3.6 },
  shape: { params: 4e9, weightFormat: 'bf16', layers: 32, heads: 32, kvHeads: 8, headDim: 128 },
} as const;

describe('the concurrency page', () => {
  it('shows what batching does in the simulator: slower for each, faster for all', async () => {
    const sim = await world.sim(servers.vllm);
    const proxy = await before(sim, plausible);
    const gapsSince = ownGaps(sim);
    for (let i = 0; i < 2; i += 1) await chat(proxy.url, { prompt: words(3, `alone-${i}`), maxTokens: 25 });
    const aloneMs = await gapsSince();
    await Promise.all(
      Array.from({ length: 8 }, (_, i) => chat(proxy.url, { prompt: words(3, `all-${i}`), maxTokens: 40 })),
    );
    const togetherMs = await gapsSince();
    const records = await proxy.records(10);
    const { levels, decodingNow } = await concurrencyOf(proxy);
    const one = levels[0];
    const eight = levels.at(-1);
    expect(decodingNow).toBe(0);
    expect(one).toMatchObject({ from: 1, to: 1, requests: 2, meanConcurrency: 1 });
    expect(eight).toMatchObject({ from: 7, to: 8, requests: 8 });
    // As the engine itself saw it: the machine may be busy, and then so is the simulator.
    for (const [level, gapMs] of [
      [one, aloneMs],
      [eight, togetherMs],
    ] as const) {
      expect((level?.userTokensPerSecond ?? 0) * gapMs).toBeGreaterThan(900);
      expect((level?.userTokensPerSecond ?? 0) * gapMs).toBeLessThan(1100);
    }
    expect(one?.tpotP99Ms).toBeGreaterThan(21);
    expect(eight?.tpotP50Ms).toBeGreaterThan(34);
    // 8 / 36 ms against 1 / 22 ms on a machine that is not busy.
    const gain = (8 / togetherMs) * aloneMs;
    expect((eight?.tokensPerSecond ?? 0) / (one?.tokensPerSecond ?? 1) / gain).toBeGreaterThan(0.8);
    expect((eight?.tokensPerSecond ?? 0) / (one?.tokensPerSecond ?? 1) / gain).toBeLessThan(1.2);
    expect(eight?.costPerMillionTokens).toBeCloseTo(1000 / (eight?.tokensPerSecond ?? 1), 2);
    const beside = records.map(({ assessment }) => assessment?.decodeConcurrency ?? 0).toSorted((a, b) => a - b);
    expect(beside.slice(0, 2)).toEqual([1, 1]);
    expect(beside[2]).toBeGreaterThan(6);
    expect(beside.at(-1)).toBeLessThanOrEqual(8);
    const wrong = await fetch(`${proxy.adminUrl}/concurrency?window=7`);
    expect(wrong.status).toBe(400);
    expect((await concurrencyOf(proxy, '?window=1')).levels).toEqual(levels);
  });

  it('forgets a stream whose client left', async () => {
    const proxy = await start();
    const leaving = new AbortController();
    const answer = await fetch(`${proxy.url}/v1/chat/completions`, {
      method: 'POST',
      headers: { 'Content-Type': 'application/json' },
      body: JSON.stringify({
        model: 'simulated',
        stream: true,
        max_tokens: 1000,
        ignore_eos: true,
        messages: [{ role: 'user', content: 'x' }],
      }),
      signal: leaving.signal,
    });
    await answer.body?.getReader().read();
    await chat(proxy.url, { maxTokens: 10 });
    leaving.abort();
    const [beside] = await proxy.records(2);
    expect(beside?.assessment?.decodeConcurrency).toBeCloseTo(2, 0);
    await chat(proxy.url, { maxTokens: 10, id: 'after' });
    const after = (await proxy.records(3)).find(({ requestId }) => requestId === 'after');
    expect(after?.assessment?.decodeConcurrency).toBe(1);
  });
});

describe('the ceiling page', () => {
  it.each(['vllm', 'llama-server'] as const)(
    'finds the prefill rate of a simulated %s within a tenth',
    async (engine) => {
      const proxy = await start({ engine });
      // Long and short ones in turn: a process that has just begun is slower.
      for (let i = 0; i < 16; i += 1)
        await chat(proxy.url, { prompt: words(60 + ((i * 7) % 16) * 80, `nonce-${i}`), maxTokens: 3 });
      await proxy.records(16);
      const { prefill, missing } = await ceilingOf(proxy);
      expect(prefill?.timing).toBe(engine === 'vllm' ? 'joint' : 'split');
      expect(prefill?.rate?.tokensPerSecond).toBeGreaterThan(1800);
      expect(prefill?.rate?.tokensPerSecond).toBeLessThan(2200);
      expect(prefill?.rSquared).toBeGreaterThan(0.7);
      // 22 ms an output token at 2 tokens a millisecond.
      expect(prefill?.rate?.inputTokensPerOutputToken).toBeGreaterThan(38);
      expect(prefill?.rate?.inputTokensPerOutputToken).toBeLessThan(90);
      expect(missing.join()).toContain('hardware');
    },
    30_000,
  );

  it('shows MFU and MBU of a configured card and model', async () => {
    const proxy = await start(plausible);
    for (let i = 0; i < 3; i += 1) await chat(proxy.url, { prompt: words(200, `nonce-${i}`), maxTokens: 60 });
    const records = await proxy.records(3);
    const { windows, problems, models, missing } = await ceilingOf(proxy);
    const minute = windows['1m'];
    // 8 GB and a little of KV at 500 GB/s, in 22 ms.
    expect(minute.mbuPercent).toBeLessThan(76);
    const stepMs = mean(records.map(({ figures }) => figures.tpotMs ?? Number.NaN));
    expect((minute.mbuPercent ?? 0) / (1610 / stepMs)).toBeGreaterThan(0.9);
    expect((minute.mbuPercent ?? 0) / (1610 / stepMs)).toBeLessThan(1.1);
    expect(minute.ceilingPercent).toBeCloseTo(minute.mbuPercent ?? 0, 3);
    expect(minute.mfuPercent).toBeGreaterThan(0.1);
    expect(minute.mfuPercent).toBeLessThan(20);
    expect(minute).toMatchObject({ requests: 3, unknownRequests: 0 });
    expect(models).toMatchObject([{ model: 'simulated', kvBytesPerToken: 131_072 }]);
    expect(models[0]?.oneUser?.tokensPerSecond).toBeCloseTo(62.5, 3);
    expect({ problems, missing }).toEqual({ problems: [], missing: [] });
  });

  it('counts what the cache saved beside what was computed', async () => {
    const proxy = await start(plausible);
    for (let i = 0; i < 3; i += 1) await chat(proxy.url, { prompt: words(1000, 'the-same'), maxTokens: 4 });
    await proxy.records(3);
    const minute = (await ceilingOf(proxy)).windows['1m'];
    const saved = (minute.savedFlopsPerSecond ?? 0) * minute.seconds;
    // Two of three prompts came from the cache, but for their last block.
    expect(saved / (2 * 1000 * 2 * 4e9)).toBeGreaterThan(0.9);
    expect(saved / (2 * 1000 * 2 * 4e9)).toBeLessThan(1.3);
    expect(minute.mfuWithoutCachePercent).toBeGreaterThan((minute.mfuPercent ?? 0) * 1.5);
  });

  it('names a wrong config, whose figures stay as they came out', async () => {
    const proxy = await start({ ...plausible, hardware: { peakTflops: 0.01, bandwidthGBps: 20 } });
    for (let i = 0; i < 3; i += 1) await chat(proxy.url, { prompt: words(50, `nonce-${i}`), maxTokens: 30 });
    await proxy.records(3);
    const { windows, problems } = await ceilingOf(proxy);
    expect(windows['1m'].mfuPercent).toBeGreaterThan(100);
    expect(windows['1m'].mbuPercent).toBeGreaterThan(100);
    expect(problems.map(({ kind }) => kind)).toEqual(['mfu_over_1', 'mbu_over_1']);
    expect(problems[0]).toMatchObject({ percent: windows['1m'].mfuPercent, windows: ['1m', '5m', '60m'] });
  });

  it('knows the size of a llama-server’s model from itself', async () => {
    const proxy = await start({ engine: 'llama-server', hardware: { bandwidthGBps: 100 } });
    await chat(proxy.url);
    await proxy.records(1);
    const { models } = await ceilingOf(proxy);
    expect(models[0]).toMatchObject({ model: 'simulated', source: 'llama_server', weightBytesFrom: 'llama_server' });
    expect(models[0]?.assumed.join()).toContain('dense');
    expect(models[0]?.oneUser?.tokensPerSecond).toBeGreaterThan(0);
  });

  it('takes the bytes that a llama-server loaded, not those that the config’s shape would make', async () => {
    const sim = await world.sim(servers['llama-server']);
    const modelsOf = async (given: Given) => (await ceilingOf(await before(sim, given))).models;
    const whenProbed = async (given: Given) => {
      await eventually(async () => (await modelsOf(given))[0]?.weightBytesFrom !== 'weight_format', 'a probe');
      return modelsOf(given);
    };
    const shape = { params: 4e9, weightFormat: 'bf16' } as const;
    const [own] = await whenProbed({ ...plausible, shape });
    expect(own).toMatchObject({ source: 'config', weightBytesFrom: 'llama_server' });
    expect(own?.weightBytes).not.toBe(8e9);
    const [given] = await whenProbed({ ...plausible, shape: { ...shape, weightBytes: 3e9 } });
    expect(given).toMatchObject({ weightBytes: 3e9, weightBytesFrom: 'config' });
  });

  it('gives its figures as metrics', async () => {
    const proxy = await start(plausible);
    await chat(proxy.url, { maxTokens: 30 });
    await proxy.records(1);
    const text = await (await fetch(`${proxy.adminUrl}/metrics`)).text();
    expect(text).toMatch(/^warmlane_backend_mbu_ratio\{[^}]*backend="127\.0\.0\.1:\d+"[^}]*\} 0\.\d+/m);
    expect(text).toMatch(/^warmlane_backend_mfu_ratio\{/m);
    expect(text).toMatch(/^warmlane_backend_decode_concurrency\{[^}]*\} 1\b/m);
  });
});
