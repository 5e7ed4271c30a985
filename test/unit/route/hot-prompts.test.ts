import fc from 'fast-check';
import { describe, expect, it } from 'vitest';

import type { PrefixChain } from '../../../src/domain/prefix.ts';
import { createHotPrompts, type HotPromptsSettings } from '../../../src/route/hot-prompts.ts';

const settings: HotPromptsSettings = { maxBorders: 64, maxBytes: 10_000, minTokens: 100 };

/** A prompt of messages, each of 1 KiB and of one chunk, by what is in it; equal beginnings have equal keys. */
function prompt(...messages: string[]): PrefixChain {
  let key = 7;
  const keys = messages.map((message) => {
    for (const char of message) key = (key * 31 + char.charCodeAt(0)) % 1_000_003_000_007;
    return (key = (key * 31 + 1) % 1_000_003_000_007);
  });
  return {
    keys: Float64Array.from(keys),
    ends: Float64Array.from(messages, (_, at) => (at + 1) * 1024),
    parts: Int32Array.from(messages, (_, at) => at),
    bytes: messages.length * 1024,
    wideBytes: 0,
  };
}

function world(over: Partial<HotPromptsSettings> = {}) {
  const hot = createHotPrompts({ ...settings, ...over });
  const saw = (...messages: string[]) => {
    const wanted = hot.saw(prompt(...messages));
    if (wanted !== undefined)
      hot.keep(wanted, '/v1/chat/completions', Buffer.from(messages.slice(0, wanted.messages).join('+')));
    return wanted;
  };
  const texts = (count = 8) => hot.hottest(count).map(({ body }) => body.toString());
  return { hot, saw, texts };
}

describe('the hottest beginnings', () => {
  it('are those behind which different prompts part', () => {
    const { saw, texts } = world();
    for (let i = 0; i < 5; i += 1) saw('system', `question ${i}`);
    expect(texts()).toEqual(['system']);
  });

  it('are not conversations that only grow, nor one prompt again and again', () => {
    const { saw, texts, hot } = world();
    const turns: string[] = [];
    for (let i = 0; i < 10; i += 1) {
      turns.push(`turn ${i}`);
      saw(...turns);
    }
    for (let i = 0; i < 10; i += 1) saw('other', 'same');
    expect(texts()).toEqual([]);
    expect(hot.bytes).toBe(0);
  });

  it('are not worth it below a length', () => {
    const { saw, texts } = world({ minTokens: 400 });
    for (let i = 0; i < 5; i += 1) saw('system', `question ${i}`);
    expect(texts()).toEqual([]);
  });

  it('come by how many requests they would serve, times their length', () => {
    const { saw, texts } = world();
    for (let i = 0; i < 4; i += 1) saw('rare', `${i}`);
    for (let i = 0; i < 9; i += 1) saw('often', `${i}`);
    expect(texts()).toEqual(['often', 'rare']);
    expect(texts(1)).toEqual(['often']);
  });

  it('name the longer of two when one lies within the other', () => {
    const { saw, texts } = world();
    for (let i = 0; i < 6; i += 1) saw('system', 'examples', `${i}`);
    saw('system', 'alone 1');
    saw('system', 'alone 2');
    expect(texts()).toEqual(['system+examples']);
  });

  it('ask for their text once', () => {
    const { saw } = world();
    const wanted = Array.from({ length: 8 }, (_, i) => saw('system', `${i}`));
    expect(wanted.filter((one) => one !== undefined)).toHaveLength(1);
  });

  it('let go of what is worth less when text has no room', () => {
    const { saw, texts, hot } = world({ maxBytes: 12 });
    for (let i = 0; i < 3; i += 1) saw('cold-text', `${i}`);
    expect(texts()).toEqual(['cold-text']);
    // Worth as little: no reason to change.
    for (let i = 0; i < 3; i += 1) saw('like-text', `${i}`);
    expect(texts()).toEqual(['cold-text']);
    // Seen as seldom, but longer.
    for (let i = 0; i < 4; i += 1) saw('long', 'er-text', `${i}`);
    expect(texts()).toEqual(['long+er-text']);
    expect(hot.bytes).toBe(12);
  });

  it('never keep a text past the bound, nor ask for it again at once', () => {
    const { saw, texts } = world({ maxBytes: 3 });
    const wanted = Array.from({ length: 8 }, (_, i) => saw('system', `${i}`));
    expect(wanted.filter((one) => one !== undefined)).toHaveLength(1);
    expect(texts()).toEqual([]);
  });

  it('stay within their bounds whatever comes', () => {
    fc.assert(
      fc.property(
        fc.array(fc.tuple(fc.nat(20), fc.nat(5), fc.nat(3)), { maxLength: 400 }),
        fc.integer({ min: 1, max: 8 }),
        (asked, maxBorders) => {
          const { saw, hot } = world({ maxBorders, maxBytes: 40 });
          for (const [first, second, third] of asked) saw(`a${first}`, `b${second}`, `c${third}`);
          expect(hot.bytes).toBeLessThanOrEqual(40);
          expect(hot.hottest(1000).length).toBeLessThanOrEqual(maxBorders);
          const kept = hot.hottest(1000).reduce((sum, { body }) => sum + body.length, 0);
          expect(kept).toBeLessThanOrEqual(hot.bytes);
        },
      ),
    );
  });

  it('find a heavy one among many that come once', () => {
    const { saw, texts } = world({ maxBorders: 16 });
    for (let i = 0; i < 300; i += 1) {
      saw('heavy', `h${i}`);
      saw(`noise ${i}`, 'x');
    }
    expect(texts(1)).toEqual(['heavy']);
  });

  it('forget what was hot long ago', () => {
    const { saw, texts } = world();
    for (let i = 0; i < 50; i += 1) saw('old', `${i}`);
    for (let i = 0; i < 70_000; i += 1) saw('new', `${i % 3}`);
    expect(texts(1)).toEqual(['new']);
    expect(texts()).not.toContain('old');
  });
});
