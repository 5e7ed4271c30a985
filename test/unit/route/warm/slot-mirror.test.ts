/** What a llama-server of so many slots is believed to hold, by what was sent to it and by what its answers told. */
import { describe, expect, test } from 'vitest';

import type { BackendView } from '../../../../src/domain/fleet.ts';
import type { AnswerTold } from '../../../../src/domain/routing.ts';
import type { WarmIndex } from '../../../../src/route/warm/port.ts';
import { createWarmIndex } from '../../../../src/route/warm/warm-index.ts';
import { backendView, chainOf, freshMessage, type Message } from './chains.ts';

const slotted = (slots: number): BackendView => backendView('l', { engine: 'llama-server', slots });

function world(maxSaved?: number): WarmIndex {
  return createWarmIndex(
    { maxEntries: 100_000, policies: {}, ...(maxSaved === undefined ? {} : { maxSaved }) },
    { nowMs: () => 1 },
  );
}

const lengthOf = (messages: readonly Message[]) => messages.reduce((sum, { length }) => sum + length, 0);
const heldOf = (index: WarmIndex, backend: BackendView, messages: readonly Message[]) =>
  index.look(chainOf(messages), [backend], 'm').held.get('l')?.tokens ?? 0;

function send(index: WarmIndex, backend: BackendView, messages: readonly Message[]) {
  const visit = index.visit(backend, chainOf(messages), 'm');
  return {
    end(told: Partial<AnswerTold> = {}) {
      visit.end({ computed: true, promptTokens: lengthOf(messages), ...told });
    },
  };
}

/** Asks and answers with what was predicted, but for `told`. */
function ask(index: WarmIndex, backend: BackendView, messages: readonly Message[], told: Partial<AnswerTold> = {}) {
  const predicted = heldOf(index, backend, messages);
  send(index, backend, messages).end({ cachedTokens: predicted, outputTokens: 1, ...told });
  return predicted;
}

describe('slots', () => {
  test('a prompt that is being answered is no use to another one until its end', () => {
    const index = world();
    const [system, first, second] = [freshMessage(640), freshMessage(640), freshMessage(640)];
    const running = send(index, slotted(2), [system, first]);
    expect(heldOf(index, slotted(2), [system, second])).toBe(0);
    running.end();
    expect(heldOf(index, slotted(2), [system, second])).toBe(640);
  });

  test('while all are busy, what will be free is expected: the mean over them', () => {
    const index = world();
    const [system, other] = [freshMessage(640), freshMessage(640)];
    send(index, slotted(2), [system]);
    send(index, slotted(2), [other]);
    const longer = [system, freshMessage(300)];
    expect(heldOf(index, slotted(2), longer)).toBeGreaterThan(310);
    expect(heldOf(index, slotted(2), longer)).toBeLessThan(330);
  });

  test('are full once each has a prompt, and empty again when nothing is held any more', () => {
    const index = world();
    for (const share of [0.25, 0.5, 0.75, 1, 1]) {
      ask(index, slotted(4), [freshMessage(640)], { cachedTokens: 0 });
      expect(index.fullShare('l')).toBe(share);
    }
    index.flush('l', 'asked');
    expect(index.fullShare('l')).toBe(0);
  });

  test('a prompt that waited takes the slot that became free', () => {
    const index = world();
    const [first, second, third] = [[freshMessage(640)], [freshMessage(640)], [freshMessage(640)]];
    const running = [first, second].map((messages) => send(index, slotted(2), messages));
    const waiting = send(index, slotted(2), third);
    running[0]?.end();
    waiting.end();
    expect(heldOf(index, slotted(2), [...third, freshMessage(100)])).toBe(640);
  });

  test('a conversation that shares its rules with the last one overwrites it, though it was saved: at least half is kept', () => {
    const index = world();
    const rules = freshMessage(1280);
    const [first, second] = [freshMessage(400), freshMessage(400)];
    ask(index, slotted(2), [rules, first]);
    const kept = ask(index, slotted(2), [rules, second]);
    expect(Math.abs(kept - 1280)).toBeLessThan(5);
    expect(heldOf(index, slotted(2), [rules, first, freshMessage(10)])).toBe(kept);
  });

  test('what a slot would lose for the most part is saved, and moved back', () => {
    const index = world();
    const prompts = Array.from({ length: 5 }, () => [freshMessage(1000)]);
    for (const messages of prompts) ask(index, slotted(2), messages);
    for (const messages of prompts) expect(heldOf(index, slotted(2), [...messages, freshMessage(100)])).toBe(1000);
  });

  test('a prompt given up in its prefill leaves what it was to go on behind, and nothing of its own', () => {
    const index = world();
    const [rules, first, second] = [freshMessage(640), freshMessage(640), freshMessage(640)];
    ask(index, slotted(1), [rules, first]);
    send(index, slotted(1), [rules, second]).end({ computed: false });
    expect(heldOf(index, slotted(1), [rules, second])).toBe(640);
    expect(heldOf(index, slotted(1), [rules, first])).toBe(640);
    const fresh = [freshMessage(640)];
    send(index, slotted(1), fresh).end({ computed: false });
    expect(heldOf(index, slotted(1), fresh)).toBe(0);
  });

  test('an answer sent back counts to its last token but one, once answers were seen to be found again', () => {
    const index = world();
    const messages = [freshMessage(500), freshMessage(100)];
    ask(index, slotted(2), messages, { outputTokens: 200 });
    messages.push(freshMessage(200), freshMessage(50));
    expect(ask(index, slotted(2), messages, { cachedTokens: 799, outputTokens: 200 })).toBe(600);
    messages.push(freshMessage(200), freshMessage(50));
    expect(heldOf(index, slotted(2), messages)).toBe(850 + 199);
  });

  test('where many prompts leave the same rules is known to the token after one answer', () => {
    const index = world();
    const rules = freshMessage(640);
    ask(index, slotted(2), [rules, freshMessage(300)]);
    ask(index, slotted(2), [rules, freshMessage(300)], { cachedTokens: 645 });
    expect(heldOf(index, slotted(2), [rules, freshMessage(300)])).toBe(645);
  });
});

