import { describe, expect, it } from 'vitest';
import { findForeignTraffic } from '../../../../src/account/findings/foreign-traffic.ts';
import { pointsUntil, windowOf, type PointSketch } from '../../../support/engine-points.ts';

const find = (sketches: readonly PointSketch[], more = {}) =>
  findForeignTraffic(windowOf({ points: pointsUntil(100_000, sketches), ...more }));
const both = (engine: number, own: number, more: Partial<PointSketch> = {}): PointSketch => ({
  deltas: { generatedTokens: engine, promptTokens: 0 },
  own: { outputTokens: own },
  ...more,
});
const times = (count: number, sketch: PointSketch) => Array.from({ length: count }, () => sketch);

describe('foreign traffic', () => {
  it('is what the engine counted beyond own requests, one in ten here, seen over the longer window', () => {
    expect(find(times(10, both(110, 100)))).toBeUndefined();
    const found = find(times(140, both(110, 100)));
    expect(found?.evidence).toMatchObject({ tokens: 'output', overMs: 278_000 });
    expect(found?.evidence['foreignPercent']).toBeCloseTo(8.4, 0);
  });

  it('is not named for what lags: an engine that counts whole answers at their ends', () => {
    // Own tokens and the counter's jump a reading apart, both ways.
    const late = [both(0, 500), both(500, 0), both(0, 0), both(300, 0), both(0, 300), both(0, 0)];
    expect(find([...late, ...late, ...late])).toBeUndefined();
    expect(find(times(140, both(103, 100)))).toBeUndefined();
  });

  it('is seen at once where nothing of ours ran', () => {
    expect(find([both(0, 0), both(0, 0), both(80, 0), both(0, 0)])?.evidence).toMatchObject({
      engineTokens: 80,
      ownTokens: 0,
      foreignTokens: 80,
      foreignPercent: 100,
    });
    expect(find([both(0, 0), both(20, 0), both(0, 0)])).toBeUndefined();
  });

  it('is not looked for where own requests still run, or where their tokens are not known for certain', () => {
    const foreign = [both(0, 0), both(400, 0), both(400, 0), both(400, 0)];
    expect(find(foreign)).toBeDefined();
    expect(find(foreign, { oldestOwnMs: 90_000 })).toBeUndefined();
    expect(find(foreign.map((sketch) => ({ ...sketch, own: { blind: 1 } })))).toBeUndefined();
  });

  it('is not looked for across a restart, or while the counter is unknown', () => {
    expect(find([both(900, 0), both(0, 0, { restarted: true, deltas: {} }), both(0, 0), both(0, 0)])).toBeUndefined();
    expect(find([{}, {}, {}])).toBeUndefined();
  });

  it('may be in prompts alone', () => {
    const reads = { deltas: { generatedTokens: 3, promptTokens: 2000 }, own: {} };
    expect(find([reads, reads, reads])?.evidence).toMatchObject({ tokens: 'prompt', foreignTokens: 4000 });
    expect(find([reads, reads, reads].map((sketch) => ({ ...sketch, own: { blindPrompts: 1 } })))).toBeUndefined();
  });

  const unsure: PointSketch = { deltas: { generatedTokens: 0, promptTokens: 0 }, own: { blind: 1, outputTokens: 200 } };

  it('is not what our own requests made just before the window, and the engine counted late', () => {
    expect(find([unsure, both(200, 0), both(0, 0)])).toBeUndefined();
    expect(find([{ ...unsure, own: { blind: 1 } }, both(200, 0), both(0, 0)])).toBeDefined();
  });

  it('is not an answer that isn’t streamed and ran across the window’s beginning', () => {
    const before = { ...unsure, own: { blind: 1 } };
    const crossed = both(200, 20, { own: { outputTokens: 20, crossingOutput: 200 } });
    expect(find([before, crossed, both(0, 0)])).toBeUndefined();
    expect(find([before, both(200, 20), both(0, 0)])).toBeDefined();
  });
});
