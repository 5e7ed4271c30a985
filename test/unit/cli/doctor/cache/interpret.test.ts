import { describe, expect, it } from 'vitest';
import { interpret } from '../../../../../src/cli/doctor/cache/interpret.ts';
import type { Observation, Step } from '../../../../../src/cli/doctor/cache/observation.ts';

const counted = (step: Step, cached: number, more: Partial<Observation> = {}): Observation => ({
  step,
  cached,
  promptTokens: 600,
  sources: ['usage'],
  ttftMs: cached > 100 ? 20 : 200,
  ...more,
});
const timed = (step: Step, ...ttfts: number[]): Observation[] => ttfts.map((ttftMs) => ({ step, sources: [], ttftMs }));
const exact = (tokens: number) => ({ shared: { tokens, exact: true } });

describe('a cache that reports hits', () => {
  const fresh = [counted('fresh', 3), counted('fresh', 3)];

  it('keeps prefixes when a prompt that parts from an earlier one hits', () => {
    const reading = interpret([
      ...fresh,
      counted('repeat', 592),
      counted('prefix', 528, exact(535)),
      counted('prefix', 400, exact(407)),
    ]);
    expect(reading).toMatchObject({ kind: 'prefixes', by: 'counts', granularity: { kind: 'blocks', tokens: 16 } });
    expect(reading.repeats).toEqual({ hit: 1, tried: 1 });
  });

  it('keeps whole prompts, or growing ones, when only those hit', () => {
    const whole = [...fresh, counted('repeat', 599), counted('prefix', 3)];
    expect(interpret([...whole, counted('continuation', 3)]).kind).toBe('whole_prompts');
    expect(interpret([...whole, counted('continuation', 590)]).kind).toBe('growing');
  });

  it('keeps nothing when no prompt ever has more than a fresh one', () => {
    expect(interpret([...fresh, counted('repeat', 3), counted('prefix', 3), counted('continuation', 3)])).toMatchObject(
      {
        kind: 'none',
        granularity: { kind: 'unclear', atMost: 3 },
      },
    );
  });

  it("a template's tokens before the first word are no stale hit", () => {
    const shares = [...fresh, counted('changed_first', 3, exact(3)), counted('repeat', 599)];
    expect(interpret(shares).changedFirst).toEqual({ hit: 'miss', cached: 3, shared: 3 });
    expect(interpret([...fresh, counted('changed_first', 590, exact(3))]).changedFirst.hit).toBe('hit');
  });

  it('takes no answer that came too late, and none that failed', () => {
    expect(interpret([...fresh, counted('concurrent', 590, { failed: 'it came too late' })]).hits.concurrent).toBe(
      'untried',
    );
  });

  it('says that tools are ignored when they add no tokens', () => {
    const short = (step: Step, promptTokens: number, cached = 0) => counted(step, cached, { promptTokens });
    expect(interpret([...fresh, short('no_tools', 60), short('tools', 60)]).tools).toEqual({ state: 'ignored' });
    expect(
      interpret([
        ...fresh,
        short('no_tools', 60),
        short('tools', 400),
        short('tools_same', 400, 384),
        short('tools_reordered', 400, 16),
      ]).tools,
    ).toEqual({ state: 'used', same: 384, reordered: 16 });
    expect(interpret([...fresh, { ...short('tools', 0), failed: 'status 400' }]).tools).toEqual({ state: 'refused' });
    expect(interpret(fresh).tools).toEqual({ state: 'untried' });
  });

  it('measures what a hit saves only where the two are apart', () => {
    const four = (step: Step, cached: number, ms: number) =>
      [0, 1, 2, 3].map((more) => counted(step, cached, { ttftMs: ms + more }));
    const apart = interpret([...four('fresh', 3, 200), ...four('repeat', 592, 20)]);
    expect(apart.savedMs).toBeCloseTo(180);
    expect(interpret([...four('fresh', 3, 200), ...four('repeat', 592, 199)]).savedMs).toBeUndefined();
  });
});

describe('a cache that reports nothing', () => {
  const fresh = timed('fresh', 200, 210, 190, 220, 205, 199);
  const short = timed('short', 20, 25, 22, 30, 21, 24);

  it('is told by times where they are clearly apart', () => {
    const observations = [
      ...fresh,
      ...short,
      ...timed('repeat', 22, 25, 21, 30, 22, 26),
      ...timed('prefix', 42, 45, 41, 50, 42, 46),
      ...timed('changed_first', 201, 199, 205, 210, 190, 230),
    ];
    expect(interpret(observations)).toMatchObject({
      kind: 'prefixes',
      by: 'times',
      hits: { repeat: 'hit', prefix: 'hit', session: 'untried' },
      changedFirst: { hit: 'miss' },
      granularity: { kind: 'unclear' },
    });
  });

  it('is off when repeated prompts are as slow as new ones, and long ones slower than short ones', () => {
    const slow = [...timed('repeat', 201, 199, 205, 210, 190, 230), ...timed('prefix', 201, 199, 205, 210, 190, 230)];
    expect(interpret([...fresh, ...short, ...slow]).kind).toBe('none');
    // Without that last sign the cache may be there and save nothing that shows.
    expect(interpret([...fresh, ...slow]).kind).toBe('unknown');
  });

  it('is not guessed at from noise, or from too few', () => {
    const noisy = [...timed('repeat', 100, 210, 180, 150, 140, 220), ...timed('prefix', 100, 210, 180, 150, 140, 220)];
    expect(interpret([...fresh, ...short, ...noisy]).kind).toBe('unknown');
    expect(interpret([...timed('fresh', 200, 201), ...timed('repeat', 20, 21)]).kind).toBe('unknown');
    expect(interpret([]).kind).toBe('unknown');
  });
});
