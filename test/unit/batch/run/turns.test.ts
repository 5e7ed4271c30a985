import { describe, expect, it } from 'vitest';
import { createTurns } from '../../../../src/batch/run/turns.ts';

const of = (tenant: string, expiresAt: number, id = `${tenant}${expiresAt}`) => ({ id, tenant, expiresAt });

describe('turns', () => {
  it('go round the tenants, however many batches each has', () => {
    const turns = createTurns();
    const all = [of('a', 1), of('a', 2), of('a', 3), of('b', 9), of('c', 5)];
    const served = Array.from({ length: 9 }, () => turns.next(all)?.tenant);
    for (let n = 0; n < 9; n += 3) expect(new Set(served.slice(n, n + 3)).size).toBe(3);
  });

  it("give a tenant's turn to the batch that must end first, and to the earlier one on a tie", () => {
    const turns = createTurns();
    const tie = of('a', 2, 'first');
    expect(turns.next([of('a', 3), tie, of('a', 2, 'second')])).toBe(tie);
  });

  it('leave that batch half of them, and share the others among the rest', () => {
    const turns = createTurns();
    const all = [of('a', 1, 'large'), of('a', 2, 'small'), of('a', 3, 'tiny')];
    const served = Array.from({ length: 8 }, () => turns.next(all)?.id);
    expect(served).toEqual(['large', 'small', 'large', 'tiny', 'large', 'small', 'large', 'tiny']);
  });

  it('come round to every batch, however many new ones keep coming', () => {
    const turns = createTurns();
    const waiting = of('a', 5, 'waiting');
    let served = 0;
    for (let n = 0; n < 12; n += 1)
      if (turns.next([of('a', 1, 'urgent'), of('a', 9, `new${n}`), of('a', 9, `new${n + 1}`), waiting]) === waiting)
        served += 1;
    expect(served).toBeGreaterThanOrEqual(2);
  });

  it('are all of the one batch that has lines, also after it shared them', () => {
    const turns = createTurns();
    turns.next([of('a', 1, 'large'), of('a', 2, 'small')]);
    for (let n = 0; n < 3; n += 1) expect(turns.next([of('a', 1, 'large')])?.id).toBe('large');
    expect(turns.next([of('a', 1, 'large'), of('a', 2, 'small')])?.id).toBe('small');
  });

  it('are taken by those who can, and a tenant that comes later is next', () => {
    const turns = createTurns();
    expect(turns.next([])).toBeUndefined();
    for (let n = 0; n < 5; n += 1) turns.next([of('a', 1)]);
    expect(turns.next([of('a', 1), of('b', 2)])?.tenant).toBe('b');
    expect(turns.next([of('a', 1), of('b', 2)])?.tenant).toBe('a');
  });
});
