import { describe, expect, test } from 'vitest';

import type { BackendView } from '../../../../src/domain/fleet.ts';
import type { AnswerTold } from '../../../../src/domain/routing.ts';
import type { FlushReason, WarmIndex } from '../../../../src/route/warm/port.ts';
import type { WarmSettings } from '../../../../src/route/warm/settings.ts';
import { createWarmIndex } from '../../../../src/route/warm/warm-index.ts';
import { createFakeClock, type FakeClock } from '../../../support/fake-clock.ts';
import { backendView, chainOf, freshMessage, namedChain, type Message } from './chains.ts';

interface World {
  readonly index: WarmIndex;
  readonly clock: FakeClock;
  readonly flushed: [string, FlushReason][];
}

function world(settings: Partial<WarmSettings> = {}): World {
  const clock = createFakeClock();
  const flushed: [string, FlushReason][] = [];
  const index = createWarmIndex(
    { maxEntries: 100_000, policies: {}, ...settings },
    { nowMs: () => clock.nowMs(), flushed: (backend, why) => flushed.push([backend, why]) },
  );
  return { index, clock, flushed };
}

const vllm = backendView('v', { blockTokens: 16, kvTokens: 100_000 });
/** Token by token, its slots not told. */
const llama = backendView('l', { engine: 'llama-server', kvTokens: 131_072 });

function ask(index: WarmIndex, backend: BackendView, messages: readonly Message[], told: Partial<AnswerTold> = {}) {
  const chain = chainOf(messages);
  const look = index.look(chain, [backend], 'm');
  index.visit(backend, chain, 'm').end({ computed: true, ...told });
  return look;
}

const lengthOf = (messages: readonly Message[]) => messages.reduce((sum, message) => sum + message.length, 0);

