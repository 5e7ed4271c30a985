/**
 * Reads an answer while it passes: finds its events (scanner), has them understood (tap), and says which bytes may go on
 * (all, except the usage event that warmlane asked for). Knows nothing of sockets.
 */
import type { StreamFormat } from '../domain/names.ts';
import { EventFlag, type StreamTap } from '../domain/tap.ts';
import type { BodyRead } from '../platform/upstream/port.ts';
import { createLineScanner } from './line-scanner.ts';
import { mediumOfBytes, type Medium } from './response-head.ts';
import { createSseScanner } from './sse-scanner.ts';
import { createStripper } from './stripper.ts';

export interface AnswerTap extends StreamTap {
  /** A piece of an answer that is not a stream. */
  answer(chunk: Buffer): void;
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
  /** As found: `untold` answers become what their bytes say. */
  readonly medium: Medium;
}

export function createAnswerReader(settings: AnswerReaderSettings, tap: AnswerTap): AnswerReader {
  let medium = settings.measured ? settings.medium : 'opaque';
  let flags = 0;
  let readFlags = 0;
  let events = 0;
  let begun = false;
  let lastEventCut = false;
  const stripper = settings.strip ? createStripper() : undefined;

  const onEvent = (
    data: Buffer,
    dataStart: number,
    dataEnd: number,
    name: string,
    rawStart: number,
    rawEnd: number,
  ): void => {
    const seen = tap.event(data, dataStart, dataEnd, name);
    readFlags |= seen;
    events += 1;
    if (stripper === undefined) return;
    if ((seen & EventFlag.finish) !== 0) stripper.holdFromNow();
    lastEventCut = (seen & EventFlag.usageOnly) !== 0;
    if (lastEventCut) {
      const start = stripper.offsetOf(rawStart);
      stripper.cut(start - scanner.heldBefore, stripper.offsetOf(rawEnd));
    }
  };
  const createScanner = medium === 'ndjson' ? createLineScanner : createSseScanner;
  const scanner = createScanner({ maxEventBytes: settings.maxEventBytes }, onEvent, () => tap.gaveUp('event_too_large'));

  function scan(read: BodyRead, nowMs: number): readonly Buffer[] | undefined {
    tap.beginRead(nowMs);
    for (let i = 0; i < read.count; i += 1) {
      const start = read.starts[i] ?? 0;
      const end = read.ends[i] ?? 0;
      stripper?.segment(read.wire, start, end);
      const cutBefore = lastEventCut;
      scanner.push(read.wire, start, end);
      // The LF of a CRLF that ended a cut event came only now: it goes too.
      if (cutBefore && scanner.trailingLf === 1) stripper?.cutStray(stripper.offsetOf(start));
    }
    tap.endRead();
    flags |= readFlags;
    return stripper?.finishRead(scanner.pendingBytes);
  }

  /** Measuring must never break serving: what can't be read is passed on. */
  function guarded<T>(readAnswer: () => T): T | undefined {
    try {
      return readAnswer();
    } catch (error) {
      medium = 'opaque';
      tap.failed(error);
      return undefined;
    }
  }

  function readJson(read: BodyRead): undefined {
    for (let i = 0; i < read.count; i += 1) tap.answer(read.wire.subarray(read.starts[i], read.ends[i]));
  }

  return {
    read(read, nowMs) {
      if (!begun && read.payloadBytes > 0) {
        begun = true;
        medium = settle(medium, read);
      }
      readFlags = 0;
      if (medium === 'sse' || medium === 'ndjson') return guarded(() => scan(read, nowMs));
      return medium === 'json' ? guarded(() => readJson(read)) : undefined;
    },
    end(nowMs) {
      readFlags = 0;
      if (medium !== 'sse' && medium !== 'ndjson') return stripper?.rest();
      guarded(() => {
        tap.beginRead(nowMs);
        scanner.end();
        tap.endRead();
        flags |= readFlags;
      });
      return stripper?.rest();
    },
    get flags() {
      return flags;
    },
    get readFlags() {
      return readFlags;
    },
    get events() {
      return events;
    },
    get atBoundary() {
      return (medium === 'sse' || medium === 'ndjson') && scanner.atBoundary;
    },
    get medium() {
      return medium;
    },
  };
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
