import { describe, expect, it } from 'vitest';
import { createPrefillLog } from '../../../src/measure/prefill-log.ts';

const key = (id: string) => Symbol.for(id);
const prefill = (requestId: string, fromMs: number, toMs: number) => ({
  key: key(requestId),
  requestId,
  fromMs,
  toMs,
});
const steady = (count: number, everyMs: number, fromMs = 0) =>
  Array.from({ length: count }, (_, i) => fromMs + i * everyMs);
const stamps = (...moments: number[]) => ({ atMs: Float64Array.from(moments) });
const stalled = stamps(...steady(20, 10), ...steady(20, 10, 1190));

describe('the cause of a stall', () => {
  it('is the other request whose prefill covers the gap', () => {
    const log = createPrefillLog();
    log.add('b', prefill('r2', 195, 1188));
    log.tell('b', key('r2'), 900);
    expect(log.explain('b', key('r1'), stalled)).toEqual([
      { atMs: 190, durationMs: 990, requestId: 'r2', promptTokens: 900 },
    ]);
  });

  it('is nobody on another backend, at another time, or the request itself', () => {
    const log = createPrefillLog();
    log.add('other', prefill('r2', 195, 1188));
    log.add('b', prefill('r1', 195, 1188));
    log.add('b', prefill('r3', 1300, 1400));
    log.add('b', prefill('r4', 5000, 6000));
    expect(log.explain('b', key('r1'), stalled)).toEqual([]);
    expect(log.explain('b', key('r1'), undefined)).toEqual([]);
    expect(log.explain('nowhere', key('r1'), stalled)).toEqual([]);
  });

  it('is found and told apart among requests that share one id', () => {
    const log = createPrefillLog();
    const [own, cause, later] = [Symbol('own'), Symbol('cause'), Symbol('later')];
    log.add('b', { key: own, requestId: 'same', fromMs: 195, toMs: 1188 });
    expect(log.explain('b', own, stalled)).toEqual([]);
    log.add('b', { key: cause, requestId: 'same', fromMs: 196, toMs: 1188 });
    log.add('b', { key: later, requestId: 'same', fromMs: 9000, toMs: 9100 });
    log.tell('b', cause, 900);
    expect(log.explain('b', own, stalled)).toMatchObject([{ requestId: 'same', promptTokens: 900 }]);
  });

  it('is the longest of several', () => {
    const log = createPrefillLog();
    log.add('b', prefill('short', 200, 350));
    log.add('b', prefill('long', 350, 1190));
    expect(log.explain('b', key('r1'), stalled).map((stall) => stall.requestId)).toEqual(['long']);
  });

  it('must have cost something', () => {
    const log = createPrefillLog();
    log.add('b', prefill('r2', 0, 400));
    expect(log.explain('b', key('r1'), stamps(...steady(40, 10)))).toEqual([]);
    expect(log.explain('b', key('r1'), stamps(...steady(20, 10), ...steady(20, 10, 220)))).toEqual([]);
  });

  it('is looked for per choice', () => {
    const log = createPrefillLog();
    log.add('b', prefill('r2', 0, 4000));
    const atMs = Float64Array.from({ length: 80 }, (_, i) => i * 5);
    const choice = Uint16Array.from({ length: 80 }, (_, i) => i % 2);
    expect(log.explain('b', key('r1'), { atMs, choice })).toEqual([]);
  });
});

it('forgets the oldest prefills and backends', () => {
  const log = createPrefillLog();
  log.add('b', prefill('cause', 195, 1188));
  for (let i = 0; i < 64; i += 1) log.add('b', prefill(`r${i}`, 9000, 9001));
  expect(log.explain('b', key('r1'), stalled)).toEqual([]);
  log.add('b0', prefill('cause', 195, 1188));
  for (let i = 1; i <= 256; i += 1) log.add(`b${i}`, prefill('x', 0, 1));
  expect(log.explain('b0', key('r1'), stalled)).toEqual([]);
});
