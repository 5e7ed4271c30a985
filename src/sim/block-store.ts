/**
 * vLLM's cache: fixed blocks, counted references, full blocks found again by the hash of all that comes before them.
 * A block that nobody holds keeps its content until it is needed: least recently freed first, and of one sequence its tail first.
 * A lookup never covers the last token of a prompt, so at least one is computed.
 */
import { createKeyTable } from './key-table.ts';
import type { KvStore } from './kv-store.ts';
import { blockKeys, chainKey, pushToken, startChain, type SimPrompt } from './prompt.ts';
import type { Sequence } from './sequence.ts';
import type { BlockCacheSettings } from './settings.ts';

const none = -1;

/** @param reserve true: a sequence starts only if room for all it may become is free, so that none has to be dropped */
export function createBlockStore(settings: BlockCacheSettings, reserve: boolean): KvStore {
  const { blockTokens, blocks: total } = settings;
  const references = new Int32Array(total);
  /** NaN: holds nothing that could be found. */
  const keys = new Float64Array(total).fill(Number.NaN);
  const found = createKeyTable(total);
  const free = createFreeList(total);
  const reserved = new Map<Sequence, number>();
  let reservedBlocks = 0;

  function take(): number {
    const block = free.shift();
    const key = keys[block] ?? Number.NaN;
    if (!Number.isNaN(key)) {
      found.delete(key);
      keys[block] = Number.NaN;
    }
    references[block] = 1;
    return block;
  }

  function hitBlocks(prompt: SimPrompt, knownTokens: number): number {
    if (!settings.prefixCaching) return 0;
    const own = blockKeys(prompt, blockTokens);
    const most = Math.min(own.length, Math.floor((knownTokens - 1) / blockTokens));
    let hits = 0;
    while (hits < most && found.has(own[hits] ?? Number.NaN)) hits += 1;
    return hits;
  }

  const blocksFor = (tokens: number) => Math.ceil(tokens / blockTokens);
  /** The last token made is never computed, so the answer holds one block less at a border. */
  const blocksAtMost = (sequence: Sequence) => blocksFor(sequence.prompt.tokenCount + sequence.plan.outputTokens - 1);

  /** How many of the blocks that would be hit are free now, so that they can't be given out as well. */
  function freeAmong(prompt: SimPrompt, hits: number): number {
    if (hits === 0) return 0;
    const own = blockKeys(prompt, blockTokens);
    let count = 0;
    for (let index = 0; index < hits; index += 1) {
      if (references[found.get(own[index] ?? Number.NaN) ?? none] === 0) count += 1;
    }
    return count;
  }

  function hold(sequence: Sequence, hits: number): void {
    const own = blockKeys(sequence.prompt, blockTokens);
    for (let index = 0; index < hits; index += 1) {
      const block = found.get(own[index] ?? Number.NaN) ?? none;
      if (references[block] === 0) free.remove(block);
      references[block] = (references[block] ?? 0) + 1;
      sequence.blocks.push(block);
    }
    sequence.offeredBlocks = hits;
    sequence.computedTokens = hits * blockTokens;
  }

  function admitOne(sequence: Sequence, stepTokens: number): boolean {
    const hits = hitBlocks(sequence.prompt, sequence.knownTokens);
    const tokens = Math.min(sequence.knownTokens, hits * blockTokens + stepTokens);
    const wanted = (reserve ? blocksAtMost(sequence) : blocksFor(tokens)) - hits;
    // Looked at before anything is touched: a try that fails must not refresh the blocks that it would have used.
    if (wanted > free.size - freeAmong(sequence.prompt, hits) - reservedBlocks) return false;
    hold(sequence, hits);
    if (reserve) {
      reserved.set(sequence, wanted);
      reservedBlocks += wanted;
    }
    return grow(sequence, tokens - sequence.computedTokens);
  }

  function grow(sequence: Sequence, tokens: number): boolean {
    const wanted = blocksFor(sequence.computedTokens + tokens) - sequence.blocks.length;
    if (wanted > free.size) return false;
    for (let count = 0; count < wanted; count += 1) sequence.blocks.push(take());
    const own = reserved.get(sequence);
    if (own !== undefined && wanted > 0) {
      const used = Math.min(own, wanted);
      reserved.set(sequence, own - used);
      reservedBlocks -= used;
    }
    return true;
  }

  function release(sequence: Sequence): void {
    for (let index = sequence.blocks.length - 1; index >= 0; index -= 1) {
      const block = sequence.blocks[index] ?? none;
      references[block] = (references[block] ?? 0) - 1;
      if (references[block] === 0) free.push(block);
    }
    sequence.blocks.length = 0;
    sequence.offeredBlocks = 0;
    reservedBlocks -= reserved.get(sequence) ?? 0;
    reserved.delete(sequence);
  }

  /** The first block with a key keeps it; a second one with the same content stays unfindable. */
  function offer(sequence: Sequence): void {
    if (!settings.prefixCaching) return;
    const full = Math.floor(sequence.computedTokens / blockTokens);
    for (; sequence.offeredBlocks < full; sequence.offeredBlocks += 1) {
      const key = keyOf(sequence, sequence.offeredBlocks, blockTokens);
      const block = sequence.blocks[sequence.offeredBlocks] ?? none;
      if (key === undefined || found.has(key)) continue;
      found.set(key, block);
      keys[block] = key;
    }
  }

  return {
    peek: (prompt) => hitBlocks(prompt, prompt.tokenCount) * blockTokens,
    admit(sequences, stepTokens) {
      const [sequence] = sequences;
      return sequence !== undefined && admitOne(sequence, stepTokens);
    },
    fits: (sequences) => sequences.every((sequence) => blocksAtMost(sequence) <= total),
    grow,
    maxSequenceTokens: total * blockTokens,
    offer,
    release,
    clear() {
      for (let block = 0; block < total; block += 1) {
        const key = keys[block] ?? Number.NaN;
        if (references[block] !== 0 || Number.isNaN(key)) continue;
        keys[block] = Number.NaN;
        found.delete(key);
      }
    },
    get usage() {
      return (total - free.size) / total;
    },
    get heldTokens() {
      return found.size * blockTokens;
    },
    slots: [],
  };
}

