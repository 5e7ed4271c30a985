/**
 * What one play comes to: how many online answers were inside both bounds, what batch got done and lost, and how hard online users were
 * pressed at each moment. Counts; decides nothing. Shares are 0 to 1.
 */
import type { Clock } from '../../../src/platform/clock.ts';
import { Sketch } from '../../../src/platform/sketch.ts';
import type { Engine } from '../../../src/sim/engine.ts';
import type { SequenceEnd } from '../../../src/sim/sequence.ts';
import type { Lived, Moment } from './recovery.ts';
import { slo, warmUpSeconds } from './settings.ts';
import type { Call } from './stage.ts';
import type { Work } from './workload.ts';

export interface LaneFigures {
  readonly requests: number;
  /** of all online requests, those inside both bounds; those inside each */
  readonly attainment: number;
  readonly ttftShare: number;
  readonly tpotShare: number;
  /** p50 and p99 */
  readonly ttftMs: readonly [number, number];
  readonly tpotMs: readonly [number, number];
  /** prompt and answer tokens of lines, less what was thrown away */
  readonly batchTokensPerSecond: number;
  /** tokens computed for nothing or again, of all of batch */
  readonly waste: number;
  readonly reclaimed: number;
  readonly preemptions: number;
  /** lines that run on one backend, on average */
  readonly batchRunning: number;
  readonly oldestSeconds: number;
  readonly linesDone: number;
}

interface FigureDeps {
  readonly clock: Clock;
  readonly names: readonly string[];
  readonly beganMs: number;
  readonly endMs: number;
}

interface Ended {
  readonly online: readonly Work[];
  readonly engines: ReadonlyMap<string, Engine>;
}

/** Fewer tokens say nothing of a stream's pace. */
const fewestTokens = 8;

export function createFigures({ clock, names, beganMs, endMs }: FigureDeps) {
  const fromMs = beganMs + warmUpSeconds * 1000;
  const ttft = new Sketch();
  const tpot = new Sketch();
  const good = { both: 0, ttft: 0, tpot: 0 };
  const batch = { tokens: 0, lost: 0, reclaimed: 0, running: 0, samples: 0, oldestMs: 0, done: 0 };
  const moments: Moment[] = [];
  /** Of the online requests that were inside both bounds. */
  const insideIds = new Set<string>();
  const counts = (atMs: number) => atMs >= fromMs && atMs < endMs;
  const isNow = () => counts(clock.nowMs());

  return {
    token(call: Call, atMs: number) {
      if (call.lane === 'batch' && counts(atMs)) batch.tokens += call.tokens === 0 ? call.promptTokens + 1 : 1;
    },
    answered({ firstTokenMs, lastTokenMs, outputTokens, reason }: SequenceEnd, call: Call) {
      if (!counts(call.askedMs) || firstTokenMs === undefined || lastTokenMs === undefined || reason === 'failed')
        return;
      const ttftMs = firstTokenMs - call.askedMs;
      const tpotMs = outputTokens < 2 ? 0 : (lastTokenMs - firstTokenMs) / (outputTokens - 1);
      ttft.add(ttftMs);
      if (outputTokens > 1) tpot.add(tpotMs);
      good.ttft += ttftMs <= slo.ttftMs ? 1 : 0;
      good.tpot += tpotMs <= slo.tpotMs ? 1 : 0;
      if (ttftMs > slo.ttftMs || tpotMs > slo.tpotMs) return;
      good.both += 1;
      insideIds.add(call.requestId);
    },
    lineBegan(waitMs: number) {
      if (isNow()) batch.oldestMs = Math.max(batch.oldestMs, waitMs);
    },
    lineEnded() {
      if (isNow()) batch.done += 1;
    },
    /** Its tokens are no more; its prompt may still be in a cache, which is seen when it runs again. */
    takenBack({ firstTokenMs, outputTokens, promptTokens }: SequenceEnd) {
      if (!isNow()) return;
      batch.reclaimed += 1;
      batch.lost += outputTokens;
      if (firstTokenMs !== undefined) batch.tokens -= promptTokens + outputTokens;
    },
    computedAgain(tokens: number) {
      if (isNow()) batch.lost += tokens;
    },
    sample(calls: ReadonlySet<Call>, oldestMs: number | undefined) {
      const nowMs = clock.nowMs();
      moments.push({ atMs: nowMs - beganMs, ...feltBy(calls, nowMs) });
      if (!counts(nowMs)) return;
      batch.samples += 1;
      batch.oldestMs = Math.max(batch.oldestMs, oldestMs ?? 0);
      for (const { lane } of calls) if (lane === 'batch') batch.running += 1 / names.length;
    },
    /** As its online users lived through it. */
    lived: (online: readonly Work[]): Lived => ({
      moments,
      arrivals: online.map(({ atMs, job }) => ({ atMs, inside: insideIds.has(job.requestId) })),
    }),
    end({ online, engines }: Ended): LaneFigures {
      const requests = online.filter(({ atMs }) => counts(beganMs + atMs)).length;
      let preemptions = 0;
      for (const engine of engines.values()) preemptions += engine.view().counters.preemptions;
      const spread = (sketch: Sketch) => [sketch.quantile(0.5) ?? 0, sketch.quantile(0.99) ?? 0] as const;
      return {
        requests,
        attainment: good.both / requests,
        ttftShare: good.ttft / requests,
        tpotShare: good.tpot / requests,
        ttftMs: spread(ttft),
        tpotMs: spread(tpot),
        batchTokensPerSecond: (batch.tokens / (endMs - fromMs)) * 1000,
        waste: batch.tokens + batch.lost === 0 ? 0 : batch.lost / (batch.tokens + batch.lost),
        reclaimed: batch.reclaimed,
        preemptions,
        batchRunning: batch.samples === 0 ? 0 : batch.running / batch.samples,
        oldestSeconds: batch.oldestMs / 1000,
        linesDone: batch.done,
      };
    },
  };
}

/** What online users feel just now, on the backend where it is worst and one by one. */
function feltBy(calls: ReadonlySet<Call>, nowMs: number): Omit<Moment, 'atMs'> {
  const paces = new Map<string, number[]>();
  let most = 0;
  let users = 0;
  let behind = 0;
  for (const { lane, backend, firstTokenMs, askedMs, tokens } of calls) {
    if (lane === 'batch') continue;
    users += 1;
    if (firstTokenMs === undefined) {
      const waited = (nowMs - askedMs) / slo.ttftMs;
      most = Math.max(most, waited);
      behind += waited > 1 ? 1 : 0;
    } else if (tokens >= fewestTokens) {
      const known = paces.get(backend) ?? [];
      const pace = (nowMs - firstTokenMs) / tokens / slo.tpotMs;
      known.push(pace);
      paces.set(backend, known);
      behind += pace > 1 ? 1 : 0;
    }
  }
  for (const known of paces.values()) {
    known.sort((a, b) => a - b);
    most = Math.max(most, known[Math.ceil(known.length * 0.9) - 1] ?? 0);
  }
  return { pressure: most, users, behind };
}
