import { describe, expect, it } from 'vitest';
import type { EngineSettings } from '../../../src/sim/settings.ts';
import { countingIds, plainSlots, promptOf, rig } from './engine-rig.ts';

function slots(count: number, ramTokens = 0): EngineSettings {
  return {
    ...plainSlots,
    maxSequences: count,
    cache: { kind: 'slots', slotTokens: 4096, unified: false, ramTokens, minSimilarity: 0.1 },
  };
}

describe('slot cache', () => {
  it('reuses a slot token by token, but for the last token', () => {
    const { clock, submit } = rig(slots(2));
    const ids = countingIds(100);
    submit(promptOf(ids), 1);
    clock.runAll();
    const same = submit(promptOf(ids), 1);
    clock.runAll();
    const longer = submit(promptOf(ids.slice(0, 93), countingIds(20, 500)), 1);
    clock.runAll();
    expect([same.cachedTokens, longer.cachedTokens]).toEqual([99, 93]);
    expect(longer.slot).toBe(same.slot);
  });

  it('finds the answer of the turn before', () => {
    const { clock, submit } = rig(slots(2));
    const answer = countingIds(10, 9000);
    submit(promptOf(countingIds(30)), 10, { outputIds: answer });
    clock.runAll();
    const next = submit(promptOf(countingIds(30), answer, countingIds(30, 7000)), 1);
    clock.runAll();
    expect(next.cachedTokens).toBe(39);
  });

  it('takes the slot used longest ago when none is similar, which evicts its content', () => {
    const { clock, submit } = rig(slots(2));
    const system = countingIds(24);
    const prefix = (number: number) => promptOf(system, countingIds(320, number * 10_000));
    const cachedOf = (number: number) => {
      const run = submit(prefix(number), 1);
      clock.runAll();
      return run.cachedTokens;
    };
    // The third takes the first one's slot, where only the shared beginning is of use; the same was seen on a real server.
    expect([cachedOf(1), cachedOf(2), cachedOf(3)]).toEqual([0, 0, 24]);
    expect([cachedOf(3), cachedOf(1)]).toEqual([343, 24]);
  });

  it('keeps evicted sequences in RAM and moves them back', () => {
    const { clock, submit, engine } = rig(slots(2, 10_000));
    const prefix = (number: number) => promptOf(countingIds(340, number * 10_000));
    for (let round = 0; round < 3; round += 1) {
      for (const number of [1, 2, 3]) {
        const run = submit(prefix(number), 1);
        clock.runAll();
        expect(run.cachedTokens).toBe(round === 0 ? 0 : 339);
      }
    }
    expect(engine.view().heldTokens).toBeGreaterThanOrEqual(3 * 340);
    expect(engine.view().heldTokens).toBeLessThan(4 * 340);
  });

  it('evicts from RAM the oldest first', () => {
    const { clock, submit, engine } = rig(slots(1, 700));
    for (const number of [1, 2, 3, 4]) {
      submit(promptOf(countingIds(340, number * 10_000)), 1);
      clock.runAll();
    }
    const heldOf = (number: number) => engine.peek(promptOf(countingIds(340, number * 10_000)));
    expect([1, 2, 3, 4].map(heldOf)).toEqual([0, 339, 339, 339]);
  });

  it('shares nothing between requests that run at once', () => {
    const { clock, submit, engine } = rig(slots(2));
    const runs = [submit(promptOf(countingIds(200)), 3), submit(promptOf(countingIds(200)), 3)];
    clock.runAll();
    expect(runs.map((run) => run.cachedTokens)).toEqual([0, 0]);
    expect(runs[0]?.slot).not.toBe(runs[1]?.slot);
    expect(engine.view().slots).toEqual([
      { id: 0, busy: false, tokens: 202 },
      { id: 1, busy: false, tokens: 202 },
    ]);
  });

  it('empties idle slots when one context serves all', () => {
    const { clock, submit, engine } = rig({
      ...plainSlots,
      cache: { kind: 'slots', slotTokens: 500, unified: true, ramTokens: 0, minSimilarity: 0.1 },
    });
    submit(promptOf(countingIds(300)), 1);
    clock.runAll();
    const second = submit(promptOf(countingIds(300, 5000)), 1);
    clock.runAll();
    expect(second.ends[0]?.reason).toBe('length');
    expect(engine.peek(promptOf(countingIds(300)))).toBe(0);
  });
});
