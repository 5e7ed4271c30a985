/**
 * Reads an answer while it passes: finds its events (scanner), has them understood (tap), and says which bytes may go on
 * (all, except the usage event that warmlane asked for). Knows nothing of sockets.
 */
import type { StreamFormat } from '../domain/names.ts';
import { EventFlag, type StreamTap } from '../domain/tap.ts';
import type { BodyRead } from '../platform/upstream/port.ts';
import type { EventScanner, EventSink } from './event-scanner.ts';
import { createLineScanner } from './line-scanner.ts';
import { mediumOfBytes, type Medium } from './response-head.ts';
import { createSseScanner } from './sse-scanner.ts';
import { createStripper, type Stripper } from './stripper.ts';

export interface AnswerTap extends StreamTap {
  /** A piece of an answer that is not a stream. */
  answer(chunk: Buffer): void;
  /** Such an answer is over, or broke. */
  answerEnd(): void;
  /** Reading failed by a bug of ours: the answer passes on unread (rule 10). */
  failed(error: unknown): void;
}

export interface AnswerReaderSettings {
  readonly medium: Medium;
  readonly format: StreamFormat;
  readonly maxEventBytes: number;
  /** Take the usage event out again. */
  readonly strip: boolean;
  /** The endpoint's answers are to be read at all. */
  readonly measured: boolean;
}

export interface AnswerReader {
  /** @returns the payload to pass on, or undefined when the read passes exactly as it came */
  read(read: BodyRead, nowMs: number): readonly Buffer[] | undefined;
  /** The body is over: the last event is told; what was held back comes out. */
  end(nowMs: number): Buffer | undefined;
  /** Union of the flags of all events so far. */
  readonly flags: number;
  /** Union of the flags of the present read's events. */
  readonly readFlags: number;
  readonly events: number;
  /** The next byte begins a new event: a heartbeat or an error event may stand here. */
  readonly atBoundary: boolean;
  /** It is read event by event. */
  readonly streams: boolean;
  /** As found: `untold` answers become what their bytes say. */
  readonly medium: Medium;
}

export function createAnswerReader(settings: AnswerReaderSettings, tap: AnswerTap): AnswerReader {
  return new Reader(settings, tap);
}

/**
 * A class, not an object with getters around a closure: V8 gives each such object a shape of its own, kept in old space,
 * and with it everything that the closure sees, until a full collection.
 */
class Reader implements AnswerReader {
  medium: Medium;
  flags = 0;
  readFlags = 0;
  events = 0;
  readonly #settings: AnswerReaderSettings;
  readonly #tap: AnswerTap;
  #begun = false;
  #lastEventCut = false;
  // Both are made when a stream shows itself: most requests of some fleets aren't streamed.
  #stripper: Stripper | undefined;
  #scanner: EventScanner | undefined;

  constructor(settings: AnswerReaderSettings, tap: AnswerTap) {
    this.#settings = settings;
    this.#tap = tap;
    this.medium = settings.measured ? settings.medium : 'opaque';
  }

  get atBoundary(): boolean {
    return this.streams && (this.#scanner?.atBoundary ?? true);
  }

  read(read: BodyRead, nowMs: number): readonly Buffer[] | undefined {
    if (!this.#begun && read.payloadBytes > 0) {
      this.#begun = true;
      this.medium = settle(this.medium, read);
    }
    this.readFlags = 0;
    try {
      if (this.streams) return this.#scan(read, nowMs);
      if (this.medium === 'json') this.#readJson(read);
    } catch (error) {
      this.#giveUp(error);
      return this.#releaseHeld(read);
    }
    return undefined;
  }

  end(nowMs: number): Buffer | undefined {
    this.readFlags = 0;
    this.#lastEventCut = false;
    try {
      if (this.medium === 'json') this.#tap.answerEnd();
      if (this.streams) this.#scanEnd(nowMs);
    } catch (error) {
      this.#giveUp(error);
    }
    const rest = this.#stripper?.rest();
    // Then it is what was held back: nothing but the event that goes, which lacked its blank line.
    return this.#lastEventCut ? undefined : rest;
  }

  get streams(): boolean {
    return this.medium === 'sse' || this.medium === 'ndjson';
  }

  #open(): EventScanner {
    const { maxEventBytes, strip } = this.#settings;
    const createScanner = this.medium === 'ndjson' ? createLineScanner : createSseScanner;
    if (strip) this.#stripper = createStripper();
    return createScanner({ maxEventBytes }, this.#onEvent, () => this.#tap.gaveUp('event_too_large'));
  }

  readonly #onEvent: EventSink = (data, dataStart, dataEnd, name, rawStart, rawEnd) => {
    const seen = this.#tap.event(data, dataStart, dataEnd, name);
    this.readFlags |= seen;
    this.events += 1;
    const stripper = this.#stripper;
    if (stripper === undefined) return;
    if ((seen & EventFlag.finish) !== 0) stripper.holdFromNow();
    this.#lastEventCut = (seen & EventFlag.usageOnly) !== 0;
    if (this.#lastEventCut) {
      const start = stripper.offsetOf(rawStart);
      stripper.cut(start - (this.#scanner?.heldBefore ?? 0), stripper.offsetOf(rawEnd));
    }
  };

  #scan(read: BodyRead, nowMs: number): readonly Buffer[] | undefined {
    const scanner = (this.#scanner ??= this.#open());
    const stripper = this.#stripper;
    this.#tap.beginRead(nowMs);
    for (let i = 0; i < read.count; i += 1) {
      const start = read.starts[i] ?? 0;
      const end = read.ends[i] ?? 0;
      stripper?.segment(read.wire, start, end);
      const cutBefore = this.#lastEventCut;
      scanner.push(read.wire, start, end);
      // The LF of a CRLF that ended a cut event came only now: it goes too.
      if (cutBefore && scanner.trailingLf === 1) stripper?.cutStray(stripper.offsetOf(start));
    }
    this.#tap.endRead();
    this.flags |= this.readFlags;
    return stripper?.finishRead(scanner.pendingBytes);
  }

  #scanEnd(nowMs: number): void {
    this.#tap.beginRead(nowMs);
    this.#scanner?.end();
    this.#tap.endRead();
    this.flags |= this.readFlags;
  }

  #readJson(read: BodyRead): void {
    for (let i = 0; i < read.count; i += 1) this.#tap.answer(read.wire.subarray(read.starts[i], read.ends[i]));
  }

  /** Measuring must never break serving: what can't be read is passed on. */
  #giveUp(error: unknown): void {
    this.medium = 'opaque';
    this.#tap.failed(error);
  }

  /** What was held back goes before the read at hand; copies, since that one's buffer is used again. */
  #releaseHeld(read: BodyRead): readonly Buffer[] | undefined {
    const held = this.#stripper?.rest();
    if (held === undefined) return undefined;
    const pieces = [held];
    for (let i = 0; i < read.count; i += 1) pieces.push(Buffer.from(read.wire.subarray(read.starts[i], read.ends[i])));
    return pieces;
  }
}

/** The first byte decides where the head is silent, or calls a JSON object an event stream. */
function settle(medium: Medium, read: BodyRead): Medium {
  if (medium !== 'untold' && medium !== 'sse') return medium;
  for (let i = 0; i < read.count; i += 1) {
    const start = read.starts[i] ?? 0;
    const end = read.ends[i] ?? 0;
    if (end <= start) continue;
    const seen = mediumOfBytes(read.wire, start, end);
    return medium === 'untold' || seen === 'json' ? seen : medium;
  }
  return medium;
}