describe('what is held', () => {
  test('what the config says of a cache counts at once when it changes, though the backend is seen as before', () => {
    const policies: Record<string, { reuse: 'none' }> = {};
    const { index } = world({ policies });
    const messages = [freshMessage(2000)];
    ask(index, vllm, messages);
    expect(index.look(chainOf(messages), [vllm], 'm').reusableTokens).toBeGreaterThan(0);
    policies['v'] = { reuse: 'none' };
    expect(index.look(chainOf(messages), [vllm], 'm').reusableTokens).toBe(0);
  });

  test('a cache fills with what is put in, and is full at its capacity', () => {
    const { index } = world();
    expect(index.fullShare('v')).toBe(0);
    const told = { promptTokens: 25_000, cachedTokens: 0, outputTokens: 0 };
    ask(index, vllm, [freshMessage(100_000)], told);
    const once = index.fullShare('v');
    expect(once).toBeGreaterThan(0.1);
    expect(once).toBeLessThan(0.3);
    for (let more = 0; more < 20; more += 1) ask(index, vllm, [freshMessage(100_000)], told);
    expect(index.fullShare('v')).toBe(1);
    expect(index.fullShare('nobody')).toBe(0);
  });

  test('a cache that holds nothing any more is empty, though its size is remembered', () => {
    const { index, flushed } = world();
    const told = { promptTokens: 25_000, cachedTokens: 0, outputTokens: 0 };
    for (let more = 0; more < 20; more += 1) ask(index, vllm, [freshMessage(100_000)], told);
    expect(index.fullShare('v')).toBe(1);
    index.flush('v', 'asked');
    expect(index.fullShare('v')).toBe(0);
    ask(index, vllm, [freshMessage(100_000)], told);
    expect(index.fullShare('v')).toBeGreaterThan(0.1);
    expect(index.fullShare('v')).toBeLessThan(0.3);
    // So it is where it shows itself: nothing delivered of what was just sent, three times in a row.
    for (let more = 0; more < 20; more += 1) ask(index, vllm, [freshMessage(100_000)], told);
    const messages = [freshMessage(2000)];
    for (let count = 0; flushed.length < 2 && count < 10; count += 1)
      ask(index, vllm, messages, { promptTokens: 2000, cachedTokens: 0, outputTokens: 0 });
    expect(flushed.at(-1)).toEqual(['v', 'zero_hits']);
    expect(index.fullShare('v')).toBeLessThan(0.1);
  });

  test('what is held is the nearer to being pushed out the more was taken in since it was asked for', () => {
    const { index } = world();
    const messages = [freshMessage(4000)];
    const chain = chainOf(messages);
    const told = { promptTokens: 25_000, cachedTokens: 0, outputTokens: 0 };
    ask(index, vllm, messages, { promptTokens: 1000, cachedTokens: 0, outputTokens: 0 });
    const age = () => index.look(chain, [vllm], 'm').held.get(vllm.name)?.age ?? Number.NaN;
    expect(age()).toBeLessThan(0.01);
    ask(index, vllm, [freshMessage(100_000)], told);
    const once = age();
    expect(once).toBeGreaterThan(0.1);
    ask(index, vllm, [freshMessage(100_000)], told);
    expect(age()).toBeCloseTo(2 * once, 1);
    ask(index, vllm, messages, { promptTokens: 1000, cachedTokens: 1000, outputTokens: 0 });
    expect(age()).toBeLessThan(0.01);
    expect(index.look(chainOf([freshMessage(640)]), [vllm], 'm').held.get(vllm.name)).toBeUndefined();
  });

  test('a prompt that is on its way counts as held there, and nowhere else', () => {
    const { index } = world();
    const chain = chainOf([freshMessage(2000)]);
    index.visit(vllm, chain, 'm');
    const look = index.look(chain, [vllm, llama], 'm');
    expect([...look.held.keys()]).toEqual(['v']);
    expect(look.reusableAt).toBe('v');
    expect(look.reusableTokens).toBe(look.held.get('v')?.tokens);
    expect(look.reusableTokens % 16).toBe(0);
  });

  test('a prompt that was never computed is forgotten again, but for what others have of it', () => {
    const { index } = world();
    const [system, first, second] = [freshMessage(640), freshMessage(640), freshMessage(640)];
    ask(index, llama, [system, first]);
    const chain = chainOf([system, second]);
    const visit = index.visit(llama, chain, 'm');
    expect(index.look(chain, [llama], 'm').held.get('l')?.chunks).toBe(chain.keys.length);
    visit.end({ computed: false });
    expect(index.look(chain, [llama], 'm').held.get('l')?.chunks).toBe(10);
    const before = chainOf([system, first]);
    expect(index.look(before, [llama], 'm').held.get('l')?.chunks).toBe(before.keys.length);
  });

  test('what was sent again before the first attempt failed stays', () => {
    const { index } = world();
    const chain = chainOf([freshMessage(640)]);
    const failing = index.visit(llama, chain, 'm');
    const other = index.visit(llama, chain, 'm');
    failing.end({ computed: false });
    other.end({ computed: true });
    expect(index.look(chain, [llama], 'm').held.get('l')?.chunks).toBe(chain.keys.length);
  });

  test('a long decode keeps its prompt, however much is inserted meanwhile; a mere queue does not', () => {
    const { index } = world();
    const small = backendView('s', { blockTokens: 16, kvTokens: 4000 });
    const [running, waiting] = [chainOf([freshMessage(1000)]), chainOf([freshMessage(1000)])];
    index.visit(small, running, 'm').computed();
    index.visit(small, waiting, 'm');
    for (let count = 0; count < 10; count += 1) ask(index, small, [freshMessage(1000)]);
    expect(index.look(running, [small], 'm').held.get('s')?.chunks).toBe(running.keys.length);
    expect(index.look(waiting, [small], 'm').held.has('s')).toBe(false);
  });

  test('of an old prompt the tail goes first', () => {
    const { index } = world();
    const small = backendView('s', { engine: 'llama-server', kvTokens: 4000 });
    const old = [freshMessage(3000)];
    ask(index, small, old);
    const depths: number[] = [];
    for (let count = 0; count < 14; count += 1) {
      depths.push(index.look(chainOf(old), [small], 'm').held.get('s')?.chunks ?? 0);
      ask(index, small, [freshMessage(400)]);
    }
    expect(depths[0]).toBe(chainOf(old).keys.length);
    expect(depths).toEqual(depths.toSorted((left, right) => right - left));
    expect(new Set(depths).size).toBeGreaterThan(5);
    expect(depths.at(-1)).toBe(0);
  });

  test('an engine that only continues whole prompts is not believed to reuse a part of one', () => {
    const { index } = world({ policies: { l: { reuse: 'whole' } } });
    const [system, question] = [freshMessage(640), freshMessage(640)];
    ask(index, llama, [system, question]);
    expect(index.look(chainOf([system, freshMessage(640)]), [llama], 'm').held.has('l')).toBe(false);
    const longer = index.look(chainOf([system, question, freshMessage(100)]), [llama], 'm');
    expect(longer.held.get('l')?.chunks).toBe(chainOf([system, question]).keys.length);
  });

  test('an engine without a cache holds nothing', () => {
    const { index } = world({ policies: { v: { reuse: 'none' } } });
    const messages = [freshMessage(2000)];
    ask(index, vllm, messages);
    expect(ask(index, vllm, messages).held.size).toBe(0);
  });
});

