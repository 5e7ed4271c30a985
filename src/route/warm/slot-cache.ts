/**
 * One belief of what llama-server holds, by one of the ways that it may be set up in: the sequence of each slot, and those
 * saved in RAM. Prompts go through it as they go through the server; answers correct it. Which of several beliefs is the
 * best is not decided here.
 */
import type { PromptView } from './prompt-view.ts';
import { createSavedSequences, type SavedBounds } from './saved-sequences.ts';
import { chooseSlot, keepsEnough, restoresFrom, type Choice, type Slot, type SlotWays } from './slot-choice.ts';
import { beginningOf, commonChunks, commonTokens, sequenceOf, tokensOf, type Sequence } from './slot-sequence.ts';

/** What a prompt overwrote where it might as well have overwritten another slot's. */
interface Lost {
  readonly sequence: Sequence;
  readonly slot: Slot;
  readonly twin: Slot;
  readonly twinSequence: Sequence;
}

/** One prompt on its way, by this belief. */
export interface SlotVisit {
  readonly view: PromptView;
  /** absent while all slots are busy */
  choice: Choice | undefined;
  /** what its slot had */
  before: Sequence | undefined;
  /** tokens of the saved sequence that it took, to the newest one */
  depthTokens: number;
  predictedTokens: number;
}

export interface SlotPrediction {
  readonly tokens: number;
  readonly chunks: number;
  /** what it goes on behind, as a whole */
  readonly continued: Sequence | undefined;
}

export interface SlotTold {
  readonly computed: boolean;
  readonly promptTokens?: number | undefined;
  readonly cachedTokens?: number | undefined;
  readonly outputTokens?: number | undefined;
}

export interface SlotCache {
  predict(view: PromptView): SlotPrediction;
  begin(view: PromptView): SlotVisit;
  end(visit: SlotVisit, told: SlotTold): void;
  /** Nothing is held any more but what is being computed now. */
  empty(): void;
  relearn(): void;
  readonly heldTokens: number;
  readonly fullShare: number;
  /** Adds all sequences to `into`. */
  collect(into: Set<Sequence>): void;
}

/** Shares are estimates. */
const countedShort = 0.8;
const mostWaiting = 1024;
const mostLost = 32;

