/**
 * Long work in short pieces: whoever goes through many things lets the event loop turn in between, so that streams don't
 * wait for it. Knows nothing of the work.
 */
import { setImmediate as turn } from 'node:timers/promises';
import type { Clock } from './clock.ts';

/** So long may work hold the event loop up in one go, beyond the step that is under way. */
export const sliceMs = 1;

/** Takes all steps; the event loop turns behind each by which a slice has passed. @throws what a step throws */
export async function runInTurns(steps: Iterable<unknown>, clock: Pick<Clock, 'nowMs'>): Promise<void> {
  let beganMs = clock.nowMs();
  const left = steps[Symbol.iterator]();
  while (left.next().done !== true) {
    if (clock.nowMs() - beganMs < sliceMs) continue;
    await turn();
    beganMs = clock.nowMs();
  }
}
