/**
 * The requests of one input file while it is validated: where each stands, its `custom_id`, and whether that came before. All lie in
 * a few arrays of numbers and pages of bytes: an object and a text for each of 50,000 lines are memory that the collector gives
 * back late, and time that it takes from the streams (C179). Pure but for the secret of its hashes.
 */
import { randomInt } from 'node:crypto';
import type { BatchLine } from '../batch.ts';
import { maxCustomIdChars } from './input-line.ts';

export interface FoundLines {
  readonly count: number;
  /** Made as they are asked for, in the order of the file. @param from the first is 0 @param to behind the last; may be too much */
  slice(from: number, to: number): BatchLine[];
}

export interface LineTable extends FoundLines {
  /** @returns the line that has this `custom_id` already, and then nothing is added */
  add(found: Pick<BatchLine, 'line' | 'customId' | 'at' | 'bytes'>): number | undefined;
  /** Those of each line, in the order of the file; until then they are 0. */
  ranks: Uint32Array;
}

/** In `wholes`, for each line. Its id's bytes are at most 1536. */
const Of = { line: 0, bytes: 1, idHash: 2, idBytes: 3 } as const;
const wholesEach = 4;
/** In `places`, for each line: they may lie beyond 4 GB. */
const Place = { at: 0, id: 1 } as const;
const placesEach = 2;

const firstLines = 256;
/** No id stands in two. */
const pageBytes = 64 * 1024;
/** Of slots at most so many have a line. */
const fullest = 0.5;

export function createLineTable(): LineTable {
  return new Table();
}

class Table implements LineTable {
  count = 0;
  ranks = new Uint32Array(0);
  #wholes = new Uint32Array(firstLines * wholesEach);
  #places = new Float64Array(firstLines * placesEach);
  readonly #idPages: Buffer[] = [];
  #idEnd = 0;
  /** By hash, the next free one where it is taken: a line's number + 1. */
  #slots = new Uint32Array(2 * firstLines);
  readonly #id = Buffer.allocUnsafe(maxCustomIdChars * 3);
  /** Nobody can write a file whose ids all fall on one slot. */
  readonly #seed = randomInt(2 ** 32);
  readonly #factor = randomInt(2 ** 31) * 2 + 1;

  add({ line, customId, at, bytes }: Parameters<LineTable['add']>[0]): number | undefined {
    const idBytes = this.#id.write(customId, 'utf8');
    const hash = this.#hashOf(idBytes);
    if ((this.count + 1) / this.#slots.length > fullest) this.#widenSlots();
    let slot = hash & (this.#slots.length - 1);
    for (let taken = this.#slots[slot] ?? 0; taken > 0; taken = this.#slots[slot] ?? 0) {
      if (this.#hasId(taken - 1, hash, idBytes)) return this.#whole(taken - 1, Of.line);
      slot = (slot + 1) & (this.#slots.length - 1);
    }
    const index = this.count;
    this.count += 1;
    this.#slots[slot] = this.count;
    if (this.#wholes.length < this.count * wholesEach) this.#widenLines();
    const firstWhole = index * wholesEach;
    this.#wholes[firstWhole + Of.line] = line;
    this.#wholes[firstWhole + Of.bytes] = bytes;
    this.#wholes[firstWhole + Of.idHash] = hash;
    this.#wholes[firstWhole + Of.idBytes] = idBytes;
    this.#places[index * placesEach + Place.at] = at;
    this.#places[index * placesEach + Place.id] = this.#keepId(idBytes);
    return undefined;
  }

  slice(from: number, to: number): BatchLine[] {
    const lines: BatchLine[] = [];
    for (let index = from; index < Math.min(to, this.count); index += 1) {
      const { page, start } = this.#idOf(index);
      lines.push({
        line: this.#whole(index, Of.line),
        customId: page.toString('utf8', start, start + this.#whole(index, Of.idBytes)),
        at: this.#places[index * placesEach + Place.at] ?? 0,
        bytes: this.#whole(index, Of.bytes),
        rank: this.ranks[index] ?? 0,
      });
    }
    return lines;
  }

  #whole(index: number, what: number): number {
    return this.#wholes[index * wholesEach + what] ?? 0;
  }

  #hashOf(idBytes: number): number {
    let hash = this.#seed;
    for (let at = 0; at < idBytes; at += 1) {
      hash = Math.imul(hash ^ (this.#id[at] ?? 0), this.#factor);
      hash ^= hash >>> 15;
    }
    return hash >>> 0;
  }

  /** To the byte: that hashes are alike proves nothing. */
  #hasId(index: number, hash: number, idBytes: number): boolean {
    if (this.#whole(index, Of.idHash) !== hash || this.#whole(index, Of.idBytes) !== idBytes) return false;
    const { page, start } = this.#idOf(index);
    return page.compare(this.#id, 0, idBytes, start, start + idBytes) === 0;
  }

  #idOf(index: number): { readonly page: Buffer; readonly start: number } {
    const place = this.#places[index * placesEach + Place.id] ?? 0;
    return { page: this.#idPages[Math.floor(place / pageBytes)] ?? noPage, start: place % pageBytes };
  }

  /** @returns its place among all pages */
  #keepId(idBytes: number): number {
    const pages = this.#idPages;
    if (this.#idEnd + idBytes > pages.length * pageBytes) {
      this.#idEnd = pages.length * pageBytes;
      pages.push(Buffer.allocUnsafeSlow(pageBytes));
    }
    const place = this.#idEnd;
    this.#id.copy(pages.at(-1) ?? noPage, place % pageBytes, 0, idBytes);
    this.#idEnd += idBytes;
    return place;
  }

  #widenLines(): void {
    const wholes = new Uint32Array(2 * this.#wholes.length);
    wholes.set(this.#wholes);
    this.#wholes = wholes;
    const places = new Float64Array(2 * this.#places.length);
    places.set(this.#places);
    this.#places = places;
  }

  #widenSlots(): void {
    const slots = new Uint32Array(2 * this.#slots.length);
    for (let index = 0; index < this.count; index += 1) {
      let slot = this.#whole(index, Of.idHash) & (slots.length - 1);
      while ((slots[slot] ?? 0) > 0) slot = (slot + 1) & (slots.length - 1);
      slots[slot] = index + 1;
    }
    this.#slots = slots;
  }
}

const noPage = Buffer.alloc(0);
