/**
 * In which order the lines of a batch are sent: as they stand in the file, but that lines whose prompts begin alike stand
 * together, those with the longest common beginning closest. That is the depth-first order of the trie of their keys, where
 * each fork's branches come by their earliest line. Nodes and keys lie in a few large arrays: an object for each of 50,000 lines
 * would be felt by the collector, and so by the streams. Pure.
 */

export interface LineOrder {
  /** The next line of the file. @param keys of its prompt; undefined: it has nothing in common with any other */
  add(keys: Float64Array | undefined): void;
  /** Steps of one pass, at whose end `ranks` is whole. */
  rank(): Iterable<unknown>;
  /** Of each line, in the order of the file: its place, from 0. */
  readonly ranks: Uint32Array;
}

/** Keys of a chain that are all looked at; behind them half of them, behind twice as many a quarter, and so on. */
const denseKeys = 64;
/** Nodes that are gone through in one step. */
const nodesPerStep = 256;
/** A node with more children finds them by a map. */
const fewChildren = 8;

/** What is known of a node; each of them is one number in `nodes`. */
const Of = { from: 0, to: 1, line: 2, lastLine: 3, firstChild: 4, lastChild: 5, nextSibling: 6, children: 7 } as const;
const nodeSize = 8;
const none = -1;
const root = 0;

export function createLineOrder(): LineOrder {
  const trie = new Trie();
  let count = 0;
  let ranks = new Uint32Array(0);

  return {
    add(keys) {
      // No key of a prompt is negative.
      const known = keys === undefined || keys.length === 0 ? Float64Array.of(-1 - count) : thinned(keys);
      trie.insert(known, count);
      count += 1;
    },
    *rank() {
      ranks = new Uint32Array(count);
      let next = 0;
      let steps = 0;
      for (const node of trie.nodesInOrder()) {
        for (const line of trie.linesOf(node)) ranks[line] = next++;
        if ((steps += 1) % nodesPerStep === 0) yield;
      }
    },
    get ranks() {
      return ranks;
    },
  };
}

/** Two nodes for each line at most; of a line's keys those that no earlier one has in its place. */
class Trie {
  #nodes = new Int32Array(64 * nodeSize);
  #count = 0;
  readonly #keys = new KeyPages();
  /** Of nodes with many children: by the first key of their edge. */
  readonly #byKey = new Map<number, Map<number, number>>();
  /** Of a line: the next one that ends at the same node. */
  #nextLines = new Int32Array(64);

  constructor() {
    this.#add(0, 0);
  }

  insert(keys: Float64Array, line: number): void {
    let node: number = root;
    let at = 0;
    while (at < keys.length) {
      const child = this.#child(node, keys[at] ?? 0);
      if (child === none) {
        const from = this.#keys.keep(keys, at);
        node = this.#append(node, this.#add(from, from + keys.length - at));
        at = keys.length;
      } else {
        const shared = this.#shared(child, keys, at);
        if (shared < this.#get(child, Of.to) - this.#get(child, Of.from)) this.#fork(child, shared);
        node = child;
        at += shared;
      }
    }
    this.#endHere(node, line);
  }

  *nodesInOrder(): Generator<number, void> {
    const open = [root as number];
    for (let node = open.pop(); node !== undefined; node = open.pop()) {
      yield node;
      const sibling = this.#get(node, Of.nextSibling);
      const child = this.#get(node, Of.firstChild);
      if (sibling !== none) open.push(sibling);
      if (child !== none) open.push(child);
    }
  }

  *linesOf(node: number): Generator<number, void> {
    for (let line = this.#get(node, Of.line); line !== none; line = this.#nextLines[line] ?? none) yield line;
  }

  #get(node: number, what: number): number {
    return this.#nodes[node * nodeSize + what] ?? none;
  }

  #set(node: number, what: number, value: number): void {
    this.#nodes[node * nodeSize + what] = value;
  }

  #add(from: number, to: number): number {
    const node = this.#count;
    this.#count += 1;
    if (this.#count * nodeSize > this.#nodes.length) this.#nodes = wider(this.#nodes, 2 * this.#nodes.length);
    this.#nodes.set([from, to, none, none, none, none, none, 0], node * nodeSize);
    return node;
  }

