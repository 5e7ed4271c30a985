/**
 * One backend's work over the last minutes: what finished requests cost, and from that and the time in which streams
 * decoded the rate at which it worked. A window counts work where it was done: of requests that still run, the time is
 * known and the cost is taken from those that ended. Nothing is clamped. Bounded by its ring.
 */
import type { DecodeTimes } from '../concurrency.ts';
import { slotSize } from '../concurrency.ts';
import { createTimeRing } from '../time-ring.ts';
import type { DecodeCost, PrefillCost } from './request-cost.ts';

export interface Costs {
  /** FLOP/s of the cards for this model; absent: not known. */
  readonly peakFlops?: number | undefined;
  readonly prefill?: PrefillCost | undefined;
  readonly decode?: DecodeCost | undefined;
  /** FLOPs of an answer that wasn't streamed, and the time in which they were spent. */
  readonly whole?: { readonly flops: number; readonly fromMs: number; readonly toMs: number } | undefined;
}

export interface WorkView {
  /** Length of the window, or since counting began. */
  readonly seconds: number;
  /** Requests whose cost is known, and those of which too little is known. */
  readonly requests: number;
  readonly unknownRequests: number;
  /** Uncached prefill and decode FLOPs in a second. */
  readonly flopsPerSecond?: number;
  /** What computing the cached prompt tokens would have added. */
  readonly savedFlopsPerSecond?: number;
  /** Share of the cards' peak, and what it would be had the cache saved nothing. */
  readonly mfu?: number;
  readonly mfuWithoutCache?: number;
  /** Share of the bandwidth while something decoded, and over the whole window. */
  readonly mbu?: number;
  readonly mbuOfWindow?: number;
  /** Least time that the decode steps could have taken ÷ the time that they took. */
  readonly shareOfCeiling?: number;
  /** Share of the window in which something decoded, and how much at once then. */
  readonly decodingShare: number;
  readonly meanConcurrency?: number;
}

interface Slot {
  requests: number;
  unknown: number;
  prefills: number;
  prefillFlops: number;
  prefillPeakSeconds: number;
  saved: number;
  savedFlops: number;
  savedPeakSeconds: number;
  sequenceSeconds: number;
  decodeFlops: number;
  decodePeakSeconds: number;
  stepSeconds: number;
  readBytes: number;
  leastSeconds: number;
  wholeFlops: number;
  wholePeakSeconds: number;
}

const emptySlot = (): Slot => ({
  requests: 0,
  unknown: 0,
  prefills: 0,
  prefillFlops: 0,
  prefillPeakSeconds: 0,
  saved: 0,
  savedFlops: 0,
  savedPeakSeconds: 0,
  sequenceSeconds: 0,
  decodeFlops: 0,
  decodePeakSeconds: 0,
  stepSeconds: 0,
  readBytes: 0,
  leastSeconds: 0,
  wholeFlops: 0,
  wholePeakSeconds: 0,
});

export interface Work {
  /** @param costs undefined: too little is known of this request */
  add(costs: Costs | undefined, nowMs: number): void;
  /** @param bandwidth bytes/s of the cards */
  view(
    times: DecodeTimes | undefined,
    window: { nowMs: number; windowMs: number; bandwidth?: number | undefined },
  ): WorkView;
}

const hourMs = 3_600_000;

export function createWork(beganMs: number): Work {
  const ring = createTimeRing(slotSize, beganMs, emptySlot);

  function add(costs: Costs | undefined, nowMs: number): void {
    const slot = ring.at(nowMs);
    if (slot === undefined) return;
    if (costs === undefined) {
      slot.unknown += 1;
      return;
    }
    slot.requests += 1;
    addPrefill(slot, costs);
    addDecode(slot, costs);
    const { whole, peakFlops } = costs;
    if (whole === undefined) return;
    const ms = Math.max(1, whole.toMs - whole.fromMs);
    ring.spread(whole.toMs - ms, whole.toMs, (part, partMs) => {
      const flops = (whole.flops * partMs) / ms;
      part.wholeFlops += flops;
      part.wholePeakSeconds += peakFlops === undefined ? Number.NaN : flops / peakFlops;
    });
  }

  return {
    add,
    view(times, { nowMs, windowMs, bandwidth }) {
      const sums = summed(ring.within(nowMs, windowMs));
      const hour = windowMs < hourMs ? summed(ring.within(nowMs, hourMs)) : sums;
      const seconds = ring.coveredMs(nowMs, windowMs) / 1000;
      return viewOf({ sums, hour, times, seconds, bandwidth });
    },
  };
}

function addPrefill(slot: Slot, { prefill, peakFlops }: Costs): void {
  if (prefill === undefined) return;
  slot.prefills += 1;
  slot.prefillFlops += prefill.flops;
  slot.prefillPeakSeconds += peakFlops === undefined ? Number.NaN : prefill.flops / peakFlops;
  if (prefill.savedFlops === undefined) return;
  slot.saved += 1;
  slot.savedFlops += prefill.savedFlops;
  slot.savedPeakSeconds += peakFlops === undefined ? Number.NaN : prefill.savedFlops / peakFlops;
}

