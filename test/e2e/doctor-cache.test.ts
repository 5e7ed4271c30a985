/** `warmlane doctor --cache` before caches of every kind: it must find the truth of each, or say that it can't tell. */
import { afterEach, describe, expect, it } from 'vitest';
import type { CacheReading } from '../../src/cli/doctor/cache/interpret.ts';
import { createSimServer } from '../../src/sim/server.ts';
import { laptopLlamaServer, laptopVllmServer, type SimServerSettings } from '../../src/sim/server-settings.ts';
import type { BlockCacheSettings, SlotCacheSettings } from '../../src/sim/settings.ts';
import { cacheRules, startCacheServer, type CacheServerSettings } from '../support/cache-server.ts';
import { doctor } from '../support/doctor.ts';
import { startGateway } from '../support/gateway.ts';
import { startProxy } from '../support/proxy.ts';

const closing: { close(): Promise<unknown> }[] = [];
afterEach(async () => {
  for (const server of closing.splice(0).toReversed()) await server.close();
});
function kept<T extends { close(): Promise<unknown> }>(server: T): T {
  closing.push(server);
  return server;
}

const stepTime = { ...laptopVllmServer.engine.stepTime, baseMs: 4, perSequenceMs: 0.5, perPrefillTokenMs: 0.15 };

const sim = async (settings: SimServerSettings) => kept(await createSimServer(settings));

function vllm(cache: Partial<BlockCacheSettings>, promptTokensDetails = true) {
  const blockTokens = cache.blockTokens ?? 16;
  return sim({
    ...laptopVllmServer,
    promptTokensDetails,
    engine: {
      ...laptopVllmServer.engine,
      stepTime,
      cache: { kind: 'blocks', blockTokens, blocks: 32_768 / blockTokens, prefixCaching: true, ...cache },
    },
  });
}

function llama(cache: Partial<SlotCacheSettings> = {}) {
  return sim({
    ...laptopLlamaServer,
    engine: {
      ...laptopLlamaServer.engine,
      maxSequences: 2,
      stepTime,
      cache: { kind: 'slots', slotTokens: 4096, unified: false, ramTokens: 32_768, minSimilarity: 0.1, ...cache },
    },
  });
}

const cacheServer = async (settings: CacheServerSettings) => kept(await startCacheServer(settings));
const quick = ['--cache', '--rounds', '4'];
const read = async (url: string, flags = quick): Promise<CacheReading> => {
  const { reading } = await doctor(url, flags);
  if (reading === undefined) throw new Error('no reading');
  return reading;
};

describe('a cache that reports its hits', () => {
  it.each([16, 32, 128])('of blocks of %i tokens, shared by all', async (blockTokens) => {
    const { url } = await vllm({ blockTokens });
    const { reading, of, exitCode } = await doctor(url, quick);
    expect(reading).toMatchObject({
      kind: 'prefixes',
      by: 'counts',
      sources: ['usage'],
      granularity: { kind: 'blocks', tokens: blockTokens },
      hits: { session: 'hit', concurrent: 'hit', displaced: 'untried' },
      changedFirst: { hit: 'miss' },
      tools: { state: 'used' },
    });
    expect(reading?.tools.reordered).toBeLessThan(reading?.tools.same ?? 0);
    expect(reading?.savedMs).toBeGreaterThan(20);
    expect(of('cache.size')).toContain(`32768 tokens (${32_768 / blockTokens} blocks of ${blockTokens})`);
    expect(exitCode).toBe(0);
  });

  it('of single tokens in slots, with others beside them in RAM', async () => {
    const { url } = await llama();
    const { reading, of } = await doctor(url, quick);
    expect(reading).toMatchObject({
      kind: 'prefixes',
      sources: ['usage', 'timings', 'progress'],
      granularity: { kind: 'tokens' },
      hits: { session: 'hit', concurrent: 'miss', displaced: 'hit' },
      changedFirst: { hit: 'miss' },
    });
    expect(of('cache.size')).toBe(
      'ok 2 slots of 4096 tokens; and a RAM cache beside them, whose size (--cache-ram) it does not tell',
    );
  });

  it('of slots alone: a prompt is lost once others took them', async () => {
    expect(await read((await llama({ ramTokens: 0 })).url)).toMatchObject({
      kind: 'prefixes',
      hits: { displaced: 'miss' },
    });
  });

  it('that is switched off', async () => {
    const { of, reading } = await doctor((await vllm({ prefixCaching: false })).url, quick);
    expect(reading).toMatchObject({ kind: 'none', by: 'counts' });
    expect(of('cache.kind')).toContain('prefix caching is switched off');
  });

  it('seen through warmlane', async () => {
    const engine = await vllm({ blockTokens: 32 });
    const proxy = kept(await startProxy([engine.url]));
    const { reading, of } = await doctor(proxy.url, quick);
    expect(reading).toMatchObject({ kind: 'prefixes', granularity: { kind: 'blocks', tokens: 32 } });
    expect(of('gateway')).toBe('ok warmlane');
  });

  it('of a stranger: whole prompts, growing prompts, one session', async () => {
    const { whole, growing, session } = cacheRules;
    expect(await read((await cacheServer({ rule: whole, reports: true })).url)).toMatchObject({
      kind: 'whole_prompts',
    });
    expect(await read((await cacheServer({ rule: growing, reports: true })).url)).toMatchObject({ kind: 'growing' });
    const { reading, of } = await doctor((await cacheServer({ rule: session, reports: true })).url, quick);
    expect(reading).toMatchObject({ kind: 'prefixes', hits: { session: 'miss' } });
    expect(of('cache.sessions')).toBe('warn hits stay within one session or user');
  });

  it('that forgets the first word raises an alarm', async () => {
    const { of, exitCode } = await doctor((await cacheServer({ rule: cacheRules.stale, reports: true })).url, quick);
    expect(of('cache.first_token')).toContain('bad STALE HIT');
    expect(exitCode).toBe(1);
  });

  it('that forgets the model raises an alarm, one that knows it does not', async () => {
    const models = [
      { id: 'base', root: 'base' },
      { id: 'adapter', root: 'adapter', parent: 'base' },
    ];
    const wrong = await cacheServer({ rule: cacheRules.prefix, reports: true, models, owner: 'vllm' });
    expect((await doctor(wrong.url, quick)).of('cache.other_model')).toContain('bad STALE HIT');
    const right = await cacheServer({ rule: cacheRules.byModel, reports: true, models, owner: 'vllm' });
    expect((await doctor(right.url, quick)).of('cache.other_model')).toMatch(/^ok /);
  });

  it('that forgets the adapter raises an alarm, one that knows it does not', async () => {
    const wrong = await cacheServer({ rule: cacheRules.prefix, reports: true, owner: 'llamacpp' });
    expect((await doctor(wrong.url, quick)).of('cache.other_model')).toContain('bad STALE HIT');
    const right = await cacheServer({ rule: cacheRules.byModel, reports: true, owner: 'llamacpp' });
    expect((await doctor(right.url, quick)).of('cache.other_model')).toMatch(/^ok /);
  });

  it('of several engines that take turns hits only now and then, and says so', async () => {
    const { of, reading } = await doctor((await cacheServer({ rule: cacheRules.turns, reports: true })).url, quick);
    expect(reading?.repeats.hit).toBeLessThan(reading?.repeats.tried ?? 0);
    expect(of('cache.kind')).toMatch(/^warn/);
  });
});

