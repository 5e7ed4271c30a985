/**
 * Prompts on their way: entered in the index when they are sent, and what their answers teach when they are over. All
 * corrections of the index are made here, by the rules of `horizon.ts`.
 */
import type { AnswerTold } from '../../domain/routing.ts';
import { searchDepth, type Depth, type Holder, type Underway } from './holder.ts';
import { firstHorizonTokens } from './cache-policy.ts';
import { noteFalseHit, noteFalseMiss } from './horizon.ts';
import { holdingOf, type Holding } from './look.ts';
import type { FlushReason } from './port.ts';
import type { PromptEnds } from './prompt-ends.ts';
import { tokensHeld, type PromptView } from './prompt-view.ts';
import type { SlotTold } from './slot-cache.ts';
import type { MirrorVisit, SlotMirror } from './slot-mirror.ts';
import { absent, type StampTable } from './stamp-table.ts';
import type { TokenRates } from './token-rates.ts';

export interface VisitDeps {
  readonly table: StampTable;
  readonly ends: PromptEnds;
  readonly rates: TokenRates;
  nowMs(): number;
  flush(holder: Holder, why: FlushReason): void;
}

/** A prompt as it was entered. */
export interface OpenVisit {
  readonly holder: Holder;
  readonly owner: number;
  readonly view: PromptView;
  readonly holding: Holding;
  readonly known: number;
  /** leading chunks that other prompts on their way had too */
  readonly shared: number;
  readonly underway: Underway;
  /** the insertion counter before, and what this prompt is believed to insert */
  readonly insertedBefore: number;
  readonly uncached: number;
  /** what each known chunk's stamp was */
  readonly stamps: Float64Array;
  /** its slot, where slots are mirrored */
  readonly slot: { readonly mirror: SlotMirror; readonly visit: MirrorVisit } | undefined;
}

/** So many answers in a row must tell nothing cached, where so many tokens were believed, for a restart to be taken as seen. */
const zerosForFlush = 3;
const zeroFromTokens = 1000;
const provenKeep = 0.99;
/** Differences below this share of a prompt come from counting tokens by bytes. */
const countingShare = 0.02;
const leastDifference = 8;
/** An end touches the chunks again only if so much of the horizon went by meanwhile. */
const restampShare = 1 / 128;

export function beginVisit(holder: Holder, view: PromptView, deps: VisitDeps): OpenVisit {
  const depth: Depth = { known: 0, resident: 0, shared: 0 };
  searchDepth(deps.table, holder, view.chain, depth);
  const holding = holdingOf(holder, view, { depth, ends: deps.ends });
  const { horizon } = holder;
  const insertedBefore = horizon.inserted;
  const uncached = Math.max(1, view.promptTokens - holding.tokens);
  horizon.inserted += uncached;
  const stamps = stampChain(deps.table, holder, { view, now: horizon.inserted });
  const underway: Underway = { chain: view.chain, uncached, computed: false };
  holder.under.push(underway);
  holder.chunks += view.tokensAt.length;
  holder.chunkTokens += view.promptTokens;
  const { mirror } = holder;
  return {
    holder,
    owner: holder.owner,
    view,
    holding,
    known: depth.known,
    shared: depth.shared,
    underway,
    insertedBefore,
    uncached,
    stamps,
    slot: mirror === undefined ? undefined : { mirror, visit: mirror.begin(view) },
  };
}

/** The head is the youngest, the tail the oldest: engines free a sequence from its tail. @returns the stamps before */
function stampChain(
  table: StampTable,
  holder: Holder,
  { view, now }: { readonly view: PromptView; readonly now: number },
): Float64Array {
  const { tokensAt } = view;
  const { keys } = view.chain;
  const before = new Float64Array(keys.length).fill(absent);
  table.open();
  for (let chunk = 0; chunk < keys.length; chunk += 1) {
    const stamp = table.touch(keys[chunk] ?? 0, holder.owner, now - (tokensAt[chunk] ?? 0));
    // No room: what lies behind would stand behind a gap.
    if (Number.isNaN(stamp)) break;
    before[chunk] = stamp;
  }
  return before;
}

/** The counter runs ahead of the engine by what was sent there and is not computed yet. */
function insertedNow({ horizon, under }: Holder): number {
  let waiting = 0;
  for (const { computed, uncached } of under) if (!computed) waiting += uncached;
  return horizon.inserted - waiting;
}

