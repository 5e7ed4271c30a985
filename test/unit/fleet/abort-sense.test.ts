import { describe, expect, it } from 'vitest';
import { createAbortSense } from '../../../src/fleet/abort-sense.ts';

const reading = (atMs: number, running: number, waiting = 0) => ({ atMs, gauges: { running, waiting }, counters: {} });

describe('whether ending a request frees its place', () => {
  it('is taken for granted of engines that are known to stop, and of no others', () => {
    const { works } = createAbortSense();
    expect((['vllm', 'sglang', 'llama-server'] as const).map((engine) => works(engine))).toEqual([true, true, true]);
    expect((['openai', 'tgi', 'ollama'] as const).map(works)).toEqual([undefined, undefined, undefined]);
  });

  it('is seen when the engine’s own count comes down again', () => {
    const sense = createAbortSense();
    sense.aborted(1, 1000);
    expect(sense.read(reading(3000, 4), 4)).toBe(true);
    expect(sense.works('openai')).toBe(true);
  });

  it('is denied by the third reading that still has the request', () => {
    const sense = createAbortSense();
    sense.aborted(1, 1000);
    expect([3000, 5000].map((atMs) => sense.read(reading(atMs, 5), 4))).toEqual([false, false]);
    expect(sense.works('vllm')).toBe(true);
    expect(sense.read(reading(7000, 4, 1), 4)).toBe(true);
    expect(sense.works('vllm')).toBe(false);
  });

  it('is believed again once an abort is seen to work', () => {
    const sense = createAbortSense();
    sense.aborted(1, 1000);
    for (const atMs of [3000, 5000, 7000]) sense.read(reading(atMs, 5), 4);
    sense.read(reading(9000, 4), 4);
    sense.aborted(1, 10_000);
    expect(sense.read(reading(12_000, 3), 3)).toBe(true);
    expect(sense.works('vllm')).toBe(true);
  });

  it('is not judged by a reading right behind the abort', () => {
    const sense = createAbortSense();
    sense.aborted(1, 1000);
    for (const atMs of [1100, 1500, 2000, 2400]) expect(sense.read(reading(atMs, 5), 4)).toBe(false);
    expect(sense.works('vllm')).toBe(true);
  });

  it('is not denied for other clients’ requests', () => {
    const sense = createAbortSense();
    sense.read(reading(500, 9), 4);
    sense.aborted(1, 1000);
    for (const atMs of [3000, 5000, 7000]) sense.read(reading(atMs, 9), 4);
    expect(sense.works('vllm')).toBe(true);
  });

  it('is open where the engine tells no count, or is another process', () => {
    const sense = createAbortSense();
    sense.aborted(1, 1000);
    expect(sense.read({ atMs: 3000, gauges: {}, counters: {} }, 4)).toBe(false);
    for (const atMs of [4000, 5000, 7000]) sense.read(reading(atMs, 5), 4);
    expect(sense.works('vllm')).toBe(false);
    sense.forget();
    expect(sense.works('vllm')).toBe(true);
  });
});
