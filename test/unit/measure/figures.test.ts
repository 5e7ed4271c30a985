/** The worked examples of deploy/definitions.md: warmlane's figures, and the other tools' from the same moments. */
import { describe, expect, it } from 'vitest';
import type { RequestRecord } from '../../../src/domain/record.ts';
import { itlSamplesMs } from '../../../src/measure/itl.ts';
import { delta, done, finish, role, text, usage } from '../../support/events.ts';
import { observe, type Read } from '../../support/observe.ts';

/** Moments in ms after the request's last byte, as another tool would take them from outside. */
function moments({ timeline, figures }: RequestRecord) {
  const from = timeline.receivedLast ?? Number.NaN;
  const after = (moment: number | undefined) => (moment ?? Number.NaN) - from;
  return {
    role: after(timeline.role),
    first: after(timeline.firstToken),
    answer: after(timeline.firstAnswer),
    last: after(timeline.lastToken),
    end: after(timeline.end),
    durationMs: figures.durationMs,
  };
}

it('first token at 0.8 s, 101st and last at 2.8 s', () => {
  const reads = Array.from({ length: 101 }, (_, i): Read => [800 + 20 * i, text('x')]);
  const { figures, marks } = observe({}, [...reads, [2800, finish('length') + usage(10, 101) + done]]);
  expect(marks).toEqual([]);
  expect(figures.ttftMs).toBe(800);
  expect(figures.tpotMs).toBe(20);
  expect(figures.decodeTokensPerSecond).toBe(50);
  expect(figures.overallTokensPerSecond).toBeCloseTo(36.1, 1);
  expect(figures.e2eMs).toBe(800 + 20 * 100);
});

describe('F1 one clean stream, many definitions', () => {
  const tokens = Array.from({ length: 11 }, (_, i): Read => [1000 + 100 * i, text('x')]);
  const record = observe({ engine: 'vllm' }, [
    [980, role()],
    ...tokens,
    [2000, finish('stop')],
    [2050, usage(40, 11) + done],
  ]);
  const { role: roleMs, first, last, end } = moments(record);
  const n = record.tokens.output?.value ?? 0;

  it('warmlane’s', () => {
    expect(record.figures).toMatchObject({
      ttftMs: 1000,
      tpotMs: 100,
      e2eMs: 2000,
      durationMs: 2050,
      firstEventMs: 980,
    });
    expect(record.figures.decodeTokensPerSecond).toBe(10);
    expect(record.figures.overallTokensPerSecond).toBe(5.5);
    expect(record.marks).toEqual([]);
  });

  it('the others’', () => {
    expect(n).toBe(11);
    expect((end - roleMs) / (n - 1)).toBeCloseTo(107, 6);
    expect((last - first) / (n - 1)).toBeCloseTo(100, 6);
    expect((end - first) / (n - 1)).toBeCloseTo(105, 6);
    expect(last / n).toBeCloseTo(181.8, 1);
    expect(end / n).toBeCloseTo(186.4, 1);
    expect((last - first) / n).toBeCloseTo(90.9, 1);
    expect((n * 1000) / end).toBeCloseTo(5.37, 2);
  });
});

describe('F2 the same tokens in five chunks', () => {
  const reads: Read[] = [
    [980, role()],
    [1000, text('a')],
    [1300, text('b c d')],
    [1600, text('e f g')],
    [1900, text('h i j')],
    [2000, text('k') + finish('stop')],
    [2050, usage(40, 11) + done],
  ];
  const record = observe({ engine: 'vllm' }, reads);

  it('TPOT stays what it was, the gaps are those of the chunks', () => {
    expect(record.figures).toMatchObject({ tpotMs: 100, tpotWindow: 'visible', decodeTokensPerSecond: 10 });
    expect(itlSamplesMs(record.stamps)).toEqual([300, 300, 300, 100]);
    expect(record.events).toBe(5);
    expect(record.tokens.output?.value).toBe(11);
    expect(record.marks).toEqual(['several_tokens_per_event']);
  });

  it('who counts chunks sees 4 tokens/s', () => {
    const { first, last } = moments(record);
    expect(((record.events - 1) * 1000) / (last - first)).toBe(4);
  });
});

describe('F3 a reasoning model', () => {
  const thinking = Array.from({ length: 25 }, (_, i): Read => [500 + 100 * i, delta({ reasoning: 'x' })]);
  const answer = Array.from({ length: 11 }, (_, i): Read => [3000 + 100 * i, text('x')]);
  const details = { completion_tokens_details: { reasoning_tokens: 25 } };
  const record = observe({}, [...thinking, ...answer, [4000, finish('stop') + usage(40, 36, details) + done]]);

  it('first token and first answer token are two figures', () => {
    expect(record.figures).toMatchObject({ ttftMs: 500, ttfaMs: 3000, tpotMs: 100, tpotWindow: 'visible' });
    expect(record.tokens.reasoning?.value).toBe(25);
  });

  it('who starts the window at the answer but counts the reasoning is far too fast', () => {
    const { answer: answerMs, last } = moments(record);
    expect((last - answerMs) / (36 - 1)).toBeCloseTo(28.6, 1);
  });
});
