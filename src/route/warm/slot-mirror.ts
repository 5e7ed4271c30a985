/**
 * What one llama-server holds, told by what was sent to it. How it is set up (a cache in RAM or none, one context or one for
 * each slot) is told nowhere: every way is believed at once, each prompt goes through all of them, and predictions come
 * from the one that was off least lately.
 */
import type { PromptView } from './prompt-view.ts';
import type { SavedBounds } from './saved-sequences.ts';
import { bearableTokens, createSlotCache, type SlotCache } from './slot-cache.ts';
import type { SlotPrediction, SlotTold, SlotVisit } from './slot-cache.ts';
import type { SlotWays } from './slot-choice.ts';
import type { Sequence } from './slot-sequence.ts';

export interface MirrorVisit {
  readonly visits: readonly SlotVisit[];
  /** least that any belief had it reuse: what can't be explained by the server's setting */
  readonly surelyTokens: number;
}

export interface SlotMirror {
  readonly slots: number;
  predict(view: PromptView): SlotPrediction;
  begin(view: PromptView): MirrorVisit;
  end(visit: MirrorVisit, told: SlotTold): void;
  /** Nothing is held any more; how the server is set up was learnt and stays. */
  empty(): void;
  /** Predictions were off for long: sizes are learnt anew. */
  relearn(): void;
  readonly heldTokens: number;
  /** 0 to 1: the next prompt takes the place of another one once each slot has one. */
  readonly fullShare: number;
  /** Sequences of all beliefs, each counted once, and their memory. */
  measure(): { readonly sequences: number; readonly bytes: number };
}

/** The present server's defaults with slots of their own first: what is believed before any answer. */
const allWays: readonly SlotWays[] = [
  { saves: true, savesIdle: true, clearsIdle: false },
  { saves: true, savesIdle: true, clearsIdle: true },
  { saves: true, savesIdle: false, clearsIdle: false },
  { saves: false, savesIdle: false, clearsIdle: false },
];

interface Belief {
  readonly cache: SlotCache;
  /** sum of what its predictions were off, in tokens; fades */
  offTokens: number;
}

const offKeep = 0.97;
/** Another belief must be better by so much. */
const betterShare = 0.9;
const sequenceBytes = 120;

export function createSlotMirror(slots: number, bounds: SavedBounds): SlotMirror {
  const beliefs: readonly Belief[] = allWays.map((ways) => ({
    cache: createSlotCache(slots, ways, bounds),
    offTokens: 0,
  }));
  let believed = beliefs[0];

  function judge({ visits }: MirrorVisit, cached: number, prompt: number): void {
    beliefs.forEach((belief, at) => {
      const predicted = Math.min(visits[at]?.predictedTokens ?? 0, prompt - 1);
      belief.offTokens = belief.offTokens * offKeep + Math.abs(predicted - cached);
    });
    for (const belief of beliefs)
      if (belief.offTokens < (believed?.offTokens ?? Infinity) * betterShare) believed = belief;
  }

  /** Two prompts part where they were thought to: to the token, it is known now. */
  function learnFork({ visits }: MirrorVisit, cached: number, prompt: number): void {
    const visit = visits[believed === undefined ? 0 : beliefs.indexOf(believed)];
    const choice = visit?.choice;
    if (visit === undefined || choice === undefined || choice.chunks === 0) return;
    const { view } = visit;
    const { chunks, reused, tokens } = choice;
    if (reused === undefined || chunks >= reused.chunks || chunks >= view.chain.keys.length) return;
    if (Math.abs(cached - tokens) > bearableTokens(view, chunks, prompt)) return;
    view.forks.note(view.chain.keys[chunks - 1] ?? 0, cached);
  }

  return {
    slots,
    predict: (view) => believed?.cache.predict(view) ?? { tokens: 0, chunks: 0, continued: undefined },
    begin(view) {
      const visits = beliefs.map(({ cache }) => cache.begin(view));
      const surelyTokens = Math.min(...visits.map(({ predictedTokens }) => predictedTokens));
      return { visits, surelyTokens };
    },
    end(visit, told) {
      if (told.computed && told.cachedTokens !== undefined && told.promptTokens !== undefined) {
        learnFork(visit, told.cachedTokens, told.promptTokens);
        judge(visit, told.cachedTokens, told.promptTokens);
      }
      beliefs.forEach(({ cache }, at) => {
        const own = visit.visits[at];
        if (own !== undefined) cache.end(own, told);
      });
    },
    empty() {
      for (const { cache } of beliefs) cache.empty();
    },
    relearn() {
      for (const belief of beliefs) {
        belief.cache.relearn();
        belief.offTokens = 0;
      }
    },
    get heldTokens() {
      return believed?.cache.heldTokens ?? 0;
    },
    get fullShare() {
      return believed?.cache.fullShare ?? 0;
    },
    measure() {
      const sequences = new Set<Sequence>();
      for (const { cache } of beliefs) cache.collect(sequences);
      const keys = new Set<Float64Array>();
      let bytes = 0;
      for (const sequence of sequences) {
        bytes += sequenceBytes;
        if (keys.has(sequence.keys)) continue;
        keys.add(sequence.keys);
        bytes += sequence.keys.byteLength;
      }
      return { sequences: sequences.size, bytes };
    },
  };
}
