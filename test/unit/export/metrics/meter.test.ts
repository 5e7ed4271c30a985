import { describe, expect, it } from 'vitest';
import type { MetricName } from '../../../../src/domain/catalogue.ts';
import { createMeter, type Meter } from '../../../../src/export/metrics/meter.ts';
import { Sketch } from '../../../../src/platform/sketch.ts';

function pointsOf(meter: Meter, name: MetricName): Record<string, number> {
  const points = meter.collect().find((metric) => metric.name === name)?.points ?? [];
  return Object.fromEntries(
    points.map(({ labels, value }) => [
      labels.map(([label, of]) => `${label}=${of}`).join(),
      value instanceof Sketch ? value.count : value,
    ]),
  );
}

describe('counters and histograms', () => {
  it('keep one series for each label set, in the order of the metric’s labels', () => {
    const meter = createMeter({ maxSeries: 10 });
    meter.count('warmlane.io', { direction: 'receive', endpoint: 'chat' }, 5);
    meter.count('warmlane.io', { endpoint: 'chat', direction: 'receive' }, 6);
    meter.count('warmlane.io', { endpoint: 'chat' });
    expect(pointsOf(meter, 'warmlane.io')).toEqual({ 'endpoint=chat,direction=receive': 11, 'endpoint=chat': 1 });
  });

  it('are the very series that a caller was given', () => {
    const meter = createMeter({ maxSeries: 10 });
    const kept = meter.counter('warmlane.io', { endpoint: 'chat' });
    kept.value += 2;
    meter.count('warmlane.io', { endpoint: 'chat' }, 3);
    expect(pointsOf(meter, 'warmlane.io')).toEqual({ 'endpoint=chat': 5 });
    expect(meter.histogram('warmlane.event_loop.lag', {})).toBe(meter.histogram('warmlane.event_loop.lag', {}));
  });

  it('take whole distributions as they take single values', () => {
    const meter = createMeter({ maxSeries: 10 });
    meter.join(
      'warmlane.event_loop.lag',
      {},
      Sketch.of({
        count: 2,
        sum: 3,
        min: 1,
        max: 2,
        zeros: 0,
        first: -1,
        counts: [1, ...Array<number>(63).fill(0), 1],
      }).data(),
    );
    meter.observe('warmlane.event_loop.lag', {}, 0.5, 3);
    expect(meter.histogram('warmlane.event_loop.lag', {}).data()).toMatchObject({
      count: 5,
      sum: 4.5,
      min: 0.5,
      max: 2,
    });
  });

  it('never fall: what is negative is not counted', () => {
    const meter = createMeter({ maxSeries: 10 });
    meter.count('warmlane.io', {}, 5);
    meter.count('warmlane.io', {}, -2);
    meter.count('warmlane.io', {}, Number.NaN);
    meter.count('warmlane.io', {}, Number.POSITIVE_INFINITY);
    expect(pointsOf(meter, 'warmlane.io')).toEqual({ '': 5 });
  });

  it('a label value never looks like two, and an empty one is none', () => {
    const meter = createMeter({ maxSeries: 10 });
    meter.count('warmlane.attempts', { backend: 'a\u0000ok' });
    meter.count('warmlane.attempts', { backend: 'a', outcome: 'ok' });
    meter.count('warmlane.attempts', { outcome: 'ok' });
    meter.count('warmlane.attempts', { backend: '', outcome: 'ok' });
    expect(Object.values(pointsOf(meter, 'warmlane.attempts'))).toEqual([1, 1, 2]);
  });
});

describe('past its number of series', () => {
  it('a metric counts under `other`, with the closed labels kept, and loses nothing', () => {
    const meter = createMeter({ maxSeries: 3 });
    for (let i = 0; i < 20; i += 1)
      meter.count('warmlane.attempts', { backend: `b${i}`, outcome: i % 2 === 0 ? 'ok' : 'timeout' });
    const points = pointsOf(meter, 'warmlane.attempts');
    expect(points).toMatchObject({ 'backend=other,outcome=ok': 8, 'backend=other,outcome=timeout': 9 });
    expect(Object.values(points).reduce((sum, value) => sum + value, 0)).toBe(20);
    expect(meter.overflows).toBe(17);
  });

  it('and past twice that all labels are `other`', () => {
    const meter = createMeter({ maxSeries: 2 });
    for (let i = 0; i < 50; i += 1) meter.count('warmlane.attempts', { backend: 'b', outcome: `made-up-${i}` });
    const points = pointsOf(meter, 'warmlane.attempts');
    expect(Object.keys(points).length).toBeLessThanOrEqual(5);
    expect(points['backend=other,outcome=other']).toBe(46);
  });
});

describe('gauges', () => {
  it('C189 fall to 0 on the label that they rose on, where they count things', () => {
    const meter = createMeter({ maxSeries: 10 });
    let running = [{ labels: { model: 'm', backend: 'b', phase: 'streaming' }, value: 1 }];
    meter.gauge('warmlane.requests.running', () => running);
    const key = 'model=m,backend=b,phase=streaming';
    running = [...running, ...running];
    expect(pointsOf(meter, 'warmlane.requests.running')).toEqual({ [key]: 2 });
    running = [];
    expect(pointsOf(meter, 'warmlane.requests.running')).toEqual({ [key]: 0 });
  });

  it('that count nothing are shown only while they are read', () => {
    const meter = createMeter({ maxSeries: 10 });
    let values = [{ labels: {}, value: 7 }];
    meter.gauge('process.uptime', () => values);
    expect(pointsOf(meter, 'process.uptime')).toEqual({ '': 7 });
    values = [];
    expect(pointsOf(meter, 'process.uptime')).toEqual({});
    values = [{ labels: {}, value: Number.NaN }];
    expect(pointsOf(meter, 'process.uptime')).toEqual({});
  });

  it('whose reader throws cost that metric this once, and a count', () => {
    const meter = createMeter({ maxSeries: 10 });
    let fails = true;
    meter.gauge('process.uptime', () => {
      if (fails) throw new Error('no');
      return [{ labels: {}, value: 1 }];
    });
    meter.count('warmlane.io', {});
    expect(meter.collect().map(({ name }) => name)).toEqual(['warmlane.io']);
    expect(meter.failures).toBe(1);
    fails = false;
    expect(pointsOf(meter, 'process.uptime')).toEqual({ '': 1 });
  });
});

describe('a counter that is kept elsewhere', () => {
  it('goes on where the other begins anew, and stays where it is silent', () => {
    const meter = createMeter({ maxSeries: 10 });
    let value: number | undefined = 10;
    meter.counterFrom('warmlane.retries', () => (value === undefined ? [] : [{ labels: { backend: 'b' }, value }]));
    const read = () => pointsOf(meter, 'warmlane.retries')['backend=b'];
    expect(read()).toBe(10);
    value = 15;
    expect(read()).toBe(15);
    value = undefined;
    expect(read()).toBe(15);
    value = 4;
    expect(read()).toBe(19);
    expect(read()).toBe(19);
  });
});
