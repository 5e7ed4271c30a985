/**
 * One backend's last hour as its engine tells it, with warmlane's own view laid beside: every reading of the last five
 * minutes, then half-minutes. Bounded. Knows no clock; the caller says when.
 */
import type { EngineCounter, EngineReading } from '../../domain/engine-reading.ts';
import { countersOf, riseBetween, type CounterDeltas } from './counter-deltas.ts';
import { emptyShare, mergePoints, type EnginePoint } from './engine-point.ts';
import { contextAt, outputUpTo, promptDoneMs, type OwnLife } from './own-life.ts';

const fineMs = 300_000;
const coarseMs = 30_000;
const keptMs = 3_600_000;
/** Requests that end between two readings, and the stamps that are kept of them; more are counted as blind. */
const maxOpen = 4096;
const maxOpenStampBytes = 4 * 1024 * 1024;
/** An engine may go on with an abandoned request for so long (R09, R10). */
const blindAfterMs = 30_000;

export interface EngineSeries {
  /** @param ownRunning engine places that own requests hold now */
  read(reading: EngineReading, ownRunning: number): void;
  finished(life: OwnLife): void;
  /** Oldest first. */
  points(): readonly EnginePoint[];
  latest(): EngineReading | undefined;
  /** Nothing will be read any more, or not soon: requests no longer wait to be laid beside a reading. */
  pause(): void;
  /** Everything that the counters were seen to rise by since the start, restarts passed over. */
  totals(): CounterDeltas;
}

export function createEngineSeries(): EngineSeries {
  const points: EnginePoint[] = [];
  /** How many of them are merged ones. */
  let coarse = 0;
  let last: EngineReading | undefined;
  let open: OwnLife[] = [];
  let openStampBytes = 0;
  let blindUntilMs = -Infinity;
  const totals: { [Counter in EngineCounter]?: number } = {};

  function lay(life: OwnLife, point: EnginePoint): void {
    const { own, fromMs, toMs } = point;
    const until = life.blind ? life.endMs + blindAfterMs : life.endMs;
    if (life.fromMs > toMs || until <= fromMs) return;
    if (life.blind) own.blind += 1;
    const within = (atMs: number) => atMs > fromMs && atMs <= toMs;
    own.outputTokens += outputUpTo(life, toMs) - outputUpTo(life, fromMs);
    own.contextTokens += contextAt(life, toMs);
    if (within(life.endMs)) own.requests += 1;
    if (life.fromMs < fromMs && life.endMs > fromMs) {
      if (life.stampsMs === undefined && !life.countedAtEnd) own.crossingOutput += life.outputTokens ?? 0;
      if (life.firstTokenMs === undefined) own.crossingPrompt += life.promptTokens ?? 0;
    }
    if (within(promptDoneMs(life)) && life.promptTokens === undefined) own.blindPrompts += 1;
    if (life.promptTokens !== undefined && within(promptDoneMs(life))) {
      own.prompts += 1;
      own.promptTokens += life.promptTokens;
      if (life.cachedTokens !== undefined) {
        own.cachedTokens += life.cachedTokens;
        own.cachedOfTokens += life.promptTokens;
      }
    }
    if (life.upstreamTtftMs !== undefined && life.firstTokenMs !== undefined && within(life.firstTokenMs)) {
      own.ttftMs += life.upstreamTtftMs;
      own.ttftCount += 1;
    }
  }

  function trim(nowMs: number): void {
    for (let first = points[coarse]; first !== undefined && first.toMs < nowMs - fineMs; first = points[coarse]) {
      const before = points[coarse - 1];
      // What is unknown around a restart must not make the rest of a half-minute unknown.
      const alike = before?.restarted === first.restarted;
      if (before !== undefined && alike && first.toMs - before.fromMs <= coarseMs) {
        points.splice(coarse - 1, 2, mergePoints(before, first));
      } else coarse += 1;
    }
    while ((points[0]?.toMs ?? nowMs) < nowMs - keptMs) {
      points.shift();
      coarse = Math.max(0, coarse - 1);
    }
  }

  return {
    read(reading, ownRunning) {
      const before = last;
      last = reading;
      if (before === undefined || reading.atMs <= before.atMs) return;
      const { deltas, restarted } = riseBetween(before, reading);
      for (const counter of countersOf(deltas)) totals[counter] = (totals[counter] ?? 0) + (deltas[counter] ?? 0);
      for (const counter of countersOf(reading.counters)) totals[counter] ??= 0;
      const { running, waiting, kvUsage } = reading.gauges;
      const toMs = reading.atMs;
      const point = {
        fromMs: before.atMs,
        toMs,
        deltas,
        restarted,
        running,
        waiting,
        kvUsage,
        ownRunning,
        own: emptyShare(),
      };
      if (before.atMs < blindUntilMs) point.own.blind += 1;
      for (const life of open) lay(life, point);
      open = open.filter((life) => life.endMs > toMs);
      openStampBytes = open.reduce((sum, { stampsMs }) => sum + (stampsMs?.byteLength ?? 0), 0);
      points.push(point);
      trim(toMs);
    },
    finished(life) {
      // Nothing is read there: nothing to compare.
      if (last === undefined) return;
      for (let at = points.length - 1; at >= 0; at -= 1) {
        const point = points[at];
        if (point === undefined || point.toMs < life.fromMs) break;
        lay(life, point);
      }
      if (life.blind) blindUntilMs = Math.max(blindUntilMs, life.endMs + blindAfterMs);
      if (life.endMs <= last.atMs) return;
      const stampBytes = life.stampsMs?.byteLength ?? 0;
      if (open.length < maxOpen && openStampBytes + stampBytes <= maxOpenStampBytes) {
        open.push(life);
        openStampBytes += stampBytes;
      } else blindUntilMs = Math.max(blindUntilMs, life.endMs);
    },
    pause() {
      open = [];
      openStampBytes = 0;
      last = undefined;
    },
    points: () => points,
    latest: () => last,
    totals: () => totals,
  };
}
