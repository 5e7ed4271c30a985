import { describe, expect, it } from 'vitest';
import { createIdlePool, type Idle, type IdlePool } from '../../../../src/platform/upstream/idle-pool.ts';
import { upstreamDefaults } from '../../../../src/platform/upstream/settings.ts';
import { createFakeClock } from '../../../support/fake-clock.ts';

interface FakeConnection extends Idle {
  readonly name: string;
  discarded: boolean;
}

function makePool(settings: Partial<typeof upstreamDefaults> = {}) {
  const clock = createFakeClock();
  const pool: IdlePool<FakeConnection> = createIdlePool<FakeConnection>({ ...upstreamDefaults, ...settings }, clock);
  const made: FakeConnection[] = [];
  const connection = (name: string): FakeConnection => {
    const each: FakeConnection = {
      name,
      discarded: false,
      discard() {
        each.discarded = true;
        pool.remove(each);
      },
    };
    made.push(each);
    return each;
  };
  return { pool, clock, connection, discarded: () => made.filter((each) => each.discarded).map(({ name }) => name) };
}

async function turns(count: number): Promise<void> {
  for (let i = 0; i < count; i += 1) await new Promise((resolve) => void setImmediate(resolve));
}

describe('the pool of idle connections', () => {
  it('gives a connection only after the event loop has turned once more', async () => {
    const { pool, connection } = makePool();
    pool.put('a', connection('1'), 1000);
    expect(pool.take('a')).toBeUndefined();
    expect(pool.size).toBe(1);
    await turns(1);
    pool.put('a', connection('2'), 1000);
    await turns(1);
    expect(pool.take('a')?.name).toBe('1');
    expect(pool.take('a')).toBeUndefined();
    await turns(1);
    expect(pool.take('a')?.name).toBe('2');
  });

  it('gives the last first, per key, each once', async () => {
    const { pool, connection } = makePool();
    for (const name of ['1', '2', '3']) pool.put('a', connection(name), 1000);
    pool.put('b', connection('4'), 1000);
    await turns(3);
    expect([pool.take('a')?.name, pool.take('b')?.name, pool.take('a')?.name]).toEqual(['3', '4', '2']);
    expect(pool.size).toBe(1);
    expect(pool.take('b')).toBeUndefined();
  });

  it('never gives one that was removed, wherever it stood', async () => {
    const { pool, connection } = makePool();
    const [first, second, third] = [connection('1'), connection('2'), connection('3')];
    pool.put('a', first, 1000);
    pool.put('a', second, 1000);
    await turns(3);
    pool.put('a', third, 1000);
    pool.remove(second);
    pool.remove(third);
    await turns(3);
    expect(pool.take('a')).toBe(first);
    expect(pool.take('a')).toBeUndefined();
    pool.remove(first);
    expect(pool.size).toBe(0);
  });

  it('discards each when its own time is over', async () => {
    const { pool, connection, clock, discarded } = makePool();
    pool.put('a', connection('long'), 5000);
    pool.put('a', connection('short'), 1000);
    pool.put('b', connection('middle'), 3000);
    await turns(3);
    clock.advance(999);
    expect(discarded()).toEqual([]);
    clock.advance(1);
    expect(discarded()).toEqual(['short']);
    clock.advance(2000);
    expect(discarded()).toEqual(['short', 'middle']);
    clock.advance(2000);
    expect(discarded()).toEqual(['long', 'short', 'middle']);
    expect(clock.pending()).toBe(0);
  });

  it('keeps at most so many per key, and at most so many in all, by letting the oldest go', async () => {
    const { pool, connection, discarded } = makePool({ maxIdlePerTarget: 2, maxIdleTotal: 3 });
    for (const name of ['1', '2', '3']) pool.put('a', connection(name), 1000);
    await turns(3);
    expect(discarded()).toEqual(['1']);
    pool.put('b', connection('4'), 1000);
    pool.put('b', connection('5'), 1000);
    expect(discarded()).toEqual(['1', '2']);
    expect(pool.size).toBe(3);
  });

  it('discards all on demand', async () => {
    const { pool, connection, clock, discarded } = makePool();
    pool.put('a', connection('1'), 1000);
    await turns(3);
    pool.put('a', connection('2'), 1000);
    pool.discardAll();
    expect(discarded()).toEqual(['1', '2']);
    expect(pool.size).toBe(0);
    expect(clock.pending()).toBe(0);
    await turns(3);
    expect(pool.take('a')).toBeUndefined();
  });
});
