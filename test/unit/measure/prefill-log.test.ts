import { describe, expect, it } from 'vitest';
import { createPrefillLog } from '../../../src/measure/prefill-log.ts';

const steady = (count: number, everyMs: number, fromMs = 0) =>
  Array.from({ length: count }, (_, i) => fromMs + i * everyMs);
const stamps = (...moments: number[]) => ({ atMs: Float64Array.from(moments) });
const stalled = stamps(...steady(20, 10), ...steady(20, 10, 1190));

describe('the cause of a stall', () => {
  it('is the other request whose prefill covers the gap', () => {
    const log = createPrefillLog();
    log.add('b', { requestId: 'r2', fromMs: 195, toMs: 1188 });
    log.tell('b', 'r2', 900);
    expect(log.explain('b', 'r1', stalled)).toEqual([
      { atMs: 190, durationMs: 990, requestId: 'r2', promptTokens: 900 },
    ]);
  });

  it('is nobody on another backend, at another time, or the request itself', () => {
    const log = createPrefillLog();
    log.add('other', { requestId: 'r2', fromMs: 195, toMs: 1188 });
    log.add('b', { requestId: 'r1', fromMs: 195, toMs: 1188 });
    log.add('b', { requestId: 'r3', fromMs: 1300, toMs: 1400 });
    log.add('b', { requestId: 'r4', fromMs: 5000, toMs: 6000 });
    expect(log.explain('b', 'r1', stalled)).toEqual([]);
    expect(log.explain('b', 'r1', undefined)).toEqual([]);
    expect(log.explain('nowhere', 'r1', stalled)).toEqual([]);
  });

  it('is the longest of several', () => {
    const log = createPrefillLog();
    log.add('b', { requestId: 'short', fromMs: 200, toMs: 350 });
    log.add('b', { requestId: 'long', fromMs: 350, toMs: 1190 });
    expect(log.explain('b', 'r1', stalled).map((stall) => stall.requestId)).toEqual(['long']);
  });

  it('must have cost something', () => {
    const log = createPrefillLog();
    log.add('b', { requestId: 'r2', fromMs: 0, toMs: 400 });
    expect(log.explain('b', 'r1', stamps(...steady(40, 10)))).toEqual([]);
    expect(log.explain('b', 'r1', stamps(...steady(20, 10), ...steady(20, 10, 220)))).toEqual([]);
  });

  it('is looked for per choice', () => {
    const log = createPrefillLog();
    log.add('b', { requestId: 'r2', fromMs: 0, toMs: 4000 });
    const atMs = Float64Array.from({ length: 80 }, (_, i) => i * 5);
    const choice = Uint16Array.from({ length: 80 }, (_, i) => i % 2);
    expect(log.explain('b', 'r1', { atMs, choice })).toEqual([]);
  });
});

it('forgets the oldest prefills and backends', () => {
  const log = createPrefillLog();
  log.add('b', { requestId: 'cause', fromMs: 195, toMs: 1188 });
  for (let i = 0; i < 64; i += 1) log.add('b', { requestId: `r${i}`, fromMs: 9000, toMs: 9001 });
  expect(log.explain('b', 'r1', stalled)).toEqual([]);
  log.add('b0', { requestId: 'cause', fromMs: 195, toMs: 1188 });
  for (let i = 1; i <= 256; i += 1) log.add(`b${i}`, { requestId: 'x', fromMs: 0, toMs: 1 });
  expect(log.explain('b0', 'r1', stalled)).toEqual([]);
});
