import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { createLineQueue, type QueuedLine } from '../../../../src/batch/run/line-queue.ts';
import type { PendingLine } from '../../../../src/batch/batch.ts';

const line = (rank: number, notBeforeMs = 0): PendingLine => ({
  line: rank + 1,
  customId: `c${rank}`,
  at: 0,
  bytes: 1,
  rank,
  attempts: 0,
  notBeforeMs,
});

/** Takes all that may go now. */
function drain(queue: ReturnType<typeof createLineQueue>, nowMs: number): number[] {
  const ranks: number[] = [];
  for (let next = queue.next(nowMs); next !== undefined; next = queue.next(nowMs)) ranks.push(next.rank);
  return ranks;
}

describe('the lines in hand', () => {
  it('go by rank, those that were taken back before all others, those whose time has come before new ones', () => {
    const queue = createLineQueue({ page: 10, most: 5 });
    queue.takePage([line(0), line(1), line(2), line(3)], true);
    const [first, second] = [queue.next(0), queue.next(0)] as [QueuedLine, QueuedLine];
    second.notBeforeMs = 50;
    queue.later(second);
    queue.first(first);
    expect(drain(queue, 49)).toEqual([0, 2, 3]);
    expect(queue.hasNext(49)).toBe(false);
    expect(queue.dueAfter(49)).toBe(50);
    expect(queue.dueAfter(50)).toBeUndefined();
    expect(queue.isEmpty).toBe(false);
    expect(drain(queue, 50)).toEqual([1]);
    expect(queue.isEmpty).toBe(true);
  });

  it('ask for the next page when half of one is left, behind the last that came', () => {
    const queue = createLineQueue({ page: 4, most: 5 });
    expect(queue.wantsBehind).toBe(-1);
    queue.takePage([line(0), line(1), line(2), line(3)], false);
    expect(queue.wantsBehind).toBeUndefined();
    queue.next(0);
    queue.next(0);
    queue.next(0);
    expect(queue.wantsBehind).toBe(3);
    queue.takePage([], true);
    expect(queue.wantsBehind).toBeUndefined();
    expect(drain(queue, 0)).toEqual([3]);
  });

  it('begin no new ones while many wait for another try', () => {
    const queue = createLineQueue({ page: 4, most: 1 });
    queue.takePage([line(0), line(1)], false);
    const tried = queue.next(0) as QueuedLine;
    tried.notBeforeMs = 100;
    queue.later(tried);
    expect(queue.hasNext(0)).toBe(false);
    expect(queue.wantsBehind).toBeUndefined();
    expect(drain(queue, 100)).toEqual([0, 1]);
  });

  it('each come out exactly once, whatever happens to them on the way', () => {
    fc.assert(
      fc.property(fc.integer({ min: 0, max: 40 }), fc.array(fc.nat({ max: 3 }), { maxLength: 200 }), (count, steps) => {
        const queue = createLineQueue({ page: 5, most: 3 });
        const done: number[] = [];
        const held: QueuedLine[] = [];
        let given = 0;
        let nowMs = 0;
        const feed = () => {
          const behind = queue.wantsBehind;
          if (behind === undefined) return;
          const page = Array.from({ length: Math.min(5, count - given) }, (_, n) => line(given + n));
          given += page.length;
          queue.takePage(page, page.length < 5);
        };
        for (const step of [...steps, ...Array.from({ length: count * 3 + 10 }, (_, n) => (n % 2 === 0 ? 0 : 3))]) {
          feed();
          const next = step === 0 ? queue.next(nowMs) : undefined;
          if (next !== undefined) held.push(next);
          const last = step === 0 ? undefined : held.pop();
          if (step === 3) nowMs += 10;
          if (last === undefined) continue;
          if (step === 1) queue.first(last);
          else if (step === 2) {
            last.notBeforeMs = nowMs + 5;
            queue.later(last);
          } else done.push(last.rank);
        }
        expect([...done, ...held.map(({ rank }) => rank)].toSorted((a, b) => a - b)).toEqual(
          Array.from({ length: count }, (_, n) => n),
        );
        expect(queue.isEmpty).toBe(true);
      }),
    );
  });
});