describe('a cache that reports nothing', () => {
  it('is read by the counters of its engine', async () => {
    const { reading, of } = await doctor((await vllm({ blockTokens: 32 }, false)).url, quick);
    expect(reading).toMatchObject({
      kind: 'prefixes',
      sources: ['counters'],
      granularity: { kind: 'blocks', tokens: 32 },
      hits: { session: 'hit', concurrent: 'hit' },
    });
    expect(of('cache.reports')).toMatch(/^warn/);
  });

  it('is told by its times to first token alone', async () => {
    const engine = await vllm({ blockTokens: 16 }, false);
    const gateway = kept(await startGateway(engine.port, { hides: ['/metrics'] }));
    const { reading, of } = await doctor(gateway.url, ['--cache', '--rounds', '6']);
    expect(reading).toMatchObject({
      kind: 'prefixes',
      by: 'times',
      sources: [],
      granularity: { kind: 'unclear' },
      changedFirst: { hit: 'miss' },
    });
    expect(of('cache.granularity')).toMatch(/^unknown/);
    expect(reading?.savedMs).toBeGreaterThan(20);
  });

  it('is told to be off by times to first token alone', async () => {
    const { url } = await cacheServer({ rule: cacheRules.none, reports: false });
    expect(await read(url, ['--cache', '--rounds', '6'])).toMatchObject({ kind: 'none', by: 'times' });
  });

  it('before an engine too quick to show it is not guessed at', async () => {
    const { url } = await cacheServer({ rule: cacheRules.prefix, reports: false, perWordMs: 0 });
    const { reading, of } = await doctor(url, ['--cache', '--rounds', '4']);
    expect(reading?.kind).toBe('unknown');
    expect(of('cache.kind')).toMatch(/^unknown can't tell/);
  });
});

describe('the budget', () => {
  it('is stated before the start, and held', async () => {
    const { url } = await cacheServer({ rule: cacheRules.prefix, reports: true });
    const { said } = await doctor(url, quick);
    expect(said).toMatch(/^Budget: at most \d+ generating requests, [\d,]+ prompt tokens, 300 s; about/);
  });

  it('wants a word when it is large', async () => {
    const { url } = await cacheServer({ rule: cacheRules.prefix, reports: true });
    const { exitCode, said } = await doctor(url, ['--cache', '--fill']);
    expect(exitCode).toBe(2);
    expect(said).toContain('write --yes to go on');
  });

  it('--fill finds the size of a cache', async () => {
    const { url } = await vllm({ blockTokens: 16, blocks: 256 });
    const { of } = await doctor(url, ['--cache', '--fill', '--yes', '--rounds', '2', '--prompt-tokens', '300']);
    const [, from = '0', to = '0'] = /between (\d+) and (\d+) tokens/.exec(of('cache.fill') ?? '') ?? [];
    // 256 blocks of 16 tokens, of which the anchor's own half is left out.
    expect(Number(from)).toBeGreaterThan(2500);
    expect(Number(to)).toBeLessThan(5500);
  });
});
