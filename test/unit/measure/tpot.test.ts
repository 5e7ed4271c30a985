import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { Engine } from '../../../src/domain/names.ts';
import { delta, done, finish, role, text, usage } from '../../support/events.ts';
import { observe, type Read } from '../../support/observe.ts';

describe('whatever a stream does', () => {
  const event = fc.record({
    gapMs: fc.integer({ min: 0, max: 50 }),
    choice: fc.nat(1),
    kind: fc.constantFrom('text', 'empty', 'reasoning', 'tool', 'role', 'finish'),
  });
  const make = ({ kind, choice }: { kind: string; choice: number }) => {
    if (kind === 'role') return role(choice);
    if (kind === 'finish') return finish('stop', choice);
    if (kind === 'tool') return delta({ tool_calls: [{ index: 0 }] }, choice);
    if (kind === 'reasoning') return delta({ reasoning: 'x' }, choice);
    return text(kind === 'empty' ? '' : 'x', choice);
  };
  const engines = fc.constantFrom<Engine>('vllm', 'llama-server', 'openai');
  const told = fc.option(fc.record({ output: fc.nat(80), reasoning: fc.nat(40) }), { nil: undefined });

  it('figures are finite and positive or absent, and a window is named', () => {
    fc.assert(
      fc.property(fc.array(event, { maxLength: 40 }), engines, told, (events, engine, counts) => {
        let atMs = 0;
        const reads: Read[] = events.map((one) => [(atMs += one.gapMs), make(one)]);
        const details = { completion_tokens_details: { reasoning_tokens: counts?.reasoning } };
        const last = counts === undefined ? done : usage(10, counts.output, details) + done;
        const { figures, tokens } = observe({ engine, choices: 2 }, [...reads, [atMs, last]]);
        for (const value of Object.values(figures)) {
          if (typeof value === 'number') expect(value).toBeGreaterThanOrEqual(0);
          if (typeof value === 'number') expect(Number.isFinite(value)).toBe(true);
        }
        expect(figures.tpotMs === undefined).toBe(figures.tpotWindow.startsWith('none_'));
        if (figures.tpotMs !== undefined) {
          expect(figures.tpotMs).toBeGreaterThan(0);
          expect(tokens.output?.value).toBeGreaterThan(1);
          expect((figures.decodeTokensPerSecond ?? 0) * figures.tpotMs).toBeCloseTo(1000, 6);
        }
      }),
      { numRuns: 1500 },
    );
  });

  it('one event per token and one choice: E2E = TTFT + TPOT × (n − 1)', () => {
    const gaps = fc.array(fc.double({ min: 0.001, max: 500, noNaN: true }), { minLength: 2, maxLength: 60 });
    fc.assert(
      fc.property(gaps, engines, (gapsMs, engine) => {
        let atMs = 0;
        const reads: Read[] = gapsMs.map((gapMs) => [(atMs += gapMs), text('x')]);
        const n = gapsMs.length;
        const { figures, marks } = observe({ engine }, [...reads, [atMs + 5, finish('length') + usage(3, n) + done]]);
        expect(marks).toEqual([]);
        expect(figures.tpotWindow).toBe('visible');
        expect((figures.ttftMs ?? 0) + (figures.tpotMs ?? 0) * (n - 1)).toBeCloseTo(figures.e2eMs ?? Number.NaN, 6);
      }),
    );
  });
});

describe('no window', () => {
  it('when everything came in one read', () => {
    const { figures } = observe({}, [[10, text('a') + text('b') + text('c') + usage(3, 3) + done]]);
    expect(figures).toMatchObject({ tpotWindow: 'none_no_window', ttftMs: 10 });
    expect(figures.tpotMs).toBeUndefined();
  });

  it('when one event carried all tokens and its choice never finished', () => {
    expect(
      observe({}, [
        [10, text('a b c')],
        [20, usage(3, 3) + done],
      ]).figures.tpotWindow,
    ).toBe('none_no_window');
  });

  it('when nothing was counted', () => {
    expect(
      observe({}, [
        [10, role()],
        [20, done],
      ]).figures.tpotWindow,
    ).toBe('none_unknown_count');
  });
});

it('tokens that never showed take the window from the role to the finish', () => {
  const record = observe({ engine: 'vllm' }, [
    [100, role()],
    [600, finish('stop') + usage(3, 11) + done],
  ]);
  expect(record.figures).toMatchObject({ tpotWindow: 'role_to_finish', tpotMs: 50 });
  expect(record.marks).toEqual(['fewer_events_than_tokens']);
});
