import { describe, expect, it } from 'vitest';
import { pooledHitShare } from '../../../../src/sim/fleet/cache-bounds.ts';
import { changed, coldPrefillMs, engineModels, kvTokensOf } from '../../../../src/sim/fleet/engine-models.ts';
import { promptChain } from '../../../../src/sim/fleet/prompt-chain.ts';
import { createSimFleet } from '../../../../src/sim/fleet/sim-fleet.ts';
import { hashedPrompt } from '../../../../src/sim/prompt.ts';
import { createVirtualClock } from '../../../../src/sim/virtual-clock.ts';

const h100 = engineModels['vllm-h100'].settings;

describe('the chain of a trace’s prompt', () => {
  it('is equal as far as the ids are, and not behind', () => {
    const one = promptChain(hashedPrompt(1500, [1, 2, 3], 512));
    const other = promptChain(hashedPrompt(1500, [1, 2, 4], 512));
    expect([...one.ends]).toEqual([2048, 4096, 6000]);
    expect(one.bytes).toBe(6000);
    expect([...one.keys].map((key, at) => key === other.keys[at])).toEqual([true, true, false]);
    const swapped = promptChain(hashedPrompt(1500, [2, 1, 3], 512));
    expect([...one.keys].some((key, at) => key === swapped.keys[at])).toBe(false);
  });

  it('puts fine ids together into chunks whose borders do not depend on the prompt’s length', () => {
    const ids = Array.from({ length: 400 }, (_, id) => id);
    const short = promptChain(hashedPrompt(1600, ids.slice(0, 100), 16));
    const long = promptChain(hashedPrompt(6400, ids, 16));
    expect(short.ends[0]).toBe(64 * 4);
    const shared = [...short.ends].slice(0, -1);
    expect([...long.ends].slice(0, shared.length)).toEqual(shared);
    expect([...long.keys].slice(0, shared.length)).toEqual([...short.keys].slice(0, shared.length));
  });

  it('keeps no more chunks than the classifier does, and says how long the prompt is', () => {
    const ids = Array.from({ length: 20_000 }, (_, id) => id);
    const chain = promptChain(hashedPrompt(320_000, ids, 16));
    expect(chain.keys.length).toBeLessThanOrEqual(1024);
    expect(chain.bytes).toBe(1_280_000);
  });
});

describe('the bounds of hits', () => {
  const prompt = (...ids: number[]) => hashedPrompt(ids.length * 64, ids, 64);

  it('an endless cache finds every beginning seen before, whole blocks of it, never a prompt’s last token', () => {
    const share = pooledHitShare([prompt(1, 2, 3, 4), prompt(1, 2, 5, 6), prompt(1, 2, 3, 4)], {
      blockTokens: 16,
      capacityTokens: Infinity,
    });
    // Of the third prompt the last block holds its last token.
    expect(share).toBeCloseTo((128 + 256 - 16) / (3 * 256));
  });

  it('a small one forgets what was used longest ago, the end of a prompt first', () => {
    const share = pooledHitShare([prompt(1, 2, 3, 4), prompt(7, 8), prompt(1, 2, 3, 4)], {
      blockTokens: 16,
      capacityTokens: 256,
    });
    // Room was made for two parts, so the first two of the first prompt are left.
    expect(share).toBeCloseTo(128 / (256 + 128 + 256));
  });
});

describe('engine models', () => {
  it('the default one computes 8,192 prompt tokens in 0.40 s, and 126,000 in about 10 s', () => {
    expect(coldPrefillMs(8192, h100)).toBeGreaterThan(390);
    expect(coldPrefillMs(8192, h100)).toBeLessThan(405);
    expect(coldPrefillMs(126_000, h100)).toBeGreaterThan(9500);
    expect(coldPrefillMs(126_000, h100)).toBeLessThan(10_500);
    expect(kvTokensOf(h100)).toBe(307_200);
  });

  it('change in size only where asked, slots sharing what there is', () => {
    expect(kvTokensOf(changed(h100, { kvTokens: 1_000_000 }))).toBe(1_000_000);
    expect(changed(h100, { stepTokens: 2048 })).toEqual({ ...h100, stepTokens: 2048 });
    const llama = changed(engineModels['llama-laptop'].settings, { kvTokens: 40_000, maxSequences: 10 });
    expect(llama.maxSequences).toBe(10);
    expect(llama.cache).toMatchObject({ slotTokens: 4000 });
  });
});

describe('a simulated fleet', () => {
  it('is seen as the engine it is, and tells its capacity only when asked to', () => {
    const clock = createVirtualClock();
    const silent = createSimFleet({ backends: 2, engine: h100, tellsCapacity: false }, { clock });
    expect(
      silent
        .snapshot()
        .backends.map(({ name, engine, blockTokens, kvTokens }) => [name, engine, blockTokens, kvTokens]),
    ).toEqual([
      ['b1', 'vllm', 16, undefined],
      ['b2', 'vllm', 16, undefined],
    ]);
    expect([...silent.engines.keys()]).toEqual(['b1', 'b2']);
    const telling = createSimFleet({ backends: 1, engine: h100, tellsCapacity: true }, { clock });
    expect(telling.snapshot().backends[0]?.kvTokens).toBe(307_200);
    const llama = createSimFleet(
      { backends: 1, engine: engineModels['llama-laptop'].settings, tellsCapacity: false },
      { clock },
    );
    expect(llama.snapshot().backends[0]).toMatchObject({ engine: 'llama-server', slots: 4, contextTokens: 8192 });
  });
});
