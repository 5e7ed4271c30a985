/**
 * Reads a body's prompt as its bytes come: hashes the chunks of each member that belongs to it, in whatever order members
 * come, and chains them in canonical order at the end (`domain/prefix.ts`). Raw bytes: what a client writes another way
 * (blanks, escapes) is another prompt. Keeps hashes and counts, no text.
 */
import { type PrefixChain, partHead, partTools } from '../domain/prefix.ts';
import type { PieceSink } from '../platform/json-pieces.ts';
import type { JsonKind } from '../platform/json-walk.ts';
import type { Xxhash } from '../platform/xxhash.ts';
import type { BodyReading } from './endpoint-table.ts';
import { chainOn, chainText, keyOf, type Lanes, looseKey } from './prefix-chain.ts';
import { entrySize, PrefixGrid } from './prefix-grid.ts';
import { type PrefixMember, prefixMembers, type PrefixMembers } from './prefix-keys.ts';
import type { PrefixSettings } from './settings.ts';

/** What a body was found to ask of a prefix cache. */
export interface PromptRead {
  /**
   * @param model the one that the backend knows, no alias of it
   * @param adapter one that stands elsewhere than among the prompt's members
   * @returns undefined when the body has no prompt
   */
  chain(model: string | undefined, adapter?: string): PrefixChain | undefined;
}

/** For one body; undefined for a kind of body that holds no prompt. */
export type PromptReader = (reading: BodyReading) => (PieceSink & PromptRead) | undefined;

export function createPromptReader(settings: PrefixSettings, hash: Xxhash): PromptReader {
  return (reading) => {
    const members = prefixMembers(reading);
    return members === undefined ? undefined : new PrefixScan(members, { hash, maxChunks: settings.maxChunks });
  };
}

interface Found {
  readonly member: PrefixMember;
  readonly grid: PrefixGrid;
}

/** A class: one is made for each request. */
class PrefixScan implements PieceSink, PromptRead {
  readonly #members: PrefixMembers;
  readonly #hash: Xxhash;
  readonly #maxChunks: number;
  /** By canonical order; a key that comes twice counts with its last value, as nearly all readers take it. */
  readonly #found: Found[] = [];
  #grid: PrefixGrid | undefined;
  /** Arrays in the member's value are rows of token numbers, too. */
  #holdsTokenRows = false;
  #isBody = false;

  constructor(members: PrefixMembers, { hash, maxChunks }: { hash: Xxhash; maxChunks: number }) {
    this.#members = members;
    this.#hash = hash;
    this.#maxChunks = maxChunks;
  }

  memberBegin(key: string, kind: JsonKind): 'whole' | 'elements' | undefined {
    const member = this.#members.byKey.get(key);
    if (member === undefined) return undefined;
    this.#forget(member);
    // As if it weren't there.
    if (kind === 'null') return undefined;
    this.#grid = new PrefixGrid(this.#hash, this.#maxChunks);
    this.#isBody = member.role === 'body';
    this.#holdsTokenRows = tokenKeys.has(key);
    this.#insert({ member, grid: this.#grid });
    return member.role === 'body' ? 'elements' : 'whole';
  }

  partBegin(kind: JsonKind): void {
    const isNumbers = this.#isBody && (kind === 'number' || (kind === 'array' && this.#holdsTokenRows));
    this.#grid?.partBegin(isNumbers);
  }

  piece(bytes: Buffer, from: number, to: number, last: boolean): void {
    this.#grid?.feed(bytes, from, to, last);
  }

  chain(model: string | undefined, adapter?: string): PrefixChain | undefined {
    const found = this.#found;
    if (!found.some(({ member, grid }) => member.role === 'body' && grid.entries.length > 0)) return undefined;
    const lanes: Lanes = { low: 0, high: 0 };
    chainText(lanes, model ?? '');
    chainOn(lanes, endOfText, 0);
    chainText(lanes, adapter ?? '');
    chainOn(lanes, endOfText, 0);
    let chunks = 0;
    for (const { member, grid } of found) {
      if (member.role === 'seed') chainSeed(lanes, member, grid);
      else chunks += grid.entries.length / entrySize;
    }
    return chainPrompt(lanes, found, Math.min(chunks, this.#maxChunks));
  }

  #forget(member: PrefixMember): void {
    const at = this.#found.findIndex((one) => one.member === member);
    if (at >= 0) this.#found.splice(at, 1);
  }

  #insert(found: Found): void {
    let at = this.#found.length;
    while (at > 0 && (this.#found[at - 1]?.member.order ?? 0) > found.member.order) at -= 1;
    if (at === this.#found.length) this.#found.push(found);
    else this.#found.splice(at, 0, found);
  }
}

/** Members whose arrays are prompts given as token numbers. */
const tokenKeys: ReadonlySet<string> = new Set(['prompt', 'input_ids', 'token_ids', 'context']);

/** No UTF-16 unit. */
const endOfText = 0x1_0000;

function chainSeed(lanes: Lanes, member: PrefixMember, { entries }: PrefixGrid): void {
  chainText(lanes, member.key);
  chainOn(lanes, endOfText, entries.length);
  for (let at = 0; at < entries.length; at += entrySize) chainOn(lanes, entries[at] ?? 0, entries[at + 1] ?? 0);
}

function chainPrompt(lanes: Lanes, found: readonly Found[], chunks: number): PrefixChain {
  const keys = new Float64Array(chunks);
  const loose = new Float64Array(chunks);
  const ends = new Float64Array(chunks);
  const parts = new Int32Array(chunks);
  let wideBytes = 0;
  let index = 0;
  /** Of the members before this one. */
  let bytes = 0;
  let partsBefore = 0;
  for (const { member, grid } of found) {
    const { role, key } = member;
    if (role === 'seed') continue;
    const { entries } = grid;
    if (entries.length > 0) chainText(lanes, key);
    let end = bytes;
    for (let at = 0; at < entries.length && index < chunks; at += entrySize) {
      chainOn(lanes, entries[at] ?? 0, entries[at + 1] ?? 0);
      end += entries[at + 2] ?? 0;
      keys[index] = keyOf(lanes);
      loose[index] = looseKey(entries[at] ?? 0, entries[at + 1] ?? 0);
      ends[index] = end;
      parts[index] = role === 'tools' ? partTools : role === 'head' ? partHead : partsBefore + (entries[at + 3] ?? 0);
      index += 1;
    }
    if (role === 'body') partsBefore += grid.parts;
    bytes += grid.bytes;
    wideBytes += grid.wideBytes;
  }
  return { keys, loose, ends, parts, bytes, wideBytes };
}
