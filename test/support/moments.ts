/**
 * Measured moments against those of the scripted backend, and scripts with pauses. Backend, proxy and client share one
 * process and one event loop here: the moments of the backend's writes are known exactly, and so is how late the loop was.
 */
import { expect } from 'vitest';
import { send, type ScriptStep } from '../../src/sim/fault-steps.ts';
import { chunk, lastChunk, sseHead } from '../../src/sim/sse-script.ts';
import { gapsOf, type Passed } from './exchange.ts';

const lookMs = 5;
const toleranceMs = 25;
let watch: NodeJS.Timeout | undefined;
let worstLagMs = 0;

/** From now on, how late the event loop was at most is known. */
export function watchLoop(): void {
  clearInterval(watch);
  worstLagMs = 0;
  let lastMs = performance.now();
  watch = setInterval(() => {
    const nowMs = performance.now();
    worstLagMs = Math.max(worstLagMs, nowMs - lastMs - lookMs);
    lastMs = nowMs;
  }, lookMs);
  watch.unref();
}

/** What may lie between a backend's write and warmlane's read: 25 ms, and what a busy machine took from the whole process. */
export function slackMs(): number {
  if (watch === undefined) throw new Error('watchLoop first');
  return toleranceMs + worstLagMs;
}

/** Plays again, some times at most, until the loop was never held up: then what came apart was read apart. */
export async function unlagged(play: () => Promise<Passed>): Promise<Passed> {
  let passed = await play();
  for (let again = 0; again < 8 && passed.record.marks.includes('loop_lag'); again += 1) passed = await play();
  return passed;
}

export function expectNear(actual: number | undefined, expected: number | undefined, slack = slackMs()): void {
  expect(actual).toBeGreaterThan((expected ?? Number.NaN) - slack);
  expect(actual).toBeLessThan((expected ?? Number.NaN) + slack);
}

/** Gap by gap as the backend wrote. @param writesMs the writes that hold the tokens */
export function expectGaps(samplesMs: readonly number[], writesMs: readonly number[]): void {
  const expected = gapsOf(writesMs);
  expect(samplesMs).toHaveLength(expected.length);
  for (const [i, gapMs] of samplesMs.entries()) expectNear(gapMs, expected[i]);
}

export function mean(values: readonly number[]): number {
  return values.reduce((sum, value) => sum + value, 0) / values.length;
}

/** Each event in a write of its own, after its pause; the head before them all. */
export function script(...steps: readonly (readonly [pauseMs: number, event: string])[]): ScriptStep[] {
  return [send(sseHead()), ...steps.flatMap(([pauseMs, event]) => [pauseMs, send(chunk(event))]), send(lastChunk)];
}

export function times(count: number, pauseMs: number, event: string): (readonly [number, string])[] {
  return Array.from({ length: count }, () => [pauseMs, event] as const);
}
