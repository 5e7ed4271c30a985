import { describe, expect, it } from 'vitest';
import { isWarm, warmUntilLevel } from '../../bench/warming.mjs';

describe('warming a proxy before it is measured', () => {
  it('goes on while a round is cheaper than all before it, and for two more', () => {
    expect(isWarm([])).toBe(false);
    expect(isWarm([900])).toBe(false);
    expect(isWarm([900, 400])).toBe(false);
    expect(isWarm([900, 400, 390])).toBe(false);
    expect(isWarm([900, 400, 390, 395])).toBe(true);
  });

  it('adds small gains up', () => {
    expect(isWarm([1000, 960, 922])).toBe(false);
    expect(isWarm([1000, 960, 955])).toBe(true);
  });

  it('is not ended by one dear round between two falling ones', () => {
    expect(isWarm([900, 400, 700, 300])).toBe(false);
    expect(isWarm([900, 400, 700, 300, 310, 290])).toBe(true);
  });

  it('stops at the most rounds, whatever they bring', async () => {
    let cost = 1000;
    const costs = await warmUntilLevel(4, () => Promise.resolve([(cost /= 2)]));
    expect(costs).toEqual([[500], [250], [125], [62.5]]);
  });

  it('of a proxy that does not get cheaper runs three', async () => {
    const costs = await warmUntilLevel(12, () => Promise.resolve([40, 1000]));
    expect(costs).toHaveLength(3);
  });

  it('goes on until each kind of answer is level, also the one that costs little', async () => {
    let short = 300;
    const costs = await warmUntilLevel(12, () => Promise.resolve([(short = Math.max(100, short - 50)), 2000]));
    expect(costs.map(([first]) => first)).toEqual([250, 200, 150, 100, 100, 100]);
  });
});
