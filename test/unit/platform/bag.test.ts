import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { Bag, type Place } from '../../../src/platform/bag.ts';

describe('a bag', () => {
  it('holds what was added and not removed, over any steps', () => {
    fc.assert(
      fc.property(fc.array(fc.nat({ max: 99 })), (steps) => {
        const bag = new Bag<number>();
        const places = new Map<number, Place>();
        for (const [item, step] of steps.entries()) {
          const known = [...places.keys()][step % Math.max(1, places.size)];
          if (step < 60 || known === undefined) places.set(item, bag.add(item));
          else {
            const place = places.get(known) ?? { index: -1 };
            bag.remove(place);
            bag.remove(place);
            places.delete(known);
          }
        }
        expect(bag.size).toBe(places.size);
        expect(bag.toArray().toSorted((a, b) => a - b)).toEqual([...places.keys()]);
      }),
    );
  });

  it('visits all, also when they leave while they are visited', () => {
    const bag = new Bag<number>();
    const places = [1, 2, 3, 4].map((item) => bag.add(item));
    const visited: number[] = [];
    bag.forEach((item) => {
      visited.push(item);
      const place = places[item - 1];
      if (place !== undefined) bag.remove(place);
    });
    expect(visited.toSorted((a, b) => a - b)).toEqual([1, 2, 3, 4]);
    expect(bag.size).toBe(0);
  });
});
