/**
 * Finds the events of a `text/event-stream` in bytes cut anywhere: LF, CRLF, CR and mixtures, byte order mark, comments,
 * several data lines (WHATWG HTML, "Interpreting an event stream"). Part of the relay; must not decode, copy or change
 * what passes, and must not know what an event means.
 * Departs from the specification where a proxy must: an event without its last blank line is told at the end (C015), and
 * an event is told when it has a data line, even an empty one (C020).
 */
import type { EventScanner, EventSink, ScannerSettings } from './event-scanner.ts';
import { HeldBytes } from './held-bytes.ts';

const lf = 10;
const cr = 13;
const blank = 32;
const colon = 58;
const letterD = 100;
const letterE = 101;
const byteOrderMark = Buffer.from([0xef, 0xbb, 0xbf]);
const noName = Buffer.alloc(0);

export function createSseScanner(settings: ScannerSettings, onEvent: EventSink, onGaveUp: () => void): EventScanner {
  return new SseScanner(settings, onEvent, onGaveUp);
}

/** A class, since thousands of streams each have one: methods are shared, closures wouldn't be. */
class SseScanner implements EventScanner {
  readonly #maxEventBytes: number;
  readonly #onEvent: EventSink;
  readonly #onGaveUp: () => void;
  readonly #held: HeldBytes;
  /** Bytes of a byte order mark seen so far; 3: there was one, or none can come any more. */
  #markBytes = 0;
  #lineEmpty = true;
  /** A field line of the present block has begun. */
  #inEvent = false;
  /** The present event is past its bound. */
  #skipping = false;
  #gaveUp = false;
  /** The last byte was a CR: an LF next belongs to it. */
  #pendingCr = false;
  #pendingCrEndedEvent = false;
  /** A CR without LF was seen: this stream's lines end so. */
  #loneCr = false;
  /** Event names repeat: the last one is compared byte by byte instead of decoded again. */
  #nameBytes: Buffer = noName;
  #name = '';
  heldBefore = 0;
  trailingLf = 0;

  constructor(settings: ScannerSettings, onEvent: EventSink, onGaveUp: () => void) {
    this.#maxEventBytes = settings.maxEventBytes;
    this.#onEvent = onEvent;
    this.#onGaveUp = onGaveUp;
    // One more than the bound: the LF after a closing CR isn't counted, since it may come later or never.
    this.#held = new HeldBytes(settings.maxEventBytes + 1);
  }

