/**
 * What online users of one backend feel just now: how their streams run, and how long their first tokens took, each over its
 * bound. Fed with running streams at each tick and with those that ended in between; reads no clock and keeps a few seconds.
 * Nothing here runs per token.
 */
import type { Lane } from '../domain/names.ts';
import type { OnlineFeel } from './batch-cap.ts';

/** A generating request on its way at a backend. The same object at each look, its numbers as they are by then. */
export interface LiveStream {
  readonly backend: string;
  readonly lane: Lane;
  /** Its answer shows tokens as they come: what has shown none has none yet. */
  readonly streams: boolean;
  /** last byte of the request received: from here its user waits */
  readonly askedMs: number;
  /** it was handed to the backend; undefined: not yet */
  readonly sentMs: number | undefined;
  readonly firstTokenMs: number | undefined;
  readonly lastTokenMs: number | undefined;
  /** of one of its choices; while it runs its events, since an engine may tell how many they hold only at the end */
  readonly tokens: number;
  readonly events: number;
  /** estimated until the engine told */
  readonly promptTokens: number;
  readonly bound: StreamBound;
}

/** What it is to be judged by; ms. */
export interface StreamBound {
  /** the prompt's share included */
  readonly ttftMs: number;
  readonly tpotMs: number;
}

export interface FeelOptions {
  /** So long a first token or an ended stream counts. */
  readonly recentMs: number;
  /** A stream of fewer tokens says nothing of its pace. */
  readonly minTokens: number;
}

export const feelDefaults: FeelOptions = { recentMs: 5000, minTokens: 8 };

export interface OnlineFeeling {
  /** One running stream, at a tick. */
  saw(stream: LiveStream, nowMs: number): void;
  /** It is over; seen before or not. */
  ended(stream: LiveStream, nowMs: number): void;
  /** What was felt since the last call. To be asked once at each tick, after all streams were shown. */
  take(nowMs: number): OnlineFeel;
}

interface Seen {
  events: number;
  lastMs: number;
  hasFirst: boolean;
}

/** Weight of one more stream. */
const learning = 0.1;
/** Enough for a percentile; older ones go. */
const maxRecent = 256;

