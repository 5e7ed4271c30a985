import { describe, expect, it } from 'vitest';
import { hashedPrompt, tokenPrompt } from '../../../src/sim/prompt.ts';
import type { EngineSettings } from '../../../src/sim/settings.ts';
import { countingIds, plainBlocks, promptOf, rig } from './engine-rig.ts';

function blocks(blockTokens: number, count: number): EngineSettings {
  return { ...plainBlocks, cache: { kind: 'blocks', blockTokens, blocks: count, prefixCaching: true } };
}

describe('block cache', () => {
  it('finds full blocks only, and never the last token', () => {
    for (const [tokens, cached] of [
      [127, 0],
      [128, 0],
      [129, 128],
      [256, 128],
      [300, 256],
    ] as const) {
      const { clock, submit } = rig(blocks(128, 100));
      submit(promptOf(countingIds(tokens)), 1);
      clock.runAll();
      const again = submit(promptOf(countingIds(tokens)), 1);
      clock.runAll();
      expect([tokens, again.cachedTokens]).toEqual([tokens, cached]);
    }
  });

  it('finds the common beginning of different prompts, and only with the same salt', () => {
    const { clock, submit, engine } = rig(blocks(16, 100));
    const head = countingIds(70);
    submit(promptOf(head, countingIds(50, 1000)), 1);
    clock.runAll();
    const other = submit(promptOf(head, countingIds(50, 2000)), 1);
    clock.runAll();
    expect(other.cachedTokens).toBe(64);
    expect(engine.peek(tokenPrompt(Uint32Array.from(head), 5))).toBe(0);
    expect(engine.peek(promptOf(head))).toBe(64);
    // The same block after another beginning is another block.
    expect(engine.peek(promptOf(countingIds(16, 500), countingIds(16, 16), [1]))).toBe(0);
    expect(engine.view().counters).toMatchObject({
      prefixQueries: 240,
      prefixHits: 64,
      promptTokens: 240,
      cachedTokens: 64,
    });
  });

  it('finds the answer of the turn before, as far as its ids are known', () => {
    const { clock, submit } = rig(blocks(16, 100));
    const answer = countingIds(40, 9000);
    submit(promptOf(countingIds(24)), 40, { outputIds: answer });
    clock.runAll();
    const next = submit(promptOf(countingIds(24), answer, countingIds(30, 7000)), 1);
    clock.runAll();
    // 24 + 39 tokens were computed (the last one made never is): three full blocks.
    expect(next.cachedTokens).toBe(48);
  });

  it('saves time with each hit', () => {
    const { clock, submit } = rig(blocks(16, 100));
    const prompt = promptOf(countingIds(800));
    const cold = submit(prompt, 1);
    clock.runAll();
    const warm = submit(prompt, 1);
    clock.runAll();
    expect((cold.tokensMs[0] ?? 0) - (cold.startedMs ?? 0)).toBeCloseTo(10 + 80, 6);
    expect((warm.tokensMs[0] ?? 0) - (warm.startedMs ?? 0)).toBeCloseTo(10 + 1.6, 6);
  });

  it('evicts what was freed longest ago, the tail of a sequence first', () => {
    const { clock, submit, engine } = rig(blocks(16, 12));
    const first = countingIds(65);
    const second = countingIds(65, 1000);
    for (const ids of [first, second]) {
      submit(promptOf(ids), 1);
      clock.runAll();
    }
    expect([engine.peek(promptOf(first)), engine.peek(promptOf(second))]).toEqual([64, 64]);
    // Of 12 blocks 4 are findable for each. The next prompt wants five: two that hold nothing, then the first one's tail.
    submit(promptOf(countingIds(80, 3000)), 1);
    clock.runAll();
    expect(engine.peek(promptOf(first))).toBeLessThan(64);
    expect(engine.peek(promptOf(first))).toBeGreaterThan(0);
    expect(engine.peek(promptOf(second))).toBe(64);
  });

  it('keeps what is in use, and forgets the rest when told to', () => {
    const { clock, submit, engine } = rig(blocks(16, 20));
    const ids = countingIds(100);
    submit(promptOf(ids), 30);
    clock.runUntil(60);
    submit(200, 1);
    clock.runUntil(120);
    expect(engine.peek(promptOf(ids))).toBe(96);
    clock.runAll();
    engine.clearCache();
    expect(engine.peek(promptOf(ids))).toBe(0);
    expect(engine.view().heldTokens).toBe(0);
  });

  it('holds nothing when caching is off', () => {
    const { clock, submit, engine } = rig({
      ...plainBlocks,
      cache: { kind: 'blocks', blockTokens: 16, blocks: 20, prefixCaching: false },
    });
    submit(promptOf(countingIds(100)), 1);
    clock.runAll();
    expect(engine.peek(promptOf(countingIds(100)))).toBe(0);
  });

  it("reads a trace's block hashes instead of tokens", () => {
    const { clock, submit, engine } = rig(blocks(128, 100));
    submit(hashedPrompt(1300, [1, 2, 3], 512), 4);
    clock.runAll();
    expect(engine.peek(hashedPrompt(1300, [1, 2, 9], 512))).toBe(1024);
    expect(engine.peek(hashedPrompt(1300, [1, 2, 3], 512))).toBe(1280);
    expect(engine.peek(hashedPrompt(1024, [1, 2], 512))).toBe(896);
    expect(engine.peek(hashedPrompt(1024, [2, 1], 512))).toBe(0);
    expect(() => hashedPrompt(1025, [1, 2], 512)).toThrow('cover');
  });
});
