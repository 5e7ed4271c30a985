/**
 * How hard a backend's online users press just now, for people who ask while there is no batch work and so nobody looks four
 * times a second: what running streams show at this one moment. Remembers nothing and moves no cap. What only shows between
 * two looks is absent: gaps of streams older than a few seconds, streams that ended, preemptions. Pure.
 */
import type { Pressures } from '../domain/lanes.ts';
import { pressuresOf } from './batch-cap.ts';
import { createOnlineFeeling, type LiveStream } from './online-feel.ts';

export interface Glimpse {
  readonly pressures: Pressures;
  /** the highest of them; absent: none is known */
  readonly pressure?: number;
}

export interface GlimpseOf {
  /** generating requests on their way there */
  readonly streams: readonly LiveStream[];
  /** the engine's last word, if it isn't stale: 0 to 1; requests that it took and hasn't started */
  readonly engine: { readonly kvUsage?: number; readonly waiting?: number } | undefined;
  readonly running: { readonly online: number; readonly batch: number };
  /** online jobs that wait in warmlane for a place there */
  readonly onlineWaiting: number;
}

export function glimpse({ streams, engine, running, onlineWaiting }: GlimpseOf, nowMs: number): Glimpse {
  const feeling = createOnlineFeeling();
  for (const stream of streams) feeling.saw(stream, nowMs);
  const pressures = pressuresOf({
    feel: feeling.take(nowMs),
    running,
    onlineWaiting,
    ...(engine === undefined ? {} : { engine: { atMs: nowMs, ...engine } }),
  });
  const values = Object.values(pressures);
  return values.length === 0 ? { pressures } : { pressures, pressure: Math.max(...values) };
}