describe('how long a prompt is', () => {
  test('one that was told before is known exactly, and what continues it counts from there', () => {
    const { index } = world();
    const [system, question] = [freshMessage(500), freshMessage(120)];
    ask(index, llama, [system, question], { promptTokens: 777, cachedTokens: 0, outputTokens: 5 });
    const again = index.look(chainOf([system, question]), [llama], 'm');
    expect(again.promptTokens).toBe(777);
    expect(again.reusableTokens).toBe(776);
    const longer = index.look(chainOf([system, question, freshMessage(200)]), [llama], 'm');
    expect(longer.reusableTokens).toBe(777);
    expect(longer.promptTokens).toBeGreaterThan(900);
  });

  test('an answer that comes back counts as held only after one was seen to be', () => {
    const { index } = world();
    const turn = (messages: readonly Message[], cachedTokens: number) =>
      ask(index, llama, messages, { promptTokens: lengthOf(messages), cachedTokens, outputTokens: 200 });
    const messages = [freshMessage(500), freshMessage(100)];
    turn(messages, 0);
    messages.push(freshMessage(200), freshMessage(50));
    expect(turn(messages, 800).reusableTokens).toBe(600);
    messages.push(freshMessage(200), freshMessage(50));
    expect(turn(messages, 1050).reusableTokens).toBe(1050);
  });

  test('an answer whose reasoning the template drops is not', () => {
    const { index } = world();
    const messages = [freshMessage(500), freshMessage(100)];
    const off: number[] = [];
    for (let count = 0; count < 4; count += 1) {
      const promptTokens = lengthOf(messages);
      const cachedTokens = count === 0 ? 0 : promptTokens - 90;
      const look = ask(index, llama, messages, { promptTokens, cachedTokens, outputTokens: 500 });
      off.push(look.reusableTokens - cachedTokens);
      messages.push(freshMessage(40), freshMessage(50));
    }
    expect(off).toEqual([0, 0, 0, 0]);
  });
});

