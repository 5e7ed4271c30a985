/**
 * Finds the lines of an `application/x-ndjson` stream (Ollama) in bytes cut anywhere; each line is one event without a
 * name. Part of the relay; only reads. A last line without its LF is told at the end; empty lines are no events.
 */
import type { EventScanner, EventSink, ScannerSettings } from './event-scanner.ts';
import { HeldBytes } from './held-bytes.ts';

const lf = 10;
const cr = 13;

export function createLineScanner(settings: ScannerSettings, onEvent: EventSink, onGaveUp: () => void): EventScanner {
  const { maxEventBytes } = settings;
  const held = new HeldBytes(maxEventBytes);
  let lineEmpty = true;
  let skipping = false;
  let gaveUp = false;
  let heldBefore = 0;

  function push(buffer: Buffer, start: number, end: number): void {
    let pos = start;
    while (pos < end) {
      const found = buffer.indexOf(lf, pos);
      if (found === -1 || found >= end) {
        hold(buffer, pos, end);
        return;
      }
      finishLine(buffer, pos, found + 1);
      pos = found + 1;
    }
  }

  function hold(buffer: Buffer, start: number, end: number): void {
    lineEmpty = false;
    if (skipping) return;
    if (held.length + end - start <= maxEventBytes) {
      held.append(buffer, start, end);
      return;
    }
    skipping = true;
    held.clear();
    giveUp();
  }

  function giveUp(): void {
    if (gaveUp) return;
    gaveUp = true;
    onGaveUp();
  }

  function finishLine(buffer: Buffer, start: number, end: number): void {
    lineEmpty = true;
    if (skipping) {
      skipping = false;
      return;
    }
    if (held.length + end - start > maxEventBytes) giveUp();
    else if (held.length === 0) tell(buffer, start, end - 1, start, end);
    else {
      heldBefore = held.length;
      held.append(buffer, start, end);
      tell(held.buffer, 0, held.length - 1, start, end);
      heldBefore = 0;
    }
    held.clear();
  }

  function tell(data: Buffer, start: number, end: number, rawStart: number, rawEnd: number): void {
    const dataEnd = end > start && data[end - 1] === cr ? end - 1 : end;
    if (dataEnd > start) onEvent(data, start, dataEnd, '', rawStart, rawEnd);
  }

  return {
    push,
    end() {
      if (!lineEmpty && !skipping) {
        heldBefore = held.length;
        tell(held.buffer, 0, held.length, 0, 0);
        heldBefore = 0;
      }
      held.clear();
      lineEmpty = true;
    },
    get atBoundary() {
      return lineEmpty;
    },
    get pendingBytes() {
      return held.length;
    },
    get heldBefore() {
      return heldBefore;
    },
    trailingLf: 0,
  };
}