/** Key of block `index`, past the prompt too where the answer's ids are known. */
function keyOf(sequence: Sequence, index: number, blockTokens: number): number | undefined {
  const { prompt, plan } = sequence;
  const ofPrompt = blockKeys(prompt, blockTokens);
  if (index < ofPrompt.length) return ofPrompt[index];
  if (prompt.kind === 'hashes' || plan.output === undefined) return undefined;
  let { chain, chainedTokens } = sequence;
  if (chain === undefined || chainedTokens !== index * blockTokens) {
    chain = startChain(prompt.salt);
    chainedTokens = 0;
  }
  const end = (index + 1) * blockTokens;
  for (; chainedTokens < end; chainedTokens += 1) {
    pushToken(
      chain,
      chainedTokens < prompt.tokenCount
        ? (prompt.ids[chainedTokens] ?? 0)
        : plan.output.idAt(chainedTokens - prompt.tokenCount),
    );
  }
  sequence.chain = chain;
  sequence.chainedTokens = chainedTokens;
  return chainKey(chain);
}

interface FreeList {
  readonly size: number;
  push(block: number): void;
  /** @throws when empty */
  shift(): number;
  remove(block: number): void;
}

/** A doubly linked list over block numbers: oldest first. */
function createFreeList(total: number): FreeList {
  const after = new Int32Array(total + 1).fill(none);
  const before = new Int32Array(total + 1).fill(none);
  /** The list's end is a node of its own, so that no border case is left. */
  const end = total;
  after[end] = end;
  before[end] = end;
  let size = 0;

  function push(block: number): void {
    const last = before[end] ?? end;
    after[last] = block;
    before[block] = last;
    after[block] = end;
    before[end] = block;
    size += 1;
  }
  function remove(block: number): void {
    const next = after[block] ?? end;
    const previous = before[block] ?? end;
    after[previous] = next;
    before[next] = previous;
    size -= 1;
  }
  for (let block = 0; block < total; block += 1) push(block);
  return {
    get size() {
      return size;
    },
    push,
    remove,
    shift() {
      const first = after[end] ?? end;
      if (first === end) throw new Error('no free block');
      remove(first);
      return first;
    },
  };
}
