import { describe, expect, it } from 'vitest';
import { HitSums } from '../../../../src/account/hits/hit-sums.ts';
import { registerCacheMetrics } from '../../../../src/export/metrics/cache-metrics.ts';
import { createMeter, type Meter } from '../../../../src/export/metrics/meter.ts';

function told(): HitSums {
  const sums = new HitSums();
  const hit = {
    kind: 'told',
    promptTokens: 100,
    reusableTokens: 80,
    predictedTokens: 60,
    deliveredTokens: 40,
  } as const;
  sums.add({ ...hit, clamped: false }, { missed: [{ cause: 'diverged', tokens: 60 }], tooShort: false });
  return sums;
}

function untold(): HitSums {
  const sums = new HitSums();
  sums.add({ kind: 'untold' }, { missed: [], tooShort: false });
  return sums;
}

function values(meter: Meter, name: string): Record<string, number> {
  const points = meter.collect().find((metric) => metric.name === name)?.points ?? [];
  return Object.fromEntries(
    points.map(({ labels, value }) => [labels.map(([, word]) => word).join(' '), value as number]),
  );
}

function meterOf(sums: HitSums): Meter {
  const meter = createMeter({ maxSeries: 100 });
  registerCacheMetrics(meter, {
    totals: () => [{ backend: 'b1', model: 'm', sums }],
    recent: () => [{ backend: 'b1', sums }],
    warm: () => ({
      entries: 5,
      maxEntries: 10,
      bytes: 99,
      trimmed: 0,
      backends: [
        {
          backend: 'b1',
          entries: 5,
          heldTokens: 50,
          flushes: 2,
          driftResets: 0,
          distrusted: false,
        },
        {
          backend: 'b2',
          entries: 0,
          heldTokens: 0,
          horizonTokens: 125_000,
          flushes: 0,
          driftResets: 0,
          distrusted: false,
        },
      ],
    }),
  });
  return meter;
}

describe('metrics of the prefix cache', () => {
  it('have all kinds of tokens over the same answers, and every cause', () => {
    const meter = meterOf(told());
    expect(values(meter, 'warmlane.cache.tokens')).toEqual({
      'b1 m told': 100,
      'b1 m reusable': 80,
      'b1 m captured': 60,
      'b1 m delivered': 40,
    });
    const missed = values(meter, 'warmlane.cache.missed_tokens');
    expect(Object.keys(missed)).toHaveLength(7);
    expect(Object.values(missed).reduce((sum, value) => sum + value, 0)).toBe(60);
    expect(values(meter, 'warmlane.cache.prediction.bias')).toEqual({ b1: 0.2 });
    expect(values(meter, 'warmlane.cache.coverage')).toEqual({ b1: 1 });
  });

  it('C153 C158 have no tokens and no bias of a backend that does not tell, but its answers', () => {
    const meter = meterOf(untold());
    expect(values(meter, 'warmlane.cache.tokens')).toEqual({});
    expect(values(meter, 'warmlane.cache.prediction.bias')).toEqual({});
    expect(values(meter, 'warmlane.cache.answers')).toEqual({
      'b1 m told': 0,
      'b1 m untold': 1,
      'b1 m unpredicted': 0,
    });
    expect(values(meter, 'warmlane.cache.coverage')).toEqual({ b1: 0 });
  });

  it('tell how much the index holds; a horizon that is not known yet has no value', () => {
    const meter = meterOf(told());
    expect(values(meter, 'warmlane.warm.held')).toEqual({ b1: 50, b2: 0 });
    expect(values(meter, 'warmlane.warm.flushes')).toEqual({ b1: 2, b2: 0 });
    expect(values(meter, 'warmlane.warm.entries.limit')).toEqual({ '': 10 });
    expect(values(meter, 'warmlane.warm.memory')).toEqual({ '': 99 });
    expect(values(meter, 'warmlane.warm.horizon')).toEqual({ b2: 125_000 });
  });
});