describe('what answers teach of the cache in RAM', () => {
  const rotate = (index: WarmIndex, { rounds, cached }: { rounds: number; cached: (tokens: number) => number }) => {
    const prompts = Array.from({ length: 6 }, () => [freshMessage(1000)]);
    let predicted = 0;
    for (let round = 0; round < rounds; round += 1)
      for (const messages of prompts) {
        const longer = [...messages, freshMessage(50)];
        predicted = ask(index, slotted(2), longer, { cachedTokens: round === 0 ? 0 : cached(1000) });
      }
    return predicted;
  };

  test('there is none: after few answers nothing is expected of it, and nothing was taken for a restart', () => {
    const index = world();
    expect(rotate(index, { rounds: 3, cached: () => 0 })).toBe(0);
    expect(index.stats().backends[0]).toMatchObject({ flushes: 0, distrusted: false });
  });

  test('there is one: everything is', () => {
    expect(rotate(world(), { rounds: 3, cached: (tokens) => tokens })).toBe(1000);
  });
});

describe('bounds', () => {
  test('sequences and their memory are bounded, counted, and forgotten by a flush', () => {
    const index = world(8);
    for (let count = 0; count < 200; count += 1) ask(index, slotted(4), [freshMessage(1000)]);
    const { bytes, backends } = index.stats();
    // Four ways of believing, each with four slots and eight saved at most.
    expect(backends[0]?.sequences).toBeLessThanOrEqual(4 * (4 + 8));
    expect(backends[0]?.sequences).toBeGreaterThan(8);
    expect(index.heldTokens('l')).toBeLessThanOrEqual(12 * 1000);
    index.flush('l', 'restarted');
    expect(index.heldTokens('l')).toBe(0);
    expect(index.stats().bytes).toBeLessThan(bytes);
  });

  test('another number of slots begins anew, and one that tells none goes by age', () => {
    const index = world();
    const messages = [freshMessage(640)];
    const running = send(index, slotted(2), messages);
    expect(heldOf(index, slotted(4), messages)).toBe(0);
    running.end();
    expect(heldOf(index, slotted(4), messages)).toBe(0);
    expect(heldOf(index, backendView('l', { engine: 'llama-server' }), messages)).toBe(639);
  });
});