export function endVisit(visit: OpenVisit, told: AnswerTold, deps: VisitDeps): void {
  endInTable(visit, told, deps);
  const { slot, holder } = visit;
  // Started anew, or with another number of slots: what it is now was not told of this prompt.
  if (slot === undefined || slot.mirror !== holder.mirror) return;
  slot.mirror.end(slot.visit, slotTold(told));
}

function slotTold({ computed, promptTokens = 0, cachedTokens, outputTokens }: AnswerTold): SlotTold {
  if (promptTokens <= 0) return { computed, outputTokens };
  const cached = cachedTokens === undefined ? undefined : Math.max(0, Math.min(cachedTokens, promptTokens));
  return { computed, promptTokens, cachedTokens: cached, outputTokens };
}

function endInTable(visit: OpenVisit, told: AnswerTold, deps: VisitDeps): void {
  const { holder, view } = visit;
  const at = holder.under.indexOf(visit.underway);
  if (at >= 0) holder.under.splice(at, 1);
  if (visit.owner !== holder.owner) {
    // It was under way when the index took the backend for emptied; what it computed since is there.
    if (told.computed && visit.owner === holder.formerOwner && holder.flushedFor === 'zero_hits')
      stampChain(deps.table, holder, { view, now: insertedNow(holder) });
    return;
  }
  if (!told.computed) {
    undo(visit, deps);
    return;
  }
  const promptTokens = told.promptTokens !== undefined && told.promptTokens > 0 ? told.promptTokens : undefined;
  if (promptTokens !== undefined) deps.rates.learn(view.chain, view.model, promptTokens);
  let inserted = visit.uncached;
  if (promptTokens !== undefined) {
    // Some engines sum over parallel answers (C157).
    const cached = told.cachedTokens === undefined ? undefined : Math.max(0, Math.min(told.cachedTokens, promptTokens));
    inserted = Math.max(0, promptTokens - (cached ?? visit.holding.tokens));
    if (cached !== undefined && learn(visit, { promptTokens, cached }, deps) === 'flushed') {
      stampChain(deps.table, holder, { view, now: insertedNow(holder) });
      return;
    }
  }
  finish(visit, { inserted, promptTokens, outputTokens: told.outputTokens }, deps);
}

interface Finish {
  readonly inserted: number;
  readonly promptTokens: number | undefined;
  readonly outputTokens: number | undefined;
}

/** Its KV is free from now on, and as young as the moment. */
function finish(visit: OpenVisit, { inserted, promptTokens, outputTokens }: Finish, { table, ends }: VisitDeps): void {
  const { holder, view } = visit;
  const { horizon } = holder;
  horizon.inserted += inserted - visit.uncached + (outputTokens ?? 0);
  const now = insertedNow(holder);
  const passed = now - visit.insertedBefore - visit.uncached;
  if (passed > horizon.tokens * restampShare) stampChain(table, holder, { view, now });
  const length = promptTokens ?? view.promptTokens;
  ends.note(view.chain, {
    owner: holder.owner,
    stamp: now - length - (outputTokens ?? 0),
    ...(promptTokens === undefined ? {} : { promptTokens }),
    ...(outputTokens === undefined ? {} : { outputTokens }),
  });
}

/** It was never computed: what only it brought is not there. */
function undo({ holder, view, known, uncached, insertedBefore }: OpenVisit, { table }: VisitDeps): void {
  const { keys } = view.chain;
  const { tokensAt } = view;
  for (let chunk = keys.length - 1; chunk >= known; chunk -= 1) {
    const key = keys[chunk] ?? 0;
    const stamp = table.stampOf(key, holder.owner);
    // A later visit has stamped it higher, and may have had it computed.
    if (stamp > insertedBefore + uncached - (tokensAt[chunk] ?? 0)) break;
    table.remove(key, holder.owner);
  }
  holder.horizon.inserted -= uncached;
}

interface Told {
  readonly promptTokens: number;
  readonly cached: number;
}

function learn(visit: OpenVisit, told: Told, deps: VisitDeps): 'flushed' | 'kept' {
  const { holder, holding } = visit;
  const { promptTokens, cached } = told;
  const horizonBefore = holder.horizon.tokens;
  if (cached > 0) {
    holder.doubted = false;
    holder.distrusted = false;
  }
  const drifted = holder.accuracy.note({ predicted: holding.tokens, told: cached, prompt: promptTokens }, deps.nowMs());
  learnContinuation(visit, told, deps);
  if (holder.policy.reuse === 'prefix' && visit.slot === undefined) learnHorizon(visit, told);
  if (drifted) {
    holder.driftResets += 1;
    holder.mirror?.relearn();
    holder.horizon.tokens = firstHorizonTokens(holder.policy);
    holder.horizon.observations = 0;
  }
  return seesZeros(visit, told, { horizonBefore, deps });
}

