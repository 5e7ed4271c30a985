import { describe, expect, it } from 'vitest';
import { runInTurns } from '../../../src/platform/turns.ts';

/** Three steps of so many milliseconds each, and what the event loop did meanwhile. */
async function run(stepMs: number): Promise<readonly string[]> {
  const seen: string[] = [];
  let nowMs = 1;
  function* steps() {
    for (const name of ['a', 'b', 'c']) {
      seen.push(name);
      nowMs += stepMs;
      yield;
    }
  }
  const turned = () => void seen.push('turn');
  setImmediate(turned);
  await runInTurns(steps(), { nowMs: () => nowMs });
  return seen;
}

describe('long work', () => {
  it('lets the event loop turn behind each step that takes long', async () => {
    expect((await run(1)).slice(0, 3)).toEqual(['a', 'turn', 'b']);
  });

  it('is done in one go where its steps are short', async () => {
    expect(await run(0.1)).toEqual(['a', 'b', 'c']);
  });

  it('fails as its step does', async () => {
    const steps = {
      [Symbol.iterator]: () => ({
        next(): IteratorResult<void> {
          throw new Error('a bug');
        },
      }),
    };
    await expect(runInTurns(steps, { nowMs: () => 1 })).rejects.toThrow('a bug');
  });
});