describe('why no more is held', () => {
  test('new, diverged with the place, evicted, restarted, or all there is', () => {
    const { index } = world();
    const small = backendView('s', { engine: 'llama-server', kvTokens: 4000 });
    const other = backendView('o', { engine: 'llama-server', kvTokens: 4000 });
    const [system, question] = [freshMessage(640), freshMessage(320)];
    const fresh = index.look(chainOf([system, question]), [small, other], 'm');
    expect(fresh.cause('s')).toBe('new');
    expect(fresh.divergence).toBeUndefined();
    ask(index, small, [system, question]);
    const same = index.look(chainOf([system, question]), [small, other], 'm');
    expect(same.cause('s')).toBeUndefined();
    expect(same.divergence).toBeUndefined();
    expect(same.cause('o')).toBe('new');
    const changed = index.look(chainOf([system, [...question.slice(0, 70), ...freshMessage(250)]]), [small], 'm');
    expect(changed.cause('s')).toBe('diverged');
    expect(changed.divergence).toEqual({ part: 1, startBytes: 256, endBytes: 512 });
    for (let count = 0; count < 9; count += 1) ask(index, small, [freshMessage(640)]);
    expect(index.look(chainOf([system, question]), [small, other], 'm').cause('s')).toBe('evicted');
    const late = [freshMessage(640)];
    ask(index, small, late);
    index.flush('s', 'restarted');
    const restarted = index.look(chainOf(late), [small, other], 'm');
    expect(restarted.held.size).toBe(0);
    expect(restarted.cause('s')).toBe('restarted');
    expect(restarted.cause('o')).not.toBe('restarted');
  });

  test('C152 ten equal prompts shorter than a block: nothing is predicted, and the cause is the block', () => {
    const { index, flushed } = world();
    const backend = backendView('v', { blockTokens: 784, kvTokens: 100_000 });
    const messages = [freshMessage(240)];
    for (let count = 0; count < 10; count += 1) {
      const look = ask(index, backend, messages, { promptTokens: 240, cachedTokens: 0, outputTokens: 10 });
      expect(look.reusableTokens).toBe(0);
      expect(look.cause('v')).toBe(count === 0 ? 'new' : 'unaligned');
    }
    const [stats] = index.stats().backends;
    expect(stats).toMatchObject({ bias: 0, error: 0, flushes: 0 });
    expect(flushed).toEqual([]);
  });

  test('C149 a clock in front of a stable prompt: nothing is believed held, and the table does not grow without end', () => {
    const { index } = world({ maxEntries: 2000 });
    const stable = freshMessage(1500);
    const history: Message[] = [];
    for (let turn = 0; turn < 400; turn += 1) {
      history.push(freshMessage(30));
      const messages = [[...freshMessage(4), ...stable], ...history.slice(-5)];
      const look = ask(index, vllm, messages, { promptTokens: lengthOf(messages), cachedTokens: 0, outputTokens: 20 });
      expect(look.reusableTokens).toBe(0);
      expect(look.cause('v')).toBe('new');
    }
    expect(index.stats().entries).toBeLessThanOrEqual(2000);
  });
});