function learnHorizon({ holder, view, holding, shared, known, insertedBefore, stamps }: OpenVisit, told: Told): void {
  const { policy, horizon } = holder;
  const scale = told.promptTokens / view.promptTokens;
  const answerTokens = view.answersKept ? (holding.continuation?.tokens ?? 0) : 0;
  const predicted = tokensHeld(view, holder, { chunks: holding.chunks, answerTokens, scale });
  if (predicted > 0 || told.cached > 0) horizon.observations += 1;
  const bearable = Math.max(policy.blockTokens, leastDifference) + countingShare * told.promptTokens;
  if (told.cached < predicted - bearable) {
    const missing = chunkPast(view, told.cached + policy.blockTokens, scale);
    // Whatever is on its way there may just not be computed yet, or sit in a slot that is busy: no sign of eviction.
    if (missing < shared || missing >= holding.chunks) return;
    const stamp = stamps[missing] ?? absent;
    if (stamp === absent) return;
    const oldestGoesFirst = policy.blockTokens > 1;
    noteFalseHit(horizon, insertedBefore - stamp, oldestGoesFirst ? stamp : undefined);
  } else if (told.cached > predicted + bearable) {
    const delivered = Math.min(known, chunkPast(view, told.cached, scale));
    const stamp = delivered > holding.chunks ? (stamps[delivered - 1] ?? absent) : absent;
    if (stamp !== absent) noteFalseMiss(horizon, insertedBefore - stamp, stamp);
  }
}

/** First chunk that ends past so many tokens. */
function chunkPast({ tokensAt }: PromptView, tokens: number, scale: number): number {
  let low = 0;
  let high = tokensAt.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((tokensAt[middle] ?? 0) * scale > tokens) high = middle;
    else low = middle + 1;
  }
  return low;
}

/** More was delivered than the earlier prompt had: its answer was held too. */
function learnContinuation({ holding, holder, view }: OpenVisit, { cached }: Told, { rates }: VisitDeps): void {
  const { continuation } = holding;
  if (continuation === undefined) return;
  const { blockTokens } = holder.policy;
  // Less than this can't be told from the rest of a block, or from a template's few tokens.
  if (continuation.tokens < Math.max(2 * blockTokens, 16)) return;
  if (cached < continuation.fromTokens - blockTokens) return;
  rates.learnAnswerKept(view.model, cached >= continuation.fromTokens + continuation.tokens / 2);
}

/**
 * Nothing delivered of much that was believed: eviction explains it where it lay longer untouched than anything that was
 * delivered; else it is counted, and after three in a row the backend is taken for emptied.
 */
function seesZeros(visit: OpenVisit, told: Told, { horizonBefore, deps }: Zeros): 'flushed' | 'kept' {
  const { holder, holding, shared, stamps, insertedBefore } = visit;
  const age = insertedBefore - (stamps[0] ?? absent);
  if (told.cached > 0) {
    holder.zeros = 0;
    const deepest = stamps[Math.min(visit.known, chunkPast(visit.view, told.cached, 1)) - 1] ?? absent;
    holder.provenAge = Math.max(holder.provenAge * provenKeep, deepest === absent ? 0 : insertedBefore - deepest);
    return 'kept';
  }
  if (holding.tokens < zeroFromTokens || (visit.slot?.visit.surelyTokens ?? Infinity) < zeroFromTokens) return 'kept';
  // Slots that are busy are out of account already.
  if (shared > 0 && visit.slot === undefined) return 'kept';
  const { capacityTokens = 0 } = holder.policy;
  const bearable = Math.max(holder.provenAge, capacityTokens / 4);
  if (age > (bearable > 0 ? bearable : told.promptTokens * 4)) return 'kept';
  if (holder.zeros === 0) holder.horizonBeforeZeros = horizonBefore;
  holder.zeros += 1;
  if (holder.zeros < zerosForFlush) return 'kept';
  const again = holder.doubted;
  if (!again) holder.horizon.tokens = holder.horizonBeforeZeros;
  deps.flush(holder, 'zero_hits');
  holder.doubted = true;
  holder.distrusted = again;
  return 'flushed';
}

interface Zeros {
  readonly horizonBefore: number;
  readonly deps: VisitDeps;
}
