import { describe, expect, it } from 'vitest';
import { createLater } from '../../../src/platform/later.ts';
import { createFakeClock } from '../../support/fake-clock.ts';

function setUp() {
  const clock = createFakeClock();
  const done: number[] = [];
  const later = createLater(clock);
  return { clock, done, later, add: (each: number) => later.add(() => void done.push(each)) };
}

describe('what is done a little later', () => {
  it('is done together, in order, when its time has come: counted from the first', () => {
    const { clock, done, add } = setUp();
    add(1);
    clock.advance(15);
    add(2);
    expect(done).toEqual([]);
    clock.advance(5);
    expect(done).toEqual([1, 2]);
    add(3);
    clock.advance(19);
    expect(done).toEqual([1, 2]);
    clock.advance(1);
    expect(done).toEqual([1, 2, 3]);
  });

  it('does not wait once there are so many', () => {
    const { done, add } = setUp();
    for (let each = 1; each <= 63; each += 1) add(each);
    expect(done).toEqual([]);
    add(64);
    add(65);
    expect(done).toHaveLength(64);
  });

  it('is done at once when somebody wants to read what comes of it, with what it adds itself', () => {
    const { clock, done, later, add } = setUp();
    later.add(() => add(2));
    add(1);
    later.flush();
    expect(done).toEqual([1, 2]);
    clock.advance(100);
    expect(done).toEqual([1, 2]);
  });

  it('waits for nothing any more once closed', () => {
    const { done, later, add } = setUp();
    add(1);
    later.close();
    expect(done).toEqual([1]);
    add(2);
    expect(done).toEqual([1, 2]);
  });
});
