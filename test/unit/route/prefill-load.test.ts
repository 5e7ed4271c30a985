import { describe, expect, it } from 'vitest';
import { createPrefillLoad } from '../../../src/route/prefill-load.ts';

function setUp() {
  const clock = { nowMs: 1 };
  return { clock, load: createPrefillLoad({ nowMs: () => clock.nowMs }) };
}

describe('the share of its time that a backend computes prompts', () => {
  it('comes to what is sent there over what it can do, whatever the size of prompts', () => {
    for (const [tokens, everyMs] of [
      [500, 1000],
      [50, 100],
    ] as const) {
      const { clock, load } = setUp();
      for (; clock.nowMs < 120_000; clock.nowMs += everyMs) load.add('a', tokens);
      expect(load.share('a', 1000)).toBeGreaterThan(0.45);
      expect(load.share('a', 1000)).toBeLessThan(0.55);
      expect(load.share('a', 2000)).toBeCloseTo(load.share('a', 1000) / 2, 9);
    }
  });

  it('is nothing where nothing was sent, and fades within a minute', () => {
    const { clock, load } = setUp();
    expect(load.share('a', 1000)).toBe(0);
    load.add('a', 15_000);
    expect(load.share('a', 1000)).toBeCloseTo(1, 9);
    expect(load.share('b', 1000)).toBe(0);
    clock.nowMs += 60_000;
    expect(load.share('a', 1000)).toBeLessThan(0.02);
  });

  it('is put right by what the engine had cached, and never falls below nothing', () => {
    const { load } = setUp();
    load.add('a', 15_000);
    load.correct('a', -7500, 0);
    expect(load.share('a', 1000)).toBeCloseTo(0.5, 9);
    load.correct('a', -1e9, 0);
    expect(load.share('a', 1000)).toBe(0);
  });

  it('is put right by what is left of a prompt that was sent long ago', () => {
    const { clock, load } = setUp();
    load.add('a', 1000);
    clock.nowMs += 60_000;
    load.correct('a', 19_000, 60_000);
    expect(load.share('a', 1000)).toBeCloseTo((20 / 15) * Math.exp(-4), 9);
    load.add('a', 15_000);
    load.correct('a', -1000, 60_000);
    expect(load.share('a', 1000)).toBeGreaterThan(1);
  });

  it('keeps nothing of a backend that was forgotten, though its last answers end later', () => {
    const { load } = setUp();
    load.add('a', 15_000);
    load.forget('a');
    load.correct('a', 500, 0);
    expect(load.share('a', 1000)).toBe(0);
  });

  it('counts apart what is computed, for whoever decodes beside it', () => {
    const { load } = setUp();
    load.done('a', 100);
    expect(load.computed('a')).toBe(0);
    load.add('a', 300);
    load.done('a', 300);
    load.add('a', 200);
    load.correct('a', -150, 0);
    load.done('a', 200);
    expect(load.computed('a')).toBe(500);
    expect(load.computed('b')).toBe(0);
    load.forget('a');
    expect(load.computed('a')).toBe(0);
  });
});