  #child(node: number, key: number): number {
    const index = this.#byKey.get(node);
    if (index !== undefined) return index.get(key) ?? none;
    let child = this.#get(node, Of.firstChild);
    while (child !== none && this.#keys.at(this.#get(child, Of.from)) !== key) child = this.#get(child, Of.nextSibling);
    return child;
  }

  /** @returns the child */
  #append(node: number, child: number): number {
    const last = this.#get(node, Of.lastChild);
    if (last === none) this.#set(node, Of.firstChild, child);
    else this.#set(last, Of.nextSibling, child);
    this.#set(node, Of.lastChild, child);
    const children = this.#get(node, Of.children) + 1;
    this.#set(node, Of.children, children);
    if (children === fewChildren + 1) this.#index(node);
    else this.#byKey.get(node)?.set(this.#keys.at(this.#get(child, Of.from)), child);
    return child;
  }

  #index(node: number): void {
    const index = new Map<number, number>();
    for (let child = this.#get(node, Of.firstChild); child !== none; child = this.#get(child, Of.nextSibling))
      index.set(this.#keys.at(this.#get(child, Of.from)), child);
    this.#byKey.set(node, index);
  }

  /** Cuts a node's edge behind so many keys: it stands for the fork from now on, in its place, and its only child for what it was. */
  #fork(node: number, shared: number): void {
    const from = this.#get(node, Of.from);
    const rest = this.#add(from + shared, this.#get(node, Of.to));
    for (const what of [Of.line, Of.lastLine, Of.firstChild, Of.lastChild, Of.children])
      this.#set(rest, what, this.#get(node, what));
    const index = this.#byKey.get(node);
    if (index !== undefined) {
      this.#byKey.delete(node);
      this.#byKey.set(rest, index);
    }
    this.#set(node, Of.to, from + shared);
    this.#set(node, Of.line, none);
    this.#set(node, Of.lastLine, none);
    this.#set(node, Of.firstChild, rest);
    this.#set(node, Of.lastChild, rest);
    this.#set(node, Of.children, 1);
  }

  #shared(node: number, keys: Float64Array, at: number): number {
    const from = this.#get(node, Of.from);
    const most = Math.min(this.#get(node, Of.to) - from, keys.length - at);
    let shared = 0;
    while (shared < most && this.#keys.at(from + shared) === keys[at + shared]) shared += 1;
    return shared;
  }

  #endHere(node: number, line: number): void {
    if (line >= this.#nextLines.length) this.#nextLines = wider(this.#nextLines, 2 * line);
    this.#nextLines[line] = none;
    const last = this.#get(node, Of.lastLine);
    if (last === none) this.#set(node, Of.line, line);
    else this.#nextLines[last] = line;
    this.#set(node, Of.lastLine, line);
  }
}

const pageKeys = 65_536;

/** Keys one behind the other, found by a number; never moved. */
class KeyPages {
  readonly #pages: Float64Array[] = [];
  #used = pageKeys;

  /** Keeps the keys from `start` on, in one page. @returns the number of the first */
  keep(keys: Float64Array, start: number): number {
    const length = keys.length - start;
    if (this.#used + length > pageKeys) {
      this.#pages.push(new Float64Array(pageKeys));
      this.#used = 0;
    }
    this.#pages.at(-1)?.set(keys.subarray(start), this.#used);
    const first = (this.#pages.length - 1) * pageKeys + this.#used;
    this.#used += length;
    return first;
  }

  at(number: number): number {
    return this.#pages[Math.floor(number / pageKeys)]?.[number % pageKeys] ?? Number.NaN;
  }
}

function wider(numbers: Int32Array<ArrayBuffer>, length: number): Int32Array<ArrayBuffer> {
  const grown = new Int32Array(length);
  grown.set(numbers);
  return grown;
}

/**
 * A chain's keys at places that are the same for all lines. As each key stands for all before it, what is left out makes
 * nothing look alike that isn't.
 */
function thinned(keys: Float64Array): Float64Array {
  if (keys.length <= denseKeys) return keys;
  const kept: number[] = [];
  let stride = 1;
  for (let at = 0; at < keys.length; at += stride) {
    if (at >= stride * denseKeys) stride *= 2;
    kept.push(keys[at] ?? 0);
  }
  return Float64Array.from(kept);
}