/** A part that isn't known makes its sum NaN, and so absent: half a sum would look like a whole one. */
function addDecode(slot: Slot, { decode, peakFlops }: Costs): void {
  if (decode === undefined) return;
  const flops = decode.flops ?? Number.NaN;
  slot.sequenceSeconds += decode.sequenceSeconds;
  slot.decodeFlops += flops;
  slot.decodePeakSeconds += peakFlops === undefined ? Number.NaN : flops / peakFlops;
  slot.stepSeconds += decode.stepSeconds;
  slot.readBytes += decode.readBytes ?? Number.NaN;
  slot.leastSeconds += decode.leastSeconds ?? Number.NaN;
}

function summed(slots: readonly Slot[]): Slot {
  const sums = emptySlot();
  for (const slot of slots) addSlot(sums, slot);
  return sums;
}

/** Each key by its name: by computed keys an hour's slots take twenty times as long. */
function addSlot(sums: Slot, slot: Slot): void {
  sums.requests += slot.requests;
  sums.unknown += slot.unknown;
  sums.prefills += slot.prefills;
  sums.prefillFlops += slot.prefillFlops;
  sums.prefillPeakSeconds += slot.prefillPeakSeconds;
  sums.saved += slot.saved;
  sums.savedFlops += slot.savedFlops;
  sums.savedPeakSeconds += slot.savedPeakSeconds;
  sums.sequenceSeconds += slot.sequenceSeconds;
  sums.decodeFlops += slot.decodeFlops;
  sums.decodePeakSeconds += slot.decodePeakSeconds;
  sums.stepSeconds += slot.stepSeconds;
  sums.readBytes += slot.readBytes;
  sums.leastSeconds += slot.leastSeconds;
  sums.wholeFlops += slot.wholeFlops;
  sums.wholePeakSeconds += slot.wholePeakSeconds;
}

interface Viewing {
  readonly sums: Slot;
  readonly hour: Slot;
  readonly times: DecodeTimes | undefined;
  readonly seconds: number;
  readonly bandwidth: number | undefined;
}

function viewOf({ sums, hour, times, seconds, bandwidth }: Viewing): WorkView {
  const busySeconds = times?.busySeconds ?? 0;
  const sequenceSeconds = times?.sequenceSeconds ?? 0;
  const firstTokens = times?.firstTokens ?? 0;
  /** Streamed work of the window: its own measure times what a unit cost among finished requests. */
  const streamed = (prefill: 'prefillFlops' | 'prefillPeakSeconds', decode: 'decodeFlops' | 'decodePeakSeconds') =>
    scaled(firstTokens, prefill, 'prefills') + scaled(sequenceSeconds, decode, 'sequenceSeconds');
  const scaled = (measure: number, cost: keyof Slot, unit: keyof Slot): number => {
    if (measure === 0) return 0;
    const from = sums[unit] > 0 ? sums : hour;
    return from[unit] > 0 ? (measure * from[cost]) / from[unit] : Number.NaN;
  };
  const anything = hour.requests > 0;
  const rate = (amount: number): number | undefined => (anything && seconds > 0 ? finite(amount / seconds) : undefined);
  const saved = scaled(firstTokens, 'savedFlops', 'saved');
  const savedPeak = scaled(firstTokens, 'savedPeakSeconds', 'saved');
  // An idle window of cards whose peak is unknown has no MFU of 0.
  const judged = Number.isFinite(hour.prefillPeakSeconds + hour.decodePeakSeconds + hour.wholePeakSeconds);
  const peak = judged ? streamed('prefillPeakSeconds', 'decodePeakSeconds') + sums.wholePeakSeconds : Number.NaN;
  const mbu = bandwidth === undefined ? undefined : finite(sums.readBytes / (sums.stepSeconds * bandwidth));
  return {
    seconds,
    requests: sums.requests,
    unknownRequests: sums.unknown,
    decodingShare: seconds > 0 ? busySeconds / seconds : 0,
    ...given('meanConcurrency', busySeconds > 0 ? sequenceSeconds / busySeconds : undefined),
    ...given('flopsPerSecond', rate(streamed('prefillFlops', 'decodeFlops') + sums.wholeFlops)),
    ...given('savedFlopsPerSecond', rate(saved)),
    ...given('mfu', rate(peak)),
    ...given('mfuWithoutCache', rate(peak + savedPeak)),
    ...given('mbu', mbu),
    ...given('mbuOfWindow', mbu === undefined || seconds === 0 ? undefined : (mbu * busySeconds) / seconds),
    ...given('shareOfCeiling', finite(sums.leastSeconds / sums.stepSeconds)),
  };
}

function finite(value: number): number | undefined {
  return Number.isFinite(value) ? value : undefined;
}

function given<Key extends keyof WorkView>(key: Key, value: number | undefined): { readonly [K in Key]?: number } {
  // The computed key's type is lost without this.
  return (value === undefined ? {} : { [key]: value }) as { readonly [K in Key]?: number };
}
