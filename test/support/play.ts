/** Plays the bytes of a recorded answer, read by read as they came, with short gaps of its own. */
import type { ScriptStep } from '../../src/sim/fault-steps.ts';
import type { Recorded } from './recorded.ts';

/** @param gapMs between two reads; the recorded moments show order and shape, not speed */
export function* playRecorded(recorded: Recorded, gapMs = 4): Generator<ScriptStep> {
  let offset = 0;
  for (const [, bytes] of recorded.meta.reads) {
    yield recorded.raw.subarray(offset, offset + bytes);
    offset += bytes;
    yield gapMs;
  }
}
