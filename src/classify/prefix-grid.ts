/**
 * The chunk grid over one member of a body (`tools`, `messages`, …): cuts each part's bytes into chunks, 256 bytes long within
 * the member's first 4 KiB and 1 KiB behind, and hashes each when it is whole. The grid begins anew at each part, and a
 * part's end is a chunk of its own however short (C145): so the next turn's beginning is this turn's prompt, chunk by chunk.
 * Chunks inside base64 are one chunk together and weigh little: an image is what a model makes of it, not text (C146).
 */
import type { Xxhash } from '../platform/xxhash.ts';
import { chainOn, type Lanes } from './prefix-chain.ts';
import { type Weight, weighNumbers, weighText } from './prefix-sample.ts';

const fineBytes = 256;
const coarseBytes = 1024;
const fineUpTo = 4096;

/** Base64 makes about a 65th of its length in tokens of 4 bytes (JPEG at 0.25 bytes a pixel, 784 pixels a token: Qwen-VL). */
const base64PerByte = 64;
/** So much at most: 4,096 tokens, beyond what image encoders commonly make of one. */
const mostBase64Bytes = 16 * 1024;

/** Numbers of one chunk in `entries`: two halves of the hash, canonical bytes, part. */
export const entrySize = 4;

export class PrefixGrid {
  /** `entrySize` numbers for each chunk kept. */
  readonly entries: number[] = [];
  /** Canonical bytes of all chunks, kept or not. */
  bytes = 0;
  wideBytes = 0;
  parts = 0;

  readonly #hash: Xxhash;
  readonly #mostEntries: number;
  /** Bytes of the member before the chunk at hand. */
  #position = 0;
  #size = fineBytes;
  #isNumbers = false;
  /** Of the chunk at hand what lay in earlier pieces. */
  #pending: Buffer | undefined;
  #pendingBytes = 0;
  /** Base64 that goes on up to here: its bytes, and what they count for. */
  #runBytes = 0;
  #runWeight = 0;
  /** The run's chunk is among the entries, and the last. */
  #runKept = false;
  readonly #runLanes: Lanes = { low: 0, high: 0 };

  constructor(hash: Xxhash, maxChunks: number) {
    this.#hash = hash;
    this.#mostEntries = maxChunks * entrySize;
  }

  /** @param isNumbers the part is a row of token numbers */
  partBegin(isNumbers: boolean): void {
    this.parts += 1;
    this.#isNumbers = isNumbers;
    this.#runBytes = 0;
  }

  /** @param last the part ends here */
  feed(bytes: Buffer, from: number, to: number, last: boolean): void {
    let at = this.#pendingBytes === 0 ? from : this.#fillUp(bytes, from, to);
    while (to - at >= this.#size) {
      const end = at + this.#size;
      this.#close(bytes, at, end);
      at = end;
    }
    if (last) {
      if (at < to) this.#closeRest(bytes, at, to);
      else if (this.#pendingBytes > 0) this.#closePending();
    } else if (at < to) this.#keep(bytes, at, to);
  }

  /** @returns how far the piece went into the chunk that was begun */
  #fillUp(bytes: Buffer, from: number, to: number): number {
    const end = Math.min(to, from + this.#size - this.#pendingBytes);
    this.#keep(bytes, from, end);
    if (this.#pendingBytes === this.#size) this.#closePending();
    return end;
  }

  #keep(bytes: Buffer, from: number, to: number): void {
    this.#pending ??= Buffer.allocUnsafe(coarseBytes);
    bytes.copy(this.#pending, this.#pendingBytes, from, to);
    this.#pendingBytes += to - from;
  }

  #closeRest(bytes: Buffer, from: number, to: number): void {
    if (this.#pendingBytes === 0) return this.#close(bytes, from, to);
    this.#keep(bytes, from, to);
    this.#closePending();
  }

  #closePending(): void {
    const bytes = this.#pendingBytes;
    this.#pendingBytes = 0;
    if (this.#pending !== undefined) this.#close(this.#pending, 0, bytes);
  }

  #close(bytes: Buffer, from: number, to: number): void {
    const length = to - from;
    const weight = this.#isNumbers ? weighNumbers(bytes, from, to) : weighText(bytes, from, to);
    // What a part's end holds beside the base64 shows only in whole chunks.
    const inRun = length === this.#size && (this.#runBytes > 0 ? weight.isBase64 : weight.isMixed);
    this.#position += length;
    this.#size = this.#position < fineUpTo ? fineBytes : coarseBytes;
    if (inRun) this.#addToRun(bytes, from, to);
    else this.#add(bytes, { from, to, weight });
  }

  #add(bytes: Buffer, { from, to, weight }: { from: number; to: number; weight: Readonly<Weight> }): void {
    this.#runBytes = 0;
    this.bytes += weight.bytes;
    this.wideBytes += weight.wideBytes;
    if (this.entries.length >= this.#mostEntries) return;
    this.#hash.hashRange(bytes, from, to);
    const { lanes } = this.#hash;
    this.entries.push(lanes[0] ?? 0, lanes[1] ?? 0, weight.bytes, this.parts - 1);
  }

  #addToRun(bytes: Buffer, from: number, to: number): void {
    const begins = this.#runBytes === 0;
    this.#runBytes += to - from;
    const before = begins ? 0 : this.#runWeight;
    this.#runWeight = Math.min(mostBase64Bytes, Math.ceil(this.#runBytes / base64PerByte));
    this.bytes += this.#runWeight - before;
    const { entries } = this;
    if (begins) {
      this.#runKept = entries.length < this.#mostEntries;
      this.#runLanes.low = 0;
      this.#runLanes.high = 0;
      if (this.#runKept) entries.push(0, 0, 0, this.parts - 1);
    }
    if (!this.#runKept) return;
    this.#hash.hashRange(bytes, from, to);
    chainOn(this.#runLanes, this.#hash.lanes[0] ?? 0, this.#hash.lanes[1] ?? 0);
    const at = entries.length - entrySize;
    entries[at] = this.#runLanes.low;
    entries[at + 1] = this.#runLanes.high;
    entries[at + 2] = this.#runWeight;
  }
}