export function createOnlineFeeling(options: FeelOptions = feelDefaults): OnlineFeeling {
  const seen = new WeakMap<LiveStream, Seen>();
  const firstTokens = createRecent(options.recentMs);
  const endedPaces = createRecent(options.recentMs);
  /** Of this tick. */
  let paces: number[] = [];
  let lateFirst: number[] = [];
  let gapRatio = 0;
  let gapMs = 0;
  let gaps = 0;
  let silences: { readonly ratio: number; readonly ms: number }[] = [];
  /** Speculation and stream intervals put several tokens into one event: what ended streams say of it. */
  let perEvent = 1;

  function recordOf(stream: LiveStream): Seen {
    const known = seen.get(stream);
    if (known !== undefined) return known;
    const made = { events: 0, lastMs: 0, hasFirst: false };
    seen.set(stream, made);
    return made;
  }

  function learn({ tokens, events }: LiveStream): void {
    if (events < options.minTokens) return;
    perEvent += (Math.max(1, tokens / events) - perEvent) * learning;
  }

  /** The first token, once; the tokens that came since it was looked at last. */
  function progressed(stream: LiveStream, nowMs: number): void {
    const { firstTokenMs, lastTokenMs, events, bound } = stream;
    if (firstTokenMs === undefined || lastTokenMs === undefined) return;
    const record = recordOf(stream);
    if (!record.hasFirst) {
      record.hasFirst = true;
      // Nobody looked while it ran so far: how it began, and its pace since then, are no news.
      const isOld = nowMs - firstTokenMs >= options.recentMs;
      record.events = isOld ? events : 1;
      record.lastMs = isOld ? lastTokenMs : firstTokenMs;
      if (!isOld) firstTokens.add((firstTokenMs - stream.askedMs) / bound.ttftMs, nowMs, firstTokenMs - stream.askedMs);
    }
    const came = (events - record.events) * perEvent;
    if (came <= 0) return;
    gapRatio += (lastTokenMs - record.lastMs) / bound.tpotMs;
    gapMs += lastTokenMs - record.lastMs;
    gaps += came;
    record.events = events;
    record.lastMs = lastTokenMs;
  }

  return {
    saw(stream, nowMs) {
      if (stream.lane !== 'online' || !stream.streams) return;
      const { firstTokenMs, lastTokenMs, bound } = stream;
      const tokens = stream.events * perEvent;
      progressed(stream, nowMs);
      if (firstTokenMs === undefined || lastTokenMs === undefined) {
        lateFirst.push((nowMs - stream.askedMs) / bound.ttftMs);
        return;
      }
      silences.push({ ratio: (nowMs - lastTokenMs) / perEvent / bound.tpotMs, ms: (nowMs - lastTokenMs) / perEvent });
      // Silence so far is the least that its next gap will be.
      const pace = Math.max((lastTokenMs - firstTokenMs) / Math.max(1, tokens - 1), (nowMs - firstTokenMs) / tokens);
      if (tokens >= options.minTokens) paces.push(pace / bound.tpotMs);
    },
    ended(stream, nowMs) {
      if (stream.lane !== 'online') return;
      const { firstTokenMs, lastTokenMs, tokens, bound, askedMs } = stream;
      progressed(stream, nowMs);
      if (firstTokenMs !== undefined && lastTokenMs !== undefined) {
        const pace = (lastTokenMs - firstTokenMs) / Math.max(1, tokens - 1);
        if (tokens >= options.minTokens) endedPaces.add(pace / bound.tpotMs, nowMs, pace);
        learn(stream);
      } else if (!stream.streams && tokens >= options.minTokens) {
        // Of an answer in one piece only the whole can be judged.
        const allowedMs = bound.ttftMs + tokens * bound.tpotMs;
        endedPaces.add((nowMs - askedMs) / allowedMs, nowMs, (nowMs - askedMs) / tokens);
      }
    },
    take(nowMs) {
      const feel: { -readonly [key in keyof OnlineFeel]: OnlineFeel[key] } = {};
      endedPaces.into(paces, nowMs);
      const tpot = percentile(paces, 0.9);
      if (tpot !== undefined) feel.tpot = tpot;
      const mean = gaps === 0 ? 0 : gapRatio / gaps;
      const meanMs = gaps === 0 ? 0 : gapMs / gaps;
      // A gap that isn't over counts only where it is longer than the usual one already.
      for (const { ratio, ms } of silences) {
        if (ratio <= mean) continue;
        gapRatio += ratio;
        gapMs += Math.max(ms, meanMs);
        gaps += 1;
      }
      if (gaps > 0) {
        feel.itl = gapRatio / gaps;
        feel.itlMs = gapMs / gaps;
      }
      const known: number[] = [];
      firstTokens.into(known, nowMs);
      const usual = percentile(known, 0.95) ?? 0;
      for (const ratio of lateFirst) if (ratio > usual) known.push(ratio);
      const ttft = percentile(known, 0.95);
      if (ttft !== undefined) feel.ttft = ttft;
      const ttftMs = firstTokens.mean(nowMs);
      if (ttftMs !== undefined) feel.ttftMs = ttftMs;
      paces = [];
      lateFirst = [];
      silences = [];
      gapRatio = 0;
      gapMs = 0;
      gaps = 0;
      return feel;
    },
  };
}

/** The latest values of the last few seconds, in a ring. */
function createRecent(recentMs: number) {
  const ring: { readonly ratio: number; readonly ms: number; readonly atMs: number }[] = [];
  let next = 0;
  return {
    add(ratio: number, atMs: number, ms: number): void {
      ring[next] = { ratio, ms, atMs };
      next = (next + 1) % maxRecent;
    },
    into(list: number[], nowMs: number): void {
      for (const { ratio, atMs } of ring) if (nowMs - atMs < recentMs) list.push(ratio);
    },
    mean(nowMs: number): number | undefined {
      let sum = 0;
      let count = 0;
      for (const { ms, atMs } of ring) {
        if (nowMs - atMs >= recentMs) continue;
        sum += ms;
        count += 1;
      }
      return count === 0 ? undefined : sum / count;
    },
  };
}

/** Nearest rank; sorts what it is given. @param share 0 to 1 */
export function percentile(values: number[], share: number): number | undefined {
  if (values.length === 0) return undefined;
  values.sort((a, b) => a - b);
  return values[Math.max(0, Math.ceil(share * values.length) - 1)];
}
