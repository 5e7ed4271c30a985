/**
 * What the index keeps of one backend: its name in the table, its horizon, the prompts on their way to it, and how deep into
 * a chain it holds. Searches; decides nothing.
 */
import type { BackendView } from '../../domain/fleet.ts';
import type { PrefixChain } from '../../domain/prefix.ts';
import { createAccuracy, type Accuracy } from './accuracy.ts';
import { cachePolicyFor, firstHorizonTokens, unknownHorizonTokens } from './cache-policy.ts';
import { createHorizon, residentAbove, type Horizon } from './horizon.ts';
import type { CachePolicy, FlushReason } from './port.ts';
import type { WarmSettings } from './settings.ts';
import { createSlotMirror, type SlotMirror } from './slot-mirror.ts';
import { warmDefaults } from './settings.ts';
import { absent, type StampTable } from './stamp-table.ts';

export interface Holder {
  readonly name: string;
  /** Its name in the table; another one after each flush, so that all that it held is forgotten at once. */
  owner: number;
  /** The one before the last flush; 0: none. */
  formerOwner: number;
  flushedFor: FlushReason | undefined;
  flushes: number;
  horizon: Horizon;
  view: BackendView | undefined;
  /** The config's word on its cache, when `policy` was made. */
  configured: Partial<CachePolicy> | undefined;
  policy: CachePolicy;
  /** what each slot has; absent where the age of what was sent must do */
  mirror: SlotMirror | undefined;
  /** prompts on their way */
  readonly under: Underway[];
  readonly accuracy: Accuracy;
  driftResets: number;
  /** answers in a row that told nothing cached of much that was believed */
  zeros: number;
  /** the horizon as it was before the first of them */
  horizonBeforeZeros: number;
  /** age of the oldest that was delivered; fades */
  provenAge: number;
  /** flushed for that, and nothing delivered since */
  doubted: boolean;
  /** …twice: taken to hold nothing until it delivers */
  distrusted: boolean;
  /** chunks put in there, and their tokens: for the mean */
  chunks: number;
  chunkTokens: number;
}

/** A prompt on its way. */
export interface Underway {
  readonly chain: PrefixChain;
  /** tokens that the engine was believed to have to compute */
  readonly uncached: number;
  /** its KV is there and in use, so that it can't be evicted; before, it may wait in the engine's queue and hold nothing */
  computed: boolean;
}

/** How deep into a chain. */
export interface Depth {
  /** leading chunks that were sent there and are still in the table */
  known: number;
  /** of those, not too old, or in use */
  resident: number;
  /** of those, part of prompts on their way that may be computed at the same moment, or sit in a busy slot */
  shared: number;
}

export function createHolder(name: string, owner: number): Holder {
  return {
    name,
    owner,
    formerOwner: 0,
    flushedFor: undefined,
    flushes: 0,
    horizon: createHorizon(0),
    view: undefined,
    configured: undefined,
    policy: { blockTokens: 1, reuse: 'prefix' },
    mirror: undefined,
    under: [],
    accuracy: createAccuracy(),
    driftResets: 0,
    zeros: 0,
    horizonBeforeZeros: 0,
    provenAge: 0,
    doubted: false,
    distrusted: false,
    chunks: 0,
    chunkTokens: 0,
  };
}

/** Takes over what a new view tells. The horizon begins at the told capacity until an answer has told something of it. */
export function seeBackend(holder: Holder, view: BackendView, settings: WarmSettings): void {
  const configured = settings.policies[view.name];
  if (holder.view === view && holder.configured === configured) return;
  const policy = cachePolicyFor(view, configured);
  if (holder.view === undefined || policy.capacityTokens !== holder.policy.capacityTokens) {
    if (holder.horizon.observations === 0) holder.horizon.tokens = createHorizon(firstHorizonTokens(policy)).tokens;
  }
  holder.view = view;
  holder.configured = configured;
  holder.policy = policy;
  const slots = slotsToMirror(view, policy);
  if (slots !== (holder.mirror?.slots ?? 0)) holder.mirror = slots === 0 ? undefined : mirrorOf(slots, settings);
}

/** More slots than anybody has: some other number. */
const mostSlots = 256;
/** Of all saved prompts of one belief, in chunks. */
const mostSavedKeys = 65_536;

/** Only of llama-server it is known how it chooses. */
function slotsToMirror({ engine, slots = 0 }: BackendView, { blockTokens, reuse }: CachePolicy): number {
  if (engine !== 'llama-server' || blockTokens !== 1 || reuse !== 'prefix') return 0;
  return slots <= mostSlots ? slots : 0;
}

function mirrorOf(slots: number, { maxSaved = warmDefaults.maxSaved }: WarmSettings): SlotMirror {
  return createSlotMirror(slots, { sequences: maxSaved, keys: mostSavedKeys });
}

