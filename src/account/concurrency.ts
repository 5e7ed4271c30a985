/**
 * How many streams decode on each backend at once: one event when a stream's first token comes, one when it ends, and the
 * time between them summed. So each request learns the mean of what ran beside it, and each window how long was decoded.
 * Bounded by the backends named and the streams under way. Knows no clock and no tokens.
 */
import type { DecodeStarts, Decoding } from '../domain/decoding.ts';
import { createTimeRing, type TimeRing } from './time-ring.ts';

export interface DecodeWatch extends DecodeStarts {
  /** Time of the last minutes in which a backend decoded; undefined for one that never did. */
  times(backend: string, nowMs: number, windowMs: number): DecodeTimes | undefined;
  /** Sequences that decode now. */
  running(backend: string): number;
}

export interface DecodeTimes {
  /** In which at least one stream decoded. */
  readonly busySeconds: number;
  /** The same, times the sequences that decoded. */
  readonly sequenceSeconds: number;
  readonly firstTokens: number;
  /** Length of the window, or since counting began. */
  readonly coveredSeconds: number;
}

/** 10 s: a one-minute window is right within a sixth; an hour takes 361 of them. */
export const slotSize = { slotMs: 10_000, slots: 361 };
/** As many as a config may name; what comes past it is not counted. */
const maxBackends = 1000;

interface Slot {
  busyMs: number;
  sequenceMs: number;
  firstTokens: number;
}

/** @param beganMs when counting begins */
export function createDecodeWatch(beganMs: number): DecodeWatch {
  const byBackend = new Map<string, BackendDecodes>();

  return {
    began(backend, sequences, atMs) {
      let decodes = byBackend.get(backend);
      if (decodes === undefined) {
        // Backends come and go: one where nothing decodes makes room.
        for (const [name, { running }] of byBackend)
          if (byBackend.size >= maxBackends && running === 0) byBackend.delete(name);
        if (byBackend.size >= maxBackends) return uncounted;
        decodes = new BackendDecodes(beganMs);
        byBackend.set(backend, decodes);
      }
      return decodes.began(Math.max(1, sequences), atMs);
    },
    times: (backend, nowMs, windowMs) => byBackend.get(backend)?.times(nowMs, windowMs),
    running: (backend) => byBackend.get(backend)?.running ?? 0,
  };
}

const uncounted: Decoding = { end() {}, concurrency: undefined };

class BackendDecodes {
  running = 0;
  /** Sequences × ms since counting began. */
  integral = 0;
  #movedMs: number;
  readonly #beganMs: number;
  readonly #ring: TimeRing<Slot>;

  constructor(beganMs: number) {
    this.#beganMs = beganMs;
    this.#movedMs = beganMs;
    this.#ring = createTimeRing(slotSize, beganMs, () => ({ busyMs: 0, sequenceMs: 0, firstTokens: 0 }));
  }

  began(sequences: number, atMs: number): Decoding {
    this.move(atMs);
    this.running += sequences;
    const slot = this.#ring.at(this.#movedMs);
    if (slot !== undefined) slot.firstTokens += 1;
    return new StreamDecoding(this, sequences, this.#movedMs);
  }

  /** Counts the time up to a moment; one that lies before the last counts as the last. @returns the moment counted */
  move(atMs: number): number {
    const fromMs = this.#movedMs;
    if (atMs <= fromMs) return fromMs;
    this.#movedMs = atMs;
    const { running } = this;
    if (running === 0) return atMs;
    this.integral += running * (atMs - fromMs);
    this.#ring.spread(fromMs, atMs, (slot, ms) => {
      slot.busyMs += ms;
      slot.sequenceMs += ms * running;
    });
    return atMs;
  }

  times(nowMs: number, windowMs: number): DecodeTimes {
    this.move(nowMs);
    let busyMs = 0;
    let sequenceMs = 0;
    let firstTokens = 0;
    for (const slot of this.#ring.within(nowMs, windowMs)) {
      busyMs += slot.busyMs;
      sequenceMs += slot.sequenceMs;
      firstTokens += slot.firstTokens;
    }
    const coveredMs = this.#ring.coveredMs(Math.max(nowMs, this.#beganMs), windowMs);
    return {
      busySeconds: busyMs / 1000,
      sequenceSeconds: sequenceMs / 1000,
      firstTokens,
      coveredSeconds: coveredMs / 1000,
    };
  }
}

/** A class: thousands of streams each have one. */
class StreamDecoding implements Decoding {
  concurrency: number | undefined;
  readonly #backend: BackendDecodes;
  readonly #sequences: number;
  readonly #beganMs: number;
  readonly #integral: number;
  #ended = false;

  constructor(backend: BackendDecodes, sequences: number, beganMs: number) {
    this.#backend = backend;
    this.#sequences = sequences;
    this.#beganMs = beganMs;
    this.#integral = backend.integral;
  }

  end(atMs: number): void {
    if (this.#ended) return;
    this.#ended = true;
    const backend = this.#backend;
    const ms = backend.move(atMs) - this.#beganMs;
    const mean = ms > 0 ? (backend.integral - this.#integral) / ms : backend.running;
    // As the log line tells it, so that whoever reads the log puts the stream at the same level.
    this.concurrency = Math.round(mean * 1000) / 1000;
    backend.running -= this.#sequences;
  }
}
