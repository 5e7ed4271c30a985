import { setImmediate as turn } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import { createSteps } from '../../../src/platform/steps.ts';

describe('steps that requests take together', () => {
  it('lets all take a step before any takes the next, in one turn of the event loop', async () => {
    const steps = createSteps(['first', 'second']);
    const taken: string[] = [];
    const walk = async (name: string) => {
      await steps.first.reached();
      taken.push(`${name}1`);
      await steps.second.reached();
      taken.push(`${name}2`);
    };
    const all = Promise.all([walk('a'), walk('b'), walk('c')]);
    setImmediate(() => taken.push('next turn'));
    await all;
    await turn();
    expect(taken).toEqual(['a1', 'b1', 'c1', 'a2', 'b2', 'c2', 'next turn']);
  });

  it('has the steps in their order, whichever was asked for first', async () => {
    const steps = createSteps(['first', 'second']);
    const taken: string[] = [];
    steps.second.take(() => taken.push('second'));
    steps.first.take(() => taken.push('first'));
    expect(taken).toEqual([]);
    await turn();
    await turn();
    expect(taken).toEqual(['first', 'second']);
  });

  it('goes back for what an earlier step is asked for while a later one is taken', async () => {
    const steps = createSteps(['first', 'second']);
    const taken: string[] = [];
    steps.second.take(() => {
      taken.push('second');
      steps.first.take(() => taken.push('first again'));
    });
    for (let i = 0; i < 3; i += 1) await turn();
    expect(taken).toEqual(['second', 'first again']);
  });

  it('lets the others take a step that one fails in', async () => {
    const uncaught: unknown[] = [];
    const others = process.listeners('uncaughtException');
    process.removeAllListeners('uncaughtException');
    process.on('uncaughtException', (error) => uncaught.push(error));
    const taken: string[] = [];
    try {
      const steps = createSteps(['only']);
      steps.only.take(() => {
        throw new Error('of one');
      });
      steps.only.take(() => taken.push('other'));
      await turn();
      await turn();
    } finally {
      process.removeAllListeners('uncaughtException');
      for (const each of others) process.on('uncaughtException', each);
    }
    expect(taken).toEqual(['other']);
    expect(uncaught).toMatchObject([{ message: 'of one' }]);
  });
});
