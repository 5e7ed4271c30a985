import { describe, expect, it } from 'vitest';
import { createHitWindows } from '../../../../src/account/hits/hit-windows.ts';

const hit = { kind: 'untold' } as const;
const notes = { missed: [], tooShort: false };
const hourMs = 3_600_000;

function setUp(maxPopulations: number) {
  const windows = createHitWindows({ maxPopulations }, 0);
  return {
    add: (backend: string, nowMs: number, model = 'm') => windows.add({ backend, model }, hit, { notes, nowMs }),
    names: (nowMs: number) => windows.read('start', {}, nowMs).map(({ backend, model }) => `${backend} ${model}`),
  };
}

describe('the pairs of backend and model that hits are kept for', () => {
  it('are never more than the bound and one, however backends come and go, and whatever their models are called', () => {
    for (const model of ['m', 'other']) {
      const { add, names } = setUp(4);
      for (let index = 0; index < 100; index += 1) add(`b${index}`, index, model);
      expect(names(100)).toHaveLength(5);
      expect(names(100)).toContain('other other');
    }
  });

  it('keeps a name of its own for a new backend once one that is gone is in no window any more', () => {
    const { add, names } = setUp(2);
    add('old', 0);
    add('kept', 0);
    add('kept', hourMs);
    add('early', hourMs);
    expect(names(hourMs)).toEqual(['old m', 'kept m', 'other other']);
    add('new', hourMs + 1);
    expect(names(hourMs + 1)).toEqual(['kept m', 'other other', 'new m']);
  });
});
