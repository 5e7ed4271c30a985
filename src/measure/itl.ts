/**
 * Inter-token latency: the gaps between consecutive token events of one choice. The first token is no sample (C027), gaps
 * never run across choices (C039), and events of one read have gaps of 0, marked as coalesced (C046).
 */
import type { TokenStamps } from '../domain/record.ts';
import type { SketchData } from '../domain/sketch.ts';
import { Sketch } from '../platform/sketch.ts';

/**
 * Calls `sample` for each gap in the order of its later event: n token events of one choice give n − 1 gaps.
 * @param sample gap in milliseconds; `coalesced` when the event shared its read with the token event before it
 */
export function forEachGap(stamps: TokenStamps, sample: (gapMs: number, coalesced: boolean) => void): void {
  const { atMs, choice, coalesced } = stamps;
  if (choice === undefined) {
    for (let i = 1; i < atMs.length; i += 1) sample((atMs[i] ?? 0) - (atMs[i - 1] ?? 0), coalesced?.[i] === 1);
    return;
  }
  const lastMs = new Map<number, number>();
  for (let i = 0; i < atMs.length; i += 1) {
    const at = atMs[i] ?? 0;
    const of = choice[i] ?? 0;
    const before = lastMs.get(of);
    if (before !== undefined) sample(at - before, coalesced?.[i] === 1);
    lastMs.set(of, at);
  }
}

/** All gaps of a record, in milliseconds. */
export function itlSamplesMs(stamps: TokenStamps | undefined): number[] {
  const samples: number[] = [];
  if (stamps !== undefined) forEachGap(stamps, (gapMs) => samples.push(gapMs));
  return samples;
}

/** Used by one record after the other: its room is dear to make anew. */
const scratch = new Sketch();

/** The distribution of a record's gaps, in seconds; undefined without a gap. */
export function itlSketch(stamps: TokenStamps): SketchData | undefined {
  scratch.clear();
  forEachGap(stamps, addGap);
  return scratch.count === 0 ? undefined : scratch.data();
}

function addGap(gapMs: number): void {
  scratch.add(gapMs / 1000);
}
