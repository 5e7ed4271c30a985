/**
 * What a prompt is to a prefix cache: a number of tokens, and something that is equal where beginnings are equal.
 * Either token ids (servers) or the block hashes of a trace (replay), which know no tokens. Pure values.
 */

export interface TokenPrompt {
  readonly kind: 'tokens';
  readonly tokenCount: number;
  readonly ids: Uint32Array;
  /** Prompts of different salts share nothing (vLLM's `cache_salt`). */
  readonly salt: number;
  /** Block keys already computed, by block size. */
  readonly keys: Map<number, Float64Array>;
}

export interface HashedPrompt {
  readonly kind: 'hashes';
  readonly tokenCount: number;
  /** One id for each `hashTokens` tokens, the last block may be partial: equal ids in equal order mean equal tokens. */
  readonly hashIds: readonly number[];
  readonly hashTokens: number;
  readonly keys: Map<number, Float64Array>;
}

export type SimPrompt = TokenPrompt | HashedPrompt;

/** Ids of the tokens of an answer, by index; known beforehand, since the text is canned. */
export interface OutputIds {
  idAt(index: number): number;
}

/** A sequence whose KV is held: the prompt, then the answer, `length` tokens of it. */
export interface HeldSequence {
  readonly prompt: SimPrompt;
  readonly output?: OutputIds;
  readonly length: number;
}

export function tokenPrompt(ids: Uint32Array, salt = 0): TokenPrompt {
  return { kind: 'tokens', tokenCount: ids.length, ids, salt, keys: new Map() };
}

/** @throws when the ids don't cover the tokens */
export function hashedPrompt(tokenCount: number, hashIds: readonly number[], hashTokens: number): HashedPrompt {
  if (hashIds.length * hashTokens < tokenCount)
    throw new Error(`${hashIds.length} hashes of ${hashTokens} tokens don't cover ${tokenCount}`);
  return { kind: 'hashes', tokenCount, hashIds, hashTokens, keys: new Map() };
}

/** A running hash over all tokens so far: two 32-bit lanes, read as a 53-bit number at block borders. */
export interface ChainHash {
  low: number;
  high: number;
}

export function startChain(salt: number): ChainHash {
  const chain = { low: 0x243f6a88, high: 0x13198a2e };
  pushToken(chain, salt);
  return chain;
}

export function pushToken(chain: ChainHash, id: number): void {
  chain.low = Math.imul(chain.low ^ id, 0x9e3779b1);
  chain.low ^= chain.low >>> 15;
  chain.high = Math.imul(chain.high + id, 0x85ebca6b);
  chain.high ^= chain.high >>> 13;
}

export function chainKey(chain: ChainHash): number {
  return (chain.low >>> 0) * 2_097_152 + (chain.high >>> 11);
}

/**
 * Keys of the prompt's full blocks, chained: equal keys mean equal tokens up to there (53 bits).
 * @throws when a trace's hashes can't be cut into blocks of this size
 */
export function blockKeys(prompt: SimPrompt, blockTokens: number): Float64Array {
  const known = prompt.keys.get(blockTokens);
  if (known !== undefined) return known;
  const keys = prompt.kind === 'tokens' ? keysOfTokens(prompt, blockTokens) : keysOfHashes(prompt, blockTokens);
  prompt.keys.set(blockTokens, keys);
  return keys;
}

function keysOfTokens(prompt: TokenPrompt, blockTokens: number): Float64Array {
  const keys = new Float64Array(Math.floor(prompt.tokenCount / blockTokens));
  const chain = startChain(prompt.salt);
  for (let block = 0, at = 0; block < keys.length; block += 1) {
    for (const end = at + blockTokens; at < end; at += 1) pushToken(chain, prompt.ids[at] ?? 0);
    keys[block] = chainKey(chain);
  }
  return keys;
}

function keysOfHashes(prompt: HashedPrompt, blockTokens: number): Float64Array {
  if (prompt.hashTokens % blockTokens !== 0)
    throw new Error(`hashes of ${prompt.hashTokens} tokens can't make blocks of ${blockTokens}`);
  const parts = prompt.hashTokens / blockTokens;
  const keys = new Float64Array(Math.floor(prompt.tokenCount / blockTokens));
  const chain = startChain(0);
  for (let block = 0; block < keys.length; block += 1) {
    if (block % parts === 0) pushToken(chain, prompt.hashIds[block / parts] ?? 0);
    else pushToken(chain, block % parts);
    keys[block] = chainKey(chain);
  }
  return keys;
}

/** How many leading tokens of `prompt` are those of a held sequence. */
export function commonPrefix(prompt: SimPrompt, held: HeldSequence): number {
  const longest = Math.min(prompt.tokenCount, held.length);
  if (prompt.kind === 'hashes' || held.prompt.kind === 'hashes') return commonHashes(prompt, held, longest);
  if (prompt.salt !== held.prompt.salt) return 0;
  const ids = prompt.ids;
  const heldIds = held.prompt.ids;
  const inPrompt = Math.min(longest, held.prompt.tokenCount);
  let at = 0;
  while (at < inPrompt && ids[at] === heldIds[at]) at += 1;
  if (at < inPrompt || held.output === undefined) return at;
  while (at < longest && ids[at] === held.output.idAt(at - held.prompt.tokenCount)) at += 1;
  return at;
}

function commonHashes(prompt: SimPrompt, held: HeldSequence, longest: number): number {
  if (prompt.kind !== 'hashes' || held.prompt.kind !== 'hashes' || prompt.hashTokens !== held.prompt.hashTokens)
    return 0;
  let equal = 0;
  while (equal < prompt.hashIds.length && prompt.hashIds[equal] === held.prompt.hashIds[equal]) equal += 1;
  return Math.min(equal * prompt.hashTokens, longest, held.prompt.tokenCount);
}