describe('what answers teach', () => {
  const told = (promptTokens: number, cachedTokens: number): AnswerTold => ({
    computed: true,
    promptTokens,
    cachedTokens,
    outputTokens: 10,
  });

  test('C153 an answer that tells no cached tokens is no evidence at all', () => {
    const { index, flushed } = world();
    const messages = [freshMessage(4000)];
    const before = () => index.stats().backends[0]?.horizonTokens;
    ask(index, vllm, messages, { promptTokens: 4000, outputTokens: 10 });
    expect(before()).toBeUndefined();
    for (let count = 0; count < 20; count += 1) ask(index, vllm, messages, { promptTokens: 4000, outputTokens: 10 });
    expect(before()).toBeUndefined();
    expect(index.stats().backends[0]?.bias).toBeUndefined();
    expect(flushed).toEqual([]);
    expect(index.look(chainOf(messages), [vllm], 'm').reusableTokens).toBe(3984);
  });

  test('C154 a field that is missing stays unknown, also after the backend has told once', () => {
    const { index, flushed } = world();
    const messages = [freshMessage(4000)];
    ask(index, vllm, messages, { promptTokens: 4000 });
    ask(index, vllm, messages, { promptTokens: 4000, cachedTokens: 3984 });
    const horizon = index.stats().backends[0]?.horizonTokens;
    for (let count = 0; count < 5; count += 1) ask(index, vllm, messages, { promptTokens: 4000 });
    expect(index.stats().backends[0]).toMatchObject({ bias: 0, error: 0, horizonTokens: horizon });
    expect(flushed).toEqual([]);
  });

  test('C157 more cached than the prompt has, summed over four answers, counts as the prompt', () => {
    const { index } = world();
    const messages = [freshMessage(100)];
    const sglang = backendView('g', { engine: 'sglang' });
    ask(index, sglang, messages, { promptTokens: 100, cachedTokens: 0 });
    ask(index, sglang, messages, { promptTokens: 100, cachedTokens: 384 });
    const [stats] = index.stats().backends;
    expect(Math.abs(stats?.bias ?? 1)).toBeLessThan(0.02);
    expect(stats?.error).toBeLessThan(0.02);
  });

  test('what is missing shortens the horizon to its age, and all that is older counts as gone with it', () => {
    const { index } = world();
    const [first, second, third] = [[freshMessage(640)], [freshMessage(640)], [freshMessage(640)]];
    for (const messages of [first, second, third]) ask(index, vllm, messages, told(640, 0));
    for (let count = 0; count < 30; count += 1) ask(index, vllm, [freshMessage(640)], told(640, 0));
    expect(index.look(chainOf(first), [vllm], 'm').reusableTokens).toBe(624);
    ask(index, vllm, second, told(640, 0));
    expect(index.stats().backends[0]?.horizonTokens).toBeLessThan(125_000 * 0.8);
    expect(index.look(chainOf(first), [vllm], 'm').reusableTokens).toBe(0);
    expect(index.look(chainOf(third), [vllm], 'm').reusableTokens).toBe(624);
    expect(index.look(chainOf(second), [vllm], 'm').reusableTokens).toBe(624);
  });

  test('the horizon is told of once an answer bore out what the capacity told, or moved a guess, and not before', () => {
    const blind = backendView('blind', { engine: 'vllm' });
    const { index } = world();
    const shown = (name: string) => index.stats().backends.find(({ backend }) => backend === name)?.horizonTokens;
    const messages = [freshMessage(640)];
    for (const backend of [vllm, blind]) ask(index, backend, messages, told(640, 0));
    expect([shown('v'), shown('blind')]).toEqual([undefined, undefined]);
    for (const backend of [vllm, blind]) ask(index, backend, messages, told(640, 624));
    expect([shown('v'), shown('blind')]).toEqual([125_000, undefined]);
    ask(index, blind, messages, told(640, 0));
    expect(shown('blind')).toBeLessThan(1_000_000);
  });

  test('what was there against all belief lengthens it, and counts as held again', () => {
    const { index } = world({ policies: { v: { capacityTokens: 4000 } } });
    const old = [freshMessage(640)];
    ask(index, vllm, old, told(640, 0));
    for (let count = 0; count < 12; count += 1) ask(index, vllm, [freshMessage(640)], told(640, 0));
    expect(ask(index, vllm, old, told(640, 624)).reusableTokens).toBe(0);
    expect(index.stats().backends[0]?.horizonTokens).toBeGreaterThan(5000 * 1.3);
    expect(index.look(chainOf(old), [vllm], 'm').reusableTokens).toBe(624);
  });

  test('of equal prompts sent at once the later ones find nothing: no sign of eviction, and no restart', () => {
    const { index, flushed } = world();
    for (let round = 0; round < 4; round += 1) {
      const chain = chainOf([freshMessage(2000)]);
      const visits = Array.from({ length: 5 }, () => index.visit(vllm, chain, 'm'));
      for (const visit of visits) visit.end(told(2000, 0));
    }
    expect(index.stats().backends[0]?.horizonTokens).toBe(125_000);
    expect(flushed).toEqual([]);
  });

  test('a bias of more than ten points for five minutes makes the horizon begin anew', () => {
    const { index, clock } = world();
    const messages = [freshMessage(640)];
    ask(index, vllm, messages, told(640, 0));
    for (let count = 0; count < 8; count += 1) {
      // A quarter of it is never delivered.
      ask(index, vllm, messages, told(640, 480));
      clock.advance(60_000);
    }
    expect(index.stats().backends[0]).toMatchObject({ driftResets: 1 });
  });
});

