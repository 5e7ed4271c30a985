/**
 * Why a running stream stood still: which other request's prefill the same backend was busy with (R20, R21). Owns the latest
 * prefills of each backend, bounded; a gap without such a cause stays what it is, a slow token.
 */
import type { PrefillStall, TokenStamps } from '../domain/record.ts';

const maxBackends = 256;
const maxPrefills = 64;
/** A gap is stretched from this multiple of the stream's usual gap on. */
const stretchedFrom = 1.5;
/** Less time than this, all gaps of one prefill together, is no stall worth a word. */
const leastStallMs = 50;
/** Gaps looked at for the usual one. */
const maxSamples = 501;

interface Prefill {
  readonly key: symbol;
  readonly requestId: string;
  readonly fromMs: number;
  readonly toMs: number;
  promptTokens: number | undefined;
}

export interface PrefillLog {
  /** A request's prefill is over (`key` tells it from others with its id): [fromMs, toMs], from its slot's start, or from sent where the engine doesn't tell. */
  add(
    backend: string,
    prefill: { readonly key: symbol; readonly requestId: string; readonly fromMs: number; readonly toMs: number },
  ): void;
  /** Its prompt's computed tokens became known. */
  tell(backend: string, key: symbol, promptTokens: number): void;
  /** @returns stalls of a stream on that backend, by cause, longest first */
  explain(backend: string, key: symbol, stamps: TokenStamps | undefined): PrefillStall[];
}

export function createPrefillLog(): PrefillLog {
  const byBackend = new Map<string, Prefill[]>();

  return {
    add(backend, prefill) {
      let list = byBackend.get(backend);
      if (list === undefined) {
        if (byBackend.size >= maxBackends)
          for (const oldest of [...byBackend.keys()].slice(0, 1)) byBackend.delete(oldest);
        list = [];
        byBackend.set(backend, list);
      }
      list.push({ promptTokens: undefined, ...prefill });
      if (list.length > maxPrefills) list.shift();
    },
    tell(backend, key, promptTokens) {
      const prefill = byBackend.get(backend)?.findLast((one) => one.key === key);
      if (prefill !== undefined) prefill.promptTokens = promptTokens;
    },
    explain(backend, key, stamps) {
      const firstMs = stamps?.atMs[0];
      const lastMs = stamps?.atMs.at(-1);
      if (stamps === undefined || firstMs === undefined || lastMs === undefined) return [];
      const others = (byBackend.get(backend) ?? []).filter(
        (one) => one.key !== key && one.toMs > firstMs && one.fromMs < lastMs,
      );
      return others.length === 0 ? [] : findStalls(stamps, others);
    },
  };
}

function findStalls(stamps: TokenStamps, prefills: readonly Prefill[]): PrefillStall[] {
  const gaps = gapsOf(stamps);
  const usualMs = usualGap(gaps);
  const found = new Map<Prefill, { atMs: number; durationMs: number }>();
  if (usualMs === undefined) return [];
  for (const [fromMs, toMs] of gaps) {
    const lostMs = toMs - fromMs - usualMs;
    if (toMs - fromMs <= usualMs * stretchedFrom) continue;
    const cause = longestOverlap(prefills, fromMs, toMs, lostMs / 2);
    if (cause === undefined) continue;
    const stall = found.get(cause);
    if (stall === undefined) found.set(cause, { atMs: fromMs, durationMs: lostMs });
    else stall.durationMs += lostMs;
  }
  return [...found]
    .filter(([, stall]) => stall.durationMs >= Math.max(leastStallMs, usualMs))
    .map(([{ requestId, promptTokens }, stall]) => ({
      ...stall,
      requestId,
      ...(promptTokens === undefined ? {} : { promptTokens }),
    }))
    .toSorted((a, b) => b.durationMs - a.durationMs);
}

/** The prefill that covers most of a gap, if it covers at least `leastMs` of it. */
function longestOverlap(
  prefills: readonly Prefill[],
  fromMs: number,
  toMs: number,
  leastMs: number,
): Prefill | undefined {
  let best: Prefill | undefined;
  let bestMs = leastMs;
  for (const prefill of prefills) {
    const overlapMs = Math.min(toMs, prefill.toMs) - Math.max(fromMs, prefill.fromMs);
    if (overlapMs > bestMs) {
      best = prefill;
      bestMs = overlapMs;
    }
  }
  return best;
}

function gapsOf(stamps: TokenStamps): [number, number][] {
  const { atMs, choice } = stamps;
  const last = new Map<number, number>();
  const gaps: [number, number][] = [];
  for (let i = 0; i < atMs.length; i += 1) {
    const of = choice?.[i] ?? 0;
    const at = atMs[i] ?? 0;
    const before = last.get(of);
    if (before !== undefined && at > before) gaps.push([before, at]);
    last.set(of, at);
  }
  return gaps;
}

/** Median over evenly spaced gaps: a record of many tokens must not hold up the loop. */
function usualGap(gaps: readonly (readonly [number, number])[]): number | undefined {
  const step = Math.max(1, Math.ceil(gaps.length / maxSamples));
  const lengths: number[] = [];
  for (let i = 0; i < gaps.length; i += step) {
    const gap = gaps[i];
    if (gap !== undefined) lengths.push(gap[1] - gap[0]);
  }
  lengths.sort((a, b) => a - b);
  return lengths[lengths.length >> 1];
}