/**
 * Fills `into`, whose `known` on entry says where to look first. Along a chain stamps never rise and uses are never later than at its head, so that a bisection finds the end
 * of what is there.
 */
export function searchDepth(table: StampTable, holder: Holder, chain: PrefixChain, into: Depth): void {
  const floor = residentAbove(holder.horizon);
  bisect(table, { owner: holder.owner, floor }, chain, into);
  into.shared = 0;
  if (holder.under.length === 0 || into.known === 0) return;
  into.shared = Math.min(into.known, chunksAtOnce(holder, chain));
  if (into.known > into.resident) into.resident = Math.min(into.known, chunksInUse(holder.under, chain, into.resident));
}

/** Leading chunks that `owner` has in the table at all. */
export function knownChunks(table: StampTable, owner: number, chain: PrefixChain): number {
  const depth: Depth = { known: 0, resident: 0, shared: 0 };
  bisect(table, { owner, floor: absent }, chain, depth);
  return depth.known;
}

/** Begins at the depth found last: backends mostly part from a prompt at the same place. */
function bisect(
  table: StampTable,
  { owner, floor }: { readonly owner: number; readonly floor: number },
  { keys }: PrefixChain,
  into: Depth,
): void {
  let low = 0;
  let high = keys.length;
  let resident = 0;
  let residentHigh = keys.length;
  // Of the last depth, first the chunk before it and then the one behind it.
  let middle = Math.min(Math.max(1, into.known), keys.length);
  let besides = middle + 1;
  while (low < high) {
    const stamp = table.stampOf(keys[middle - 1] ?? 0, owner);
    if (stamp === absent) high = middle - 1;
    else low = middle;
    if (stamp > floor) resident = middle;
    else residentHigh = Math.min(residentHigh, middle - 1);
    if (besides > 0 && low > 0 && low < high) middle = besides;
    // Nothing at all is what most hold.
    else if (besides > 0 && low === 0 && high > 0) middle = 1;
    else middle = (low + high + 1) >> 1;
    besides = 0;
  }
  residentHigh = Math.min(residentHigh, low);
  while (resident < residentHigh) {
    const at = (resident + residentHigh + 1) >> 1;
    if (table.stampOf(keys[at - 1] ?? 0, owner) > floor) resident = at;
    else residentHigh = at - 1;
  }
  into.known = low;
  into.resident = resident;
}

/** Leading chunks, at least `from`, that are in use. Keys are chained: equal at one place means equal up to there. */
function chunksInUse(under: readonly Underway[], { keys }: PrefixChain, from: number): number {
  let deepest = from;
  for (const { chain, computed } of under) {
    if (!computed || (from > 0 && chain.keys[from - 1] !== keys[from - 1])) continue;
    while (deepest < keys.length && chain.keys[deepest] === keys[deepest]) deepest += 1;
  }
  return deepest;
}

/** Tokens that a batching engine computes in one step, about. */
const stepTokens = 8192;

/**
 * Leading chunks that others on their way may be computing when this one begins. An engine of blocks takes prompts in turn and
 * shares what is computed, so that only those just before count; in slots nothing is shared before the end.
 */
function chunksAtOnce({ under, policy }: Holder, { keys }: PrefixChain): number {
  let deepest = 0;
  let left = policy.blockTokens > 1 ? stepTokens : Infinity;
  for (let at = under.length - 1; at >= 0 && left > 0; at -= 1) {
    const other = under[at];
    if (other === undefined || (policy.blockTokens > 1 && other.computed)) continue;
    left -= other.uncached;
    while (deepest < keys.length && other.chain.keys[deepest] === keys[deepest]) deepest += 1;
  }
  return deepest;
}

/** An estimate: pairs in the table times the mean chunk, and no more than the horizon allows. */
export function heldTokensOf(table: StampTable, holder: Holder): number {
  if (holder.mirror !== undefined) return holder.mirror.heldTokens;
  if (holder.chunks === 0) return 0;
  const known = table.entriesOf(holder.owner) * (holder.chunkTokens / holder.chunks);
  return Math.round(Math.min(known, holder.horizon.tokens));
}

/** @returns undefined while it is a guess: no answer has told anything of it, or none but that it may be right */
export function knownHorizonTokens({ horizon: { observations, tokens } }: Holder): number | undefined {
  return observations === 0 || tokens === unknownHorizonTokens ? undefined : Math.round(tokens);
}

/** So much of what it can hold was put in there since it was empty; of slots, so many hold a prompt. */
export function fullShareOf({ mirror, horizon: { inserted, emptiedAt, tokens } }: Holder): number {
  if (mirror !== undefined) return mirror.fullShare;
  return Math.min(1, Math.max(0, inserted - emptiedAt) / tokens);
}
