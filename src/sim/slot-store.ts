/**
 * llama.cpp's cache: each slot keeps the sequence that ran in it last, reused as far as a new prompt begins alike, token by token,
 * but never its last token. Sequences that would be lost are kept aside in RAM, oldest evicted first, and moved back when wanted.
 * Source: the server's slot selection and prompt cache as described in its README (`--slot-prompt-similarity`, `--cache-ram`).
 */
import type { KvStore, SlotView } from './kv-store.ts';
import { commonPrefix, type HeldSequence, type SimPrompt } from './prompt.ts';
import type { Sequence } from './sequence.ts';
import type { SlotCacheSettings } from './settings.ts';

interface Slot {
  readonly id: number;
  sequence: Sequence | undefined;
  held: HeldSequence | undefined;
  lastUsed: number;
}

/** A slot that would keep less than this share of its content has it saved first. */
const saveBelowShare = 0.5;
/** A saved sequence is moved back only if at least this share of it is wanted. */
const restoreFromShare = 0.25;

export function createSlotStore(settings: SlotCacheSettings, slotCount: number): KvStore {
  const slots: Slot[] = Array.from({ length: slotCount }, (_, id) => ({
    id,
    sequence: undefined,
    held: undefined,
    lastUsed: 0,
  }));
  const saved: HeldSequence[] = [];
  let savedTokens = 0;
  let uses = 0;

  const tokensIn = (slot: Slot) => slot.sequence?.computedTokens ?? slot.held?.length ?? 0;
  const idle = () => slots.filter((slot) => slot.sequence === undefined);

  /** The idle slot with the largest share of the prompt, if that is enough. */
  function mostSimilar(prompt: SimPrompt, candidates: readonly Slot[]): Slot | undefined {
    let best: Slot | undefined;
    let bestShare = settings.minSimilarity;
    for (const slot of candidates) {
      if (slot.held === undefined) continue;
      const share = commonPrefix(prompt, slot.held) / prompt.tokenCount;
      if (share > bestShare) {
        best = slot;
        bestShare = share;
      }
    }
    return best;
  }

  function save(held: HeldSequence): void {
    if (settings.ramTokens === 0 || held.length > settings.ramTokens) return;
    // A saved sequence that this one contains is of no more use.
    for (let index = saved.length - 1; index >= 0; index -= 1) {
      const other = saved[index];
      if (other !== undefined && other.output === undefined && commonPrefix(other.prompt, held) >= other.length)
        drop(index);
    }
    saved.push(held);
    savedTokens += held.length;
    while (savedTokens > settings.ramTokens) drop(0);
  }

  function drop(index: number): void {
    const [held] = saved.splice(index, 1);
    savedTokens -= held?.length ?? 0;
  }

  /** The saved sequence that serves better than what the slot has. */
  function bestSaved(prompt: SimPrompt, inSlot: number): number | undefined {
    let best: number | undefined;
    let most = inSlot;
    saved.forEach((held, index) => {
      const common = commonPrefix(prompt, held);
      if (common > most && common >= held.length * restoreFromShare) {
        best = index;
        most = common;
      }
    });
    return best;
  }

  /** Makes a slot ready for a prompt. @returns the leading tokens of it that need not be computed */
  function prepare(slot: Slot, prompt: SimPrompt, chosenForContent: boolean): number {
    const inSlot = slot.held === undefined ? 0 : commonPrefix(prompt, slot.held);
    const keepsEnough = slot.held !== undefined && inSlot >= slot.held.length * saveBelowShare;
    if (chosenForContent && keepsEnough) return Math.min(inSlot, prompt.tokenCount - 1);
    const restore = bestSaved(prompt, inSlot);
    const restored = restore === undefined ? undefined : saved[restore];
    if (restore !== undefined) drop(restore);
    if (slot.held !== undefined && !(restored === undefined && keepsEnough)) save(slot.held);
    const common = restored === undefined ? inSlot : commonPrefix(prompt, restored);
    return Math.min(common, prompt.tokenCount - 1);
  }

  function occupy(slot: Slot, sequence: Sequence): void {
    slot.sequence = sequence;
    slot.held = undefined;
    slot.lastUsed = ++uses;
    sequence.slot = slot.id;
  }

  /** With one context for all slots: empties idle slots, oldest first, until `tokens` more fit. */
  function makeRoom(tokens: number): boolean {
    if (!settings.unified) return true;
    let used = slots.reduce((sum, slot) => sum + tokensIn(slot), 0);
    while (used + tokens > settings.slotTokens) {
      const victim = leastRecent(idle().filter((slot) => slot.held !== undefined));
      if (victim?.held === undefined) return false;
      used -= victim.held.length;
      victim.held = undefined;
    }
    return true;
  }
  return {
    peek(prompt) {
      const best = slots.reduce(
        (most, slot) => Math.max(most, slot.held === undefined ? 0 : commonPrefix(prompt, slot.held)),
        0,
      );
      const index = bestSaved(prompt, best);
      const held = index === undefined ? undefined : saved[index];
      return Math.max(0, Math.min(held === undefined ? best : commonPrefix(prompt, held), prompt.tokenCount - 1));
    },
    admit(sequences, stepTokens) {
      const candidates = idle();
      const [first, ...others] = sequences;
      if (first === undefined || candidates.length < sequences.length) return false;
      if (!makeRoom(Math.min(first.prompt.tokenCount, stepTokens))) return false;
      const similar = mostSimilar(first.prompt, candidates);
      const slot = similar ?? leastRecent(candidates);
      if (slot === undefined) return false;
      first.computedTokens = prepare(slot, first.prompt, similar !== undefined);
      occupy(slot, first);
      for (const other of others) {
        const place = leastRecent(idle());
        if (place === undefined) return false;
        if (place.held !== undefined) save(place.held);
        occupy(place, other);
        other.computedTokens = 0;
      }
      return true;
    },
    fits: (sequences) =>
      sequences.length <= slotCount && sequences.every((sequence) => sequence.prompt.tokenCount < settings.slotTokens),
    grow: (_sequence, tokens) => makeRoom(tokens),
    maxSequenceTokens: settings.slotTokens,
    offer() {},
    release(sequence) {
      const slot = slots.find((candidate) => candidate.sequence === sequence);
      if (slot === undefined) return;
      const { prompt, plan, computedTokens } = sequence;
      slot.sequence = undefined;
      slot.held = { prompt, length: computedTokens, ...(plan.output === undefined ? {} : { output: plan.output }) };
      slot.lastUsed = ++uses;
    },
    clear() {
      for (const slot of slots) slot.held = undefined;
      saved.length = 0;
      savedTokens = 0;
    },
    get usage() {
      const capacity = settings.unified ? settings.slotTokens : settings.slotTokens * slotCount;
      return Math.min(1, slots.reduce((sum, slot) => sum + (slot.sequence?.computedTokens ?? 0), 0) / capacity);
    },
    get heldTokens() {
      return slots.reduce((sum, slot) => sum + tokensIn(slot), savedTokens);
    },
    get slots(): SlotView[] {
      return slots.map((slot) => ({ id: slot.id, busy: slot.sequence !== undefined, tokens: tokensIn(slot) }));
    },
  };
}

function leastRecent(slots: readonly Slot[]): Slot | undefined {
  return slots.reduce<Slot | undefined>(
    (oldest, slot) => (oldest === undefined || slot.lastUsed < oldest.lastUsed ? slot : oldest),
    undefined,
  );
}
