import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { smoothGoodput, usualReadTokenMs } from '../../../../src/account/slo/smooth.ts';
import { profileOf, shipped, streamOf } from '../../../support/slo-record.ts';

/** T = 200 ms, V = 50 ms, so a second of waiting costs 20 tokens. */
const reader = profileOf({ ttftMs: 200, itlMs: 50 });

describe('smooth goodput', () => {
  it('of an answer that keeps its reader’s pace is all its tokens', () => {
    expect(smoothGoodput(streamOf({ tokens: [200, 250, 300, 350] }), reader)).toEqual({
      tokens: 4,
      idleMs: 0,
      benefitTokens: 4,
    });
    // Token i may come at T + i·V: the first one 50 ms after T costs nobody anything.
    expect(smoothGoodput(streamOf({ tokens: [250, 300, 350, 400] }), reader).idleMs).toBe(0);
  });

  it('takes off what its reader waited, wherever that was', () => {
    // p: max(250, 1250) = 1250, 1300, 1350, 1400; T + 4·V = 400: a second of waiting.
    const late = smoothGoodput(streamOf({ tokens: [1250, 1260, 1270, 1280] }), reader);
    expect(late).toEqual({ tokens: 4, idleMs: 1000, benefitTokens: 4 - 20 });
    // p: 250, 300, max(350, 1350) = 1350, 1400.
    const paused = smoothGoodput(streamOf({ tokens: [100, 110, 1350, 1360] }), reader);
    expect(paused).toEqual({ tokens: 4, idleMs: 1000, benefitTokens: -16 });
  });

  it('ranks a late smooth stream and an early one with a pause by what was felt, which counting gaps does not', () => {
    const lateMs = Array.from({ length: 40 }, (_, i) => 1000 + 20 * i);
    const pauseMs = Array.from({ length: 40 }, (_, i) => (i < 39 ? 100 + 20 * i : 2600));
    const late = smoothGoodput(streamOf({ tokens: lateMs }), reader);
    const paused = smoothGoodput(streamOf({ tokens: pauseMs }), reader);
    expect(late.idleMs).toBe(750);
    // The reader is at token 39 at 200 + 39·50 = 2150 ms: 2600 is 400 ms past its turn at 2200.
    expect(paused.idleMs).toBe(400);
  });

  it('counts the tokens that an event says it carries', () => {
    const stamps = { tokens: Uint16Array.of(1, 3, 3) };
    // p: 250; max(300, 600) + 2·50 = 700; max(750, 900) + 100 = 1000; T + 7·50 = 550.
    expect(smoothGoodput(streamOf({ tokens: [200, 600, 900], output: 7, stamps }), reader)).toEqual({
      tokens: 7,
      idleMs: 450,
      benefitTokens: 7 - 9,
    });
  });

  it('spreads the engine’s count over events that don’t say', () => {
    // 7 over 3 events: 2, 2, 3. p: 300; max(350, 600) + 50 = 650; max(700, 900) + 100 = 1000.
    expect(smoothGoodput(streamOf({ tokens: [200, 600, 900], output: 7 }), reader)).toMatchObject({
      tokens: 7,
      idleMs: 450,
    });
  });

  it('leaves thoughts out that nobody saw', () => {
    const more = {
      marks: ['hidden_reasoning'] as const,
      tokens: { output: { value: 300, source: 'usage' as const }, reasoning: { value: 297, source: 'usage' as const } },
    };
    expect(smoothGoodput(streamOf({ tokens: [200, 250, 300], more }), reader).tokens).toBe(3);
  });

  it('has tokens past the last kept stamp come with the last token', () => {
    const record = streamOf({ tokens: [200, 250], output: 10, more: { marks: ['stamps_capped'] } });
    const longer = { ...record, timeline: { ...record.timeline, lastToken: 2700 } };
    // p: 250, 300, then 8 at 1700 ms after the request: 1700 + 7·50 = 2050; T + 10·50 = 700.
    expect(smoothGoodput(longer, reader)).toMatchObject({ tokens: 10, idleMs: 1350 });
  });

  it('gives each choice a reader of its own', () => {
    const stamps = { choice: Uint16Array.of(0, 1, 0, 1) };
    // Both: first at 250, second 500 ms late.
    expect(smoothGoodput(streamOf({ tokens: [250, 250, 800, 800], stamps }), reader)).toEqual({
      tokens: 4,
      idleMs: 1000,
      benefitTokens: 4 - 20,
    });
  });

  it('of an answer that is not streamed has all its tokens come at its end', () => {
    const more = { streamed: false };
    // p_1 = max(250, 1000); T + V = 250.
    expect(smoothGoodput(streamOf({ end: 1000, output: 100, more }), reader)).toEqual({
      tokens: 100,
      idleMs: 750,
      benefitTokens: 85,
    });
    expect(smoothGoodput(streamOf({ end: 1000, output: 0, more }), reader)).toEqual({ idleMs: 0 });
  });

  it('of one that broke off or was left is only what was waited, the last silence too', () => {
    // p: 250, 300, then the end at 1350 for a third: T + 3·V = 350.
    const course = { tokens: [200, 250], end: 1350 };
    expect(smoothGoodput(streamOf({ ...course, outcome: 'timeout' }), reader)).toEqual({
      tokens: 2,
      idleMs: 1000,
      benefitTokens: -20,
    });
    expect(smoothGoodput(streamOf({ ...course, outcome: 'client_abort' }), reader).benefitTokens).toBe(-20);
    expect(
      smoothGoodput(streamOf({ tokens: [200, 250], end: 260, outcome: 'client_abort' }), reader).benefitTokens,
    ).toBe(0);
    expect(smoothGoodput(streamOf({ end: 1250, outcome: 'rejected' }), reader)).toEqual({
      idleMs: 1000,
      benefitTokens: -20,
    });
  });

  it('begins at the first token where no bound says when, and reads at the usual pace where none says how fast', () => {
    expect(smoothGoodput(streamOf({ tokens: [5000, 5030] }), shipped('reading')).benefitTokens).toBe(2);
    // Only the gap counts: p_2 = 5000 + 1000, and 5000 + 2·189 was due.
    const slow = smoothGoodput(
      streamOf({ tokens: [5000, 6000] }),
      profileOf({ tpotMs: 100, readTokenMs: usualReadTokenMs }),
    );
    expect(slow.idleMs).toBe(1000 - 2 * usualReadTokenMs);
    expect(smoothGoodput(streamOf({ tokens: [100, 200] }), shipped('chat'))).toMatchObject({ benefitTokens: 2 });
  });

  it('costs what the profile says', () => {
    const profile = profileOf({ ttftMs: 200, readTokenMs: 50, waitCostTokensPerSecond: 3 });
    expect(smoothGoodput(streamOf({ tokens: [1250, 1260] }), profile)).toEqual({
      tokens: 2,
      idleMs: 1000,
      benefitTokens: -1,
    });
  });

  it('is never above the tokens, and never better when a token comes later', () => {
    const gaps = fc.array(fc.double({ min: 0, max: 300, noNaN: true }), { minLength: 1, maxLength: 50 });
    fc.assert(
      fc.property(gaps, fc.nat(), fc.double({ min: 1, max: 500, noNaN: true }), (between, pick, laterMs) => {
        const momentsOf = (list: readonly number[]) => {
          let at = 0;
          return list.map((gap) => (at += gap));
        };
        const delayed = between.map((gap, i) => (i === pick % between.length ? gap + laterMs : gap));
        const soon = smoothGoodput(streamOf({ tokens: momentsOf(between) }), reader);
        const late = smoothGoodput(streamOf({ tokens: momentsOf(delayed) }), reader);
        expect(soon.benefitTokens).toBeLessThanOrEqual(between.length);
        expect(late.benefitTokens).toBeLessThanOrEqual((soon.benefitTokens ?? 0) + 1e-9);
      }),
    );
  });
});