export function createSlotCache(slotCount: number, ways: SlotWays, bounds: SavedBounds): SlotCache {
  /** In the server's order, which is learnt where it matters. */
  const slots: Slot[] = Array.from({ length: slotCount }, () => ({
    sequence: undefined,
    busy: false,
    releasedAt: 0,
  }));
  const saved = createSavedSequences(bounds);
  const waiting: SlotVisit[] = [];
  const lost: Lost[] = [];
  let releases = 0;

  const choose = (view: PromptView, only?: Slot): Choice | undefined => chooseSlot(view, { slots, saved, ways }, only);

  function take(visit: SlotVisit, choice: Choice): void {
    const { slot, reused } = choice;
    visit.choice = choice;
    visit.before = slot.sequence;
    visit.predictedTokens = choice.tokens;
    if (choice.fromSaved && reused !== undefined) {
      visit.depthTokens = saved.depthOf(reused);
      saved.remove(reused);
    }
    if (choice.savesSlot && slot.sequence !== undefined) saved.add(slot.sequence);
    else noteLost(choice);
    slot.busy = true;
    slot.sequence = sequenceOf(visit.view, {});
    if (!ways.savesIdle) return;
    for (const other of slots) {
      if (other.busy || other.sequence === undefined) continue;
      saved.add(other.sequence);
      if (ways.clearsIdle) other.sequence = undefined;
    }
  }

  function noteLost({ slot, twin }: Choice): void {
    if (twin?.sequence === undefined || slot.sequence === undefined) return;
    lost.push({ sequence: slot.sequence, slot, twin, twinSequence: twin.sequence });
    if (lost.length > mostLost) lost.shift();
  }

  function release(slot: Slot): void {
    slot.busy = false;
    slot.releasedAt = releases += 1;
    while (waiting.length > 0) {
      const next = waiting[0];
      const choice = next === undefined ? undefined : choose(next.view);
      if (next === undefined || choice === undefined) return;
      waiting.shift();
      take(next, choice);
    }
  }

  /** All slots are busy: any of them may be the next that is free. */
  function expect(view: PromptView): SlotPrediction {
    let tokens = 0;
    let chunks = 0;
    for (const slot of slots) {
      const choice = choose(view, slot);
      tokens += choice?.tokens ?? 0;
      chunks += choice?.chunks ?? 0;
    }
    const count = Math.max(1, slots.length);
    return { tokens: Math.round(tokens / count), chunks: Math.ceil(chunks / count), continued: undefined };
  }

  /** What the answer says of the belief, while the prompt still has its slot. @returns the slot that it truly ran in */
  function correct(visit: SlotVisit, choice: Choice, told: { readonly cached: number; readonly prompt: number }): Slot {
    const { view } = visit;
    const bearable = bearableTokens(view, choice.chunks, told.prompt);
    const predicted = Math.min(choice.tokens, told.prompt - 1);
    if (choice.fromSaved && told.cached >= predicted - bearable) saved.noteThere(visit.depthTokens);
    else if (choice.fromSaved && choice.reused !== undefined)
      saved.noteMissing(visit.depthTokens, tokensOf(choice.reused));
    return told.cached > predicted + bearable ? findElsewhere(visit, choice, told.cached) : choice.slot;
  }

  /** More was there than believed: whence? It is there no more. */
  function findElsewhere(visit: SlotVisit, { slot }: Choice, cached: number): Slot {
    const { view } = visit;
    const { keys } = view.chain;
    const hasIt = (sequence: Sequence): boolean => {
      const chunks = commonChunks(sequence, keys);
      return Math.abs(commonTokens(sequence, view, chunks) - cached) <= bearableTokens(view, chunks, view.promptTokens);
    };
    const other = slots.find(({ busy, sequence }) => !busy && sequence !== undefined && hasIt(sequence));
    if (other !== undefined) {
      slot.sequence = visit.before;
      slot.busy = false;
      other.busy = true;
      return other;
    }
    const shareOf = (sequence: Sequence): number => cached / Math.max(1, tokensOf(sequence));
    const those = saved.list.filter(hasIt);
    let kept: Sequence | undefined;
    for (const sequence of those) {
      // Of what is common to many, none can tell that it was one that should be gone.
      const past = saved.list.indexOf(sequence) < saved.heldFrom;
      const least = past ? keepsEnough : restoresFrom * countedShort;
      if (past && those.length > 1) continue;
      if (shareOf(sequence) >= least && shareOf(sequence) > (kept === undefined ? 0 : shareOf(kept))) kept = sequence;
    }
    if (kept !== undefined) {
      if (those.length === 1) saved.noteThere(saved.depthOf(kept));
      saved.remove(kept);
      return slot;
    }
    const mistaken = lost.findLastIndex(({ sequence }) => shareOf(sequence) >= keepsEnough && hasIt(sequence));
    if (mistaken >= 0) for (const one of lost.splice(mistaken, 1)) reorder(one);
    return slot;
  }

  /** The twin was overwritten, then: it stands before the slot in the server's order. */
  function reorder({ slot, twin, twinSequence }: Lost): void {
    const at = slots.indexOf(slot);
    const twinAt = slots.indexOf(twin);
    slots[at] = twin;
    slots[twinAt] = slot;
    if (!saved.remove(twinSequence) && !twin.busy && twin.sequence === twinSequence) twin.sequence = undefined;
  }

  return {
    predict(view) {
      const choice = choose(view);
      if (choice === undefined) return expect(view);
      const { tokens, chunks, reused } = choice;
      const goesOn = reused?.whole === true && chunks === reused.chunks && chunks < view.chain.keys.length;
      return { tokens, chunks, continued: goesOn ? reused : undefined };
    },
    begin(view) {
      const visit: SlotVisit = { view, choice: undefined, before: undefined, depthTokens: 0, predictedTokens: 0 };
      const choice = choose(view);
      if (choice !== undefined) {
        take(visit, choice);
        return visit;
      }
      visit.predictedTokens = expect(view).tokens;
      if (waiting.length < mostWaiting) waiting.push(visit);
      return visit;
    },
    end(visit, told) {
      const { choice } = visit;
      if (choice === undefined) {
        const at = waiting.indexOf(visit);
        if (at >= 0) waiting.splice(at, 1);
        return;
      }
      const { reused, chunks, tokens } = choice;
      let { slot } = choice;
      if (told.computed) {
        if (told.cachedTokens !== undefined && told.promptTokens !== undefined)
          slot = correct(visit, choice, { cached: told.cachedTokens, prompt: told.promptTokens });
        slot.sequence = sequenceOf(visit.view, told);
      } else {
        // How far it came is not known: what it was to go on behind is there at least.
        slot.sequence = reused === undefined ? undefined : beginningOf(reused, chunks, tokens);
      }
      release(slot);
    },
    empty() {
      for (const slot of slots) if (!slot.busy) slot.sequence = undefined;
      saved.clear();
    },
    relearn: () => saved.relearn(),
    get heldTokens() {
      return saved.heldTokens + slots.reduce((sum, { sequence }) => sum + (sequence ? tokensOf(sequence) : 0), 0);
    },
    get fullShare() {
      let prompts = slots.reduce((sum, { sequence }) => sum + (sequence ? 1 : 0), 0);
      // Slots that are emptied while they idle keep theirs in RAM.
      if (ways.clearsIdle) prompts += saved.list.length;
      return Math.min(1, prompts / slots.length);
    },
    collect(into) {
      for (const { sequence } of slots) if (sequence !== undefined) into.add(sequence);
      for (const sequence of saved.list) into.add(sequence);
    },
  };
}

/** What counting by bytes and chunks may be off: a share, and where it parts within a chunk, the rest of that. */
export function bearableTokens({ tokensAt }: PromptView, chunks: number, promptTokens: number): number {
  const chunk = (tokensAt[chunks] ?? promptTokens) - (chunks === 0 ? 0 : (tokensAt[chunks - 1] ?? 0));
  return 8 + 0.02 * promptTokens + Math.max(0, Math.min(chunk, promptTokens / 4));
}
