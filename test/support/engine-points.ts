/** Points and windows for detectors' tests, with what a test doesn't care about filled in. */
import { emptyShare, type EnginePoint, type OwnShare } from '../../src/account/engines/engine-point.ts';
import type { CounterDeltas } from '../../src/account/engines/counter-deltas.ts';
import type { Digest } from '../../src/account/findings/digest.ts';
import type { Window } from '../../src/account/findings/window.ts';

export interface PointSketch {
  readonly deltas?: CounterDeltas;
  readonly own?: Partial<OwnShare>;
  readonly running?: number;
  readonly waiting?: number;
  readonly kvUsage?: number;
  readonly restarted?: boolean;
}

/** Points of two seconds each, the last of which ends at `endMs`. */
export function pointsUntil(endMs: number, sketches: readonly PointSketch[]): EnginePoint[] {
  return sketches.map((sketch, index) => {
    const toMs = endMs - 2000 * (sketches.length - 1 - index);
    return {
      fromMs: toMs - 2000,
      toMs,
      deltas: sketch.deltas ?? {},
      restarted: sketch.restarted ?? false,
      running: sketch.running,
      waiting: sketch.waiting,
      kvUsage: sketch.kvUsage,
      ownRunning: 0,
      own: { ...emptyShare(), ...sketch.own },
    };
  });
}

export function sampleDigest(over: Partial<Digest> = {}): Digest {
  return {
    requestId: 'r1',
    fromMs: 0,
    endMs: 5000,
    decodeMs: 4000,
    stalls: [],
    waitMs: 100,
    events: 40,
    contextTokens: 50,
    brokeOff: false,
    ...over,
  };
}

/** @param digests all seen at `nowMs` */
export function windowOf(
  over: Partial<Omit<Window, 'digests'>> & { readonly digests?: readonly Digest[] } = {},
  sinceMs = over.nowMs ?? 100_000,
): Window {
  const { digests = [], ...rest } = over;
  const nowMs = over.nowMs ?? 100_000;
  return {
    nowMs,
    facts: { engine: 'vllm' },
    points: [],
    oldestOwnMs: Infinity,
    oldestUnseenMs: Infinity,
    was: false,
    ...rest,
    digests: digests.map((digest) => ({ digest, sinceMs })),
  };
}