  get atBoundary(): boolean {
    const betweenEvents = this.#lineEmpty && !this.#inEvent;
    return betweenEvents && (this.#markBytes === 0 || this.#markBytes === 3) && (!this.#pendingCr || this.#loneCr);
  }

  get pendingBytes(): number {
    return this.#held.length;
  }

  push(buffer: Buffer, start: number, end: number): void {
    this.trailingLf = 0;
    if (start >= end) return;
    let pos = start;
    if (this.#markBytes < 3) pos = this.#passMark(buffer, start, end);
    else if (this.#pendingCr) pos = this.#settleCr(buffer, start);
    let eventStart = start;
    let nextCr = -1;
    while (pos < end) {
      const first = buffer[pos];
      if (this.#lineEmpty) {
        if (first === lf || first === cr) {
          const bytes = this.#held.length + pos + 1 - eventStart;
          pos = this.#passLineEnd(buffer, pos, end);
          if (this.#inEvent) this.#finishEvent(buffer, eventStart, pos, bytes);
          continue;
        }
        if (!this.#inEvent && first !== colon) {
          this.#inEvent = true;
          eventStart = pos;
        }
      }
      if (nextCr < pos) nextCr = indexOrEnd(buffer, cr, pos, end);
      const eol = indexOrEnd(buffer, lf, pos, nextCr);
      if (eol === end) {
        this.#lineEmpty = false;
        break;
      }
      // The common event: one data line, one blank line, nothing before it.
      const isWhole = eol + 1 < end && buffer[eol] === lf && buffer[eol + 1] === lf;
      if (isWhole && first === letterD && this.#lineEmpty && eventStart === pos && this.#isFresh()) {
        const value = valueOfData(buffer, pos, eol);
        if (value !== -1) {
          this.#inEvent = false;
          if (eol + 2 - pos > this.#maxEventBytes) this.#giveUp();
          else this.#onEvent(buffer, value, eol, '', pos, eol + 2);
          pos = eol + 2;
          continue;
        }
      }
      pos = this.#passLineEnd(buffer, eol, end);
      this.#lineEmpty = true;
    }
    if (this.#inEvent && !this.#skipping) this.#hold(buffer, eventStart, end);
  }

  end(): void {
    const held = this.#held;
    if (this.#inEvent && !this.#skipping && held.length > 0) {
      this.heldBefore = held.length;
      this.#readBlock(held.buffer, { from: 0, to: held.length }, 0, 0);
      this.heldBefore = 0;
    }
    held.clear();
    this.#inEvent = false;
    this.#lineEmpty = true;
  }

  /** Nothing of the present event came in an earlier push. */
  #isFresh(): boolean {
    return this.#held.length === 0 && !this.#skipping;
  }

  /** @returns where the line after the line end at `pos` begins */
  #passLineEnd(buffer: Buffer, pos: number, end: number): number {
    if (buffer[pos] === lf) return pos + 1;
    if (pos + 1 === end) {
      this.#pendingCr = true;
      this.#pendingCrEndedEvent = false;
      return end;
    }
    if (buffer[pos + 1] === lf) return pos + 2;
    this.#loneCr = true;
    return pos + 1;
  }

  #settleCr(buffer: Buffer, start: number): number {
    this.#pendingCr = false;
    if (buffer[start] !== lf) {
      this.#loneCr = true;
      return start;
    }
    if (this.#pendingCrEndedEvent) this.trailingLf = 1;
    return start + 1;
  }

  /** Only at the very start of a stream. A mark begun and not completed was the beginning of a field name. */
  #passMark(buffer: Buffer, start: number, end: number): number {
    const before = this.#markBytes;
    let pos = start;
    while (pos < end && this.#markBytes < 3 && buffer[pos] === byteOrderMark[this.#markBytes]) {
      pos += 1;
      this.#markBytes += 1;
    }
    if (this.#markBytes === 3 || pos === end) return pos;
    this.#markBytes = 3;
    if (before > 0) {
      this.#inEvent = true;
      this.#lineEmpty = false;
      this.#held.append(byteOrderMark, 0, before);
    }
    return start;
  }

  #hold(buffer: Buffer, start: number, end: number): void {
    if (this.#held.length + end - start <= this.#maxEventBytes) {
      this.#held.append(buffer, start, end);
      return;
    }
    this.#skipping = true;
    this.#held.clear();
    this.#giveUp();
  }

  #giveUp(): void {
    if (this.#gaveUp) return;
    this.#gaveUp = true;
    this.#onGaveUp();
  }

  /** @param bytes raw length of the event without an LF after a closing CR */
  #finishEvent(buffer: Buffer, start: number, end: number, bytes: number): void {
    const held = this.#held;
    let told = false;
    this.#inEvent = false;
    if (this.#skipping) {
      this.#skipping = false;
      return;
    }
    if (bytes > this.#maxEventBytes) this.#giveUp();
    else if (held.length === 0) told = this.#readBlock(buffer, { from: start, to: end }, start, end);
    else {
      this.heldBefore = held.length;
      held.append(buffer, start, end);
      told = this.#readBlock(held.buffer, { from: 0, to: held.length }, start, end);
      this.heldBefore = 0;
    }
    this.#pendingCrEndedEvent = told && this.#pendingCr;
    held.clear();
  }

  /**
   * Reads the lines of one whole block. Data lines after the first are joined in the scanner's own buffer.
   * @returns whether there was an event to tell
   */
  #readBlock(block: Buffer, lines: { from: number; to: number }, rawStart: number, rawEnd: number): boolean {
    const { from, to } = lines;
    let name = '';
    let dataStart = -1;
    let dataEnd = -1;
    let nextCr = -1;
    for (let pos = from; pos < to;) {
      if (nextCr < pos) nextCr = indexOrEnd(block, cr, pos, to);
      const eol = indexOrEnd(block, lf, pos, nextCr);
      const value = block[pos] === letterD ? valueOfData(block, pos, eol) : -1;
      if (value !== -1 && dataStart === -1) {
        dataStart = value;
        dataEnd = eol;
      } else if (value !== -1) {
        if (block !== this.#held.buffer) {
          this.#held.append(block, from, to);
          return this.#readBlock(this.#held.buffer, { from: 0, to: this.#held.length }, rawStart, rawEnd);
        }
        block[dataEnd] = lf;
        block.copyWithin(dataEnd + 1, value, eol);
        dataEnd += 1 + eol - value;
      } else if (block[pos] === letterE) {
        const nameStart = valueOfEvent(block, pos, eol);
        if (nameStart !== -1) name = this.#nameOf(block, nameStart, eol);
      }
      pos = block[eol] === cr && block[eol + 1] === lf ? eol + 2 : eol + 1;
    }
    if (dataStart === -1) return false;
    this.#onEvent(block, dataStart, dataEnd, name, rawStart, rawEnd);
    return true;
  }

  #nameOf(block: Buffer, start: number, end: number): string {
    const known = this.#nameBytes;
    if (end - start === known.length) {
      let i = 0;
      while (i < known.length && block[start + i] === known[i]) i += 1;
      if (i === known.length) return this.#name;
    }
    this.#nameBytes = Buffer.from(block.subarray(start, end));
    this.#name = this.#nameBytes.toString('utf8');
    return this.#name;
  }
}

/** The search runs to the buffer's end, not to `end`: a slice would cost more than what it saves. */
function indexOrEnd(buffer: Buffer, byte: number, pos: number, end: number): number {
  const found = buffer.indexOf(byte, pos);
  return found === -1 || found > end ? end : found;
}

/** @returns where the value of a `data` line begins (one blank stripped), or -1 for another line */
function valueOfData(buffer: Buffer, pos: number, eol: number): number {
  if (buffer[pos + 1] !== 97 || buffer[pos + 2] !== 116 || buffer[pos + 3] !== 97) return -1;
  return valueAfter(buffer, pos + 4, eol);
}

function valueOfEvent(buffer: Buffer, pos: number, eol: number): number {
  if (buffer[pos + 1] !== 118 || buffer[pos + 2] !== 101 || buffer[pos + 3] !== 110 || buffer[pos + 4] !== 116)
    return -1;
  return valueAfter(buffer, pos + 5, eol);
}

function valueAfter(buffer: Buffer, afterName: number, eol: number): number {
  if (afterName === eol) return eol;
  if (afterName > eol || buffer[afterName] !== colon) return -1;
  return afterName + 1 < eol && buffer[afterName + 1] === blank ? afterName + 2 : afterName + 1;
}
