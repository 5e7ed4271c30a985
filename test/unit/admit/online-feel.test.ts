import { describe, expect, it } from 'vitest';
import { createOnlineFeeling, type LiveStream, percentile } from '../../../src/admit/online-feel.ts';

type Stream = { -readonly [key in keyof LiveStream]: LiveStream[key] };

const bound = { ttftMs: 1000, tpotMs: 100 };

function streamOf(over: Partial<Stream> = {}): Stream {
  return {
    backend: 'a',
    lane: 'online',
    streams: true,
    askedMs: 0,
    sentMs: 0,
    firstTokenMs: undefined,
    lastTokenMs: undefined,
    tokens: 0,
    events: 0,
    promptTokens: 100,
    bound,
    ...over,
  };
}

/** It shows so many tokens, the first at `fromMs`, one each `paceMs`. */
function show(stream: Stream, { fromMs, paceMs, tokens }: { fromMs: number; paceMs: number; tokens: number }): void {
  stream.firstTokenMs = fromMs;
  stream.lastTokenMs = fromMs + (tokens - 1) * paceMs;
  stream.tokens = tokens;
  stream.events = tokens;
}

describe('what online users feel', () => {
  it('is nothing where there are none', () => {
    expect(createOnlineFeeling().take(1000)).toEqual({});
  });

  it('is the running pace of streams over its bound, from eight tokens on', () => {
    const feeling = createOnlineFeeling();
    const [young, old] = [streamOf(), streamOf()];
    show(young, { fromMs: 100, paceMs: 90, tokens: 7 });
    show(old, { fromMs: 100, paceMs: 50, tokens: 12 });
    feeling.saw(young, 650);
    feeling.saw(old, 650);
    expect(feeling.take(650).tpot).toBeCloseTo(0.5);
  });

  it('is, of a stream that runs for long before anybody looks, its pace and what it does from then on, not how it began', () => {
    const feeling = createOnlineFeeling();
    const stream = streamOf();
    show(stream, { fromMs: 5000, paceMs: 30, tokens: 1000 });
    stream.lastTokenMs = 600_000;
    stream.events = stream.tokens = 19_834;
    feeling.saw(stream, 600_000);
    const first = feeling.take(600_000);
    expect(first.tpot).toBeCloseTo(0.3);
    expect(first).not.toHaveProperty('ttft');
    expect(first).not.toHaveProperty('ttftMs');
    expect(first.itl ?? 0).toBeLessThan(0.01);
    stream.lastTokenMs = 600_200;
    stream.events = stream.tokens = 19_835;
    feeling.saw(stream, 600_250);
    expect(feeling.take(600_250).itl).toBeCloseTo(2);
  });

  it('is the pace that nine of ten streams keep', () => {
    const feeling = createOnlineFeeling();
    for (let i = 1; i <= 10; i += 1) {
      const stream = streamOf();
      show(stream, { fromMs: 0, paceMs: 10 * i, tokens: 10 });
      feeling.saw(stream, stream.lastTokenMs ?? 0);
    }
    expect(feeling.take(900).tpot).toBeCloseTo(0.9);
  });

  it('counts the silence of a stream that stalls as the least that its next gap will be', () => {
    const feeling = createOnlineFeeling();
    const stream = streamOf();
    show(stream, { fromMs: 0, paceMs: 20, tokens: 10 });
    feeling.saw(stream, 2000);
    const { tpot, itl } = feeling.take(2000);
    expect(tpot).toBeCloseTo(2);
    // Nine gaps of 20 ms, and one of 1,820 ms so far.
    expect(itl).toBeCloseTo((9 * 0.2 + 18.2) / 10);
  });

  it('takes as gaps only those since the last look', () => {
    const feeling = createOnlineFeeling();
    const stream = streamOf();
    show(stream, { fromMs: 0, paceMs: 20, tokens: 11 });
    feeling.saw(stream, 200);
    expect(feeling.take(200).itl).toBeCloseTo(0.2);
    stream.lastTokenMs = 500;
    stream.tokens = 13;
    stream.events = 13;
    feeling.saw(stream, 500);
    const { itl, itlMs } = feeling.take(500);
    expect(itl).toBeCloseTo(1.5);
    expect(itlMs).toBeCloseTo(150);
  });

  it('is the time to first tokens over its bound, for five seconds, each counted once', () => {
    const feeling = createOnlineFeeling();
    const stream = streamOf({ askedMs: 100 });
    show(stream, { fromMs: 600, paceMs: 20, tokens: 2 });
    feeling.saw(stream, 650);
    expect(feeling.take(650)).toMatchObject({ ttft: 0.5, ttftMs: 500 });
    feeling.saw(stream, 900);
    feeling.ended(stream, 950);
    expect(feeling.take(5600).ttft).toBe(0.5);
    expect(feeling.take(5651).ttft).toBeUndefined();
  });

  it('feels the waiting for a first token as soon as it is longer than the others’', () => {
    const feeling = createOnlineFeeling();
    const [quick, late] = [streamOf(), streamOf()];
    show(quick, { fromMs: 400, paceMs: 20, tokens: 2 });
    feeling.saw(quick, 420);
    feeling.saw(late, 300);
    expect(feeling.take(420).ttft).toBeCloseTo(0.4);
    feeling.saw(late, 1500);
    expect(feeling.take(1500).ttft).toBeCloseTo(1.5);
  });

  it('remembers what ended between two looks', () => {
    const feeling = createOnlineFeeling();
    const stream = streamOf();
    show(stream, { fromMs: 200, paceMs: 60, tokens: 20 });
    feeling.ended(stream, 1400);
    const { ttft, tpot, itl } = feeling.take(1450);
    expect(ttft).toBeCloseTo(0.2);
    expect(tpot).toBeCloseTo(0.6);
    expect(itl).toBeCloseTo(0.6);
  });

  it('judges an answer in one piece by all that its bounds allow it, and not before its end', () => {
    const feeling = createOnlineFeeling();
    const whole = streamOf({ streams: false, tokens: 0 });
    feeling.saw(whole, 9000);
    expect(feeling.take(9000)).toEqual({});
    whole.tokens = 40;
    feeling.ended(whole, 10_000);
    expect(feeling.take(10_000).tpot).toBeCloseTo(2);
  });

  it('R16 learns how many tokens an event holds, and takes no stream for slow that shows five at once', () => {
    const feeling = createOnlineFeeling();
    for (let i = 0; i < 60; i += 1) {
      const ended = streamOf();
      show(ended, { fromMs: 0, paceMs: 200, tokens: 20 });
      ended.tokens = 100;
      feeling.ended(ended, 4000);
    }
    feeling.take(4000);
    const stream = streamOf({ askedMs: 20_000 });
    show(stream, { fromMs: 20_000, paceMs: 200, tokens: 10 });
    feeling.saw(stream, 21_800);
    const { tpot = 0, itl = 0 } = feeling.take(21_800);
    expect(tpot).toBeGreaterThan(0.3);
    expect(tpot).toBeLessThan(0.6);
    expect(itl).toBeLessThan(0.6);
  });

  it('passes over the batch lane', () => {
    const feeling = createOnlineFeeling();
    const batch = streamOf({ lane: 'batch' });
    show(batch, { fromMs: 5000, paceMs: 900, tokens: 20 });
    feeling.saw(batch, 23_000);
    feeling.ended(batch, 23_000);
    expect(feeling.take(23_000)).toEqual({});
  });

  it('holds a bounded number of what ended', () => {
    const feeling = createOnlineFeeling();
    for (let i = 0; i < 300; i += 1) {
      const stream = streamOf();
      show(stream, { fromMs: 0, paceMs: i < 100 ? 500 : 10, tokens: 10 });
      feeling.ended(stream, 5000);
    }
    // Of 256 that are left 56 were slow.
    expect(feeling.take(5000).tpot).toBeGreaterThan(1);
    for (let i = 0; i < 256; i += 1) {
      const stream = streamOf();
      show(stream, { fromMs: 0, paceMs: 10, tokens: 10 });
      feeling.ended(stream, 5001);
    }
    expect(feeling.take(5001).tpot).toBeCloseTo(0.1);
  });
});

describe('a percentile', () => {
  it('is by nearest rank, of none undefined', () => {
    expect(percentile([], 0.9)).toBeUndefined();
    expect(percentile([3], 0.9)).toBe(3);
    expect(percentile([5, 1, 4, 2, 3], 0.5)).toBe(3);
    expect(percentile([5, 1, 4, 2, 3], 0.95)).toBe(5);
  });
});
