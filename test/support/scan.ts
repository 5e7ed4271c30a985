/** Drives a scanner with a stream cut at given offsets, and tells what it found in offsets of the whole stream. */
import type { EventScanner, EventSink, ScannerSettings } from '../../src/relay/event-scanner.ts';
import type { FoundEvent } from './sse-reference.ts';

type CreateScanner = (settings: ScannerSettings, onEvent: EventSink, onGaveUp: () => void) => EventScanner;

export interface Scanned {
  readonly events: FoundEvent[];
  readonly gaveUps: number;
  /** Most bytes ever held between two pushes. */
  readonly mostPending: number;
  /** `atBoundary` after each push. */
  readonly boundaries: boolean[];
}

export function scan(create: CreateScanner, bytes: Buffer, cuts: readonly number[], maxEventBytes = 65_536): Scanned {
  const events: { -readonly [key in keyof FoundEvent]: FoundEvent[key] }[] = [];
  let gaveUps = 0;
  let mostPending = 0;
  let base = 0;
  let from = 0;
  const boundaries: boolean[] = [];
  const scanner = create(
    { maxEventBytes },
    (data, dataStart, dataEnd, name, rawStart, rawEnd) => {
      events.push({
        data: data.toString('latin1', dataStart, dataEnd),
        name,
        rawStart: base + rawStart - from - scanner.heldBefore,
        rawEnd: base + rawEnd - from,
      });
    },
    () => {
      gaveUps += 1;
    },
  );
  const ends = [...cuts, bytes.length];
  for (const end of ends) {
    // Each push lies somewhere in a larger buffer full of line ends, which must not be taken for the stream's.
    const wire = Buffer.alloc(end - base + 5, '\r\n\n:d');
    from = 2;
    bytes.copy(wire, from, base, end);
    const before = base;
    const stood = events.length;
    scanner.push(wire, from, from + end - base);
    wire.fill('x');
    if (scanner.trailingLf === 1) {
      const last = events.at(stood - 1);
      if (stood === 0 || last?.rawEnd !== before)
        throw new Error('an LF is said to belong to an event that was not told');
      last.rawEnd += 1;
    }
    base = end;
    mostPending = Math.max(mostPending, scanner.pendingBytes);
    boundaries.push(scanner.atBoundary);
  }
  from = 0;
  scanner.end();
  return { events, gaveUps, mostPending, boundaries };
}

/** Cuts between every two bytes. */
export function everyByte(bytes: Buffer): number[] {
  return Array.from({ length: Math.max(0, bytes.length - 1) }, (_, i) => i + 1);
}