describe('a backend that lost what it had', () => {
  const warm = (index: WarmIndex, count: number) => {
    const prompts = Array.from({ length: count }, () => [freshMessage(2000)]);
    for (const messages of prompts)
      ask(index, vllm, messages, { promptTokens: 2000, cachedTokens: 0, outputTokens: 10 });
    return prompts;
  };
  const zero = { promptTokens: 2000, cachedTokens: 0, outputTokens: 10 };

  test('three answers in a row without what was believed: all of it is dropped, the horizon stays, what came since counts', () => {
    const { index, flushed } = world();
    const prompts = warm(index, 8);
    for (const messages of prompts.slice(0, 3)) {
      expect(flushed).toEqual([]);
      expect(index.look(chainOf(messages), [vllm], 'm').reusableTokens).toBe(1984);
      ask(index, vllm, messages, zero);
    }
    expect(flushed).toEqual([['v', 'zero_hits']]);
    expect(index.look(chainOf(prompts[5] ?? []), [vllm], 'm').reusableTokens).toBe(0);
    expect(index.look(chainOf(prompts[2] ?? []), [vllm], 'm').reusableTokens).toBe(1984);
    expect(index.stats().backends[0]).toMatchObject({ horizonTokens: 125_000, distrusted: false, flushes: 1 });
  });

  test('one that never delivers is believed to hold nothing, until it delivers', () => {
    const { index, flushed } = world();
    const messages = [freshMessage(2000)];
    for (let count = 0; count < 30; count += 1) ask(index, vllm, messages, zero);
    expect(flushed).toHaveLength(2);
    expect(index.stats().backends[0]?.distrusted).toBe(true);
    expect(index.look(chainOf(messages), [vllm], 'm').reusableTokens).toBe(0);
    ask(index, vllm, messages, { ...zero, cachedTokens: 1984 });
    expect(index.look(chainOf(messages), [vllm], 'm').reusableTokens).toBe(1984);
  });

  test('a flush forgets one backend at once and leaves the others; a visit that was under way then changes nothing', () => {
    const { index, flushed } = world();
    const messages = [freshMessage(2000)];
    const chain = chainOf(messages);
    ask(index, vllm, messages);
    ask(index, llama, messages);
    const visit = index.visit(vllm, chain, 'm');
    index.flush('v', 'restarted');
    visit.end({ computed: true, promptTokens: 2000, cachedTokens: 0, outputTokens: 10 });
    const look = index.look(chain, [vllm, llama], 'm');
    expect(look.held.has('v')).toBe(false);
    expect(look.held.get('l')?.chunks).toBe(chain.keys.length);
    expect(index.heldTokens('v')).toBe(0);
    expect(index.heldTokens('l')).toBeGreaterThan(1900);
    expect(flushed).toEqual([['v', 'restarted']]);
    index.flush('l', 'removed');
    expect(index.stats().backends.map(({ backend }) => backend)).toEqual(['v']);
  });
});

describe('memory', () => {
  test('C142 many prompts that never come again: bounded, and a hot prompt used throughout stays known', () => {
    const maxEntries = 20_000;
    const large = backendView('v', { blockTokens: 16, kvTokens: 1_000_000 });
    const { index } = world({ maxEntries });
    const bytesAtStart = index.stats().bytes;
    const hot = namedChain(Array.from({ length: 40 }, (_, at) => -1 - at));
    let most = 0;
    let plateau = 0;
    for (let made = 0; made < 6000; made += 1) {
      // 16 KB each: 16 chunks of 256 bytes and 12 of 1 KiB.
      index
        .visit(large, namedChain(Array.from({ length: 28 }, (_, at) => 1000 + made * 100 + at)), 'm')
        .end({ computed: true });
      if (made % 50 === 0) index.visit(large, hot, 'm').end({ computed: true });
      const { entries, bytes } = index.stats();
      most = Math.max(most, entries);
      if (made === 2000) plateau = bytes;
    }
    expect(bytesAtStart).toBeLessThan(200_000);
    expect(most).toBeLessThanOrEqual(maxEntries);
    expect(index.stats().bytes).toBeLessThan(plateau * 1.7);
    expect(index.stats().trimmed).toBeGreaterThan(100_000);
    expect(index.look(hot, [large], 'm').held.get('v')?.chunks).toBe(40);
  });

  test('C143 short-lived prompts that branch off a long one at every depth: what is kept does not grow from round to round', () => {
    const { index } = world({ maxEntries: 2500, maxPromptEnds: 500 });
    const base = Array.from({ length: 200 }, (_, at) => at);
    let branch = 1000;
    const kept: { entries: number; bytes: number }[] = [];
    for (let round = 0; round < 10; round += 1) {
      for (let made = 0; made < 1000; made += 1) {
        if (made % 100 === 0) index.visit(vllm, namedChain(base), 'm').end({ computed: true });
        const names = [...base.slice(0, made % 200), (branch += 1), (branch += 1)];
        index.visit(vllm, namedChain(names), 'm').end({ computed: true });
      }
      kept.push(index.stats());
    }
    const [first, ...later] = kept;
    for (const { entries, bytes } of later) {
      expect(entries).toBeLessThanOrEqual((first?.entries ?? 0) * 1.2);
      expect(bytes).toBeLessThanOrEqual((first?.bytes ?? 0) * 1.2);
    }
    expect(index.look(namedChain(base), [vllm], 'm').held.get('v')?.chunks).toBe(200);
  });
});
