/**
 * How llama-server chooses a slot for a prompt, and whether it takes a saved sequence instead of what the slot has. Pure.
 * Source: the server's README (`--slot-prompt-similarity`, `--cache-ram`, `--cache-idle-slots`) and its log at `-v`, b10434.
 */
import type { PromptView } from './prompt-view.ts';
import type { SavedSequences } from './saved-sequences.ts';
import { commonChunks, commonTokens, tokensOf, type Sequence } from './slot-sequence.ts';

export interface SlotWays {
  /** what a slot would lose is saved in RAM */
  readonly saves: boolean;
  /** and so is what idle slots have, whenever a prompt starts */
  readonly savesIdle: boolean;
  /** which leaves them empty (one context for all slots) */
  readonly clearsIdle: boolean;
}

export interface Slot {
  sequence: Sequence | undefined;
  busy: boolean;
  /** by number; 0: never */
  releasedAt: number;
}

/** What the server would do with a prompt. */
export interface Choice {
  readonly slot: Slot;
  /** what is reused, and how much of it */
  readonly reused: Sequence | undefined;
  readonly chunks: number;
  readonly tokens: number;
  readonly fromSaved: boolean;
  /** what the slot has goes to RAM first */
  readonly savesSlot: boolean;
  /** another idle slot that has as much of the prompt: which of them it takes goes by their order */
  readonly twin: Slot | undefined;
}

export interface SlotState {
  /** in the server's order */
  readonly slots: readonly Slot[];
  readonly saved: SavedSequences;
  readonly ways: SlotWays;
}

/** A slot is chosen for its content when more than this share of the prompt is in it (the server's default). */
const leastSimilarity = 0.1;
/** What would keep less than this share of a slot's content has it saved, and RAM looked through. */
export const keepsEnough = 0.5;
/** Of a saved sequence at least this share must be wanted. */
export const restoresFrom = 0.25;

/** @param only as if no other slot were free. @returns undefined while all slots are busy */
export function chooseSlot(view: PromptView, state: SlotState, only?: Slot): Choice | undefined {
  const { keys } = view.chain;
  let slot: Slot | undefined;
  let twin: Slot | undefined;
  let chunks = 0;
  let tokens = 0;
  let oldest: Slot | undefined;
  for (const candidate of state.slots) {
    if (only === undefined ? candidate.busy : candidate !== only) continue;
    // Of those never used the server takes the last.
    if (oldest === undefined || candidate.releasedAt <= oldest.releasedAt) oldest = candidate;
    const { sequence } = candidate;
    if (sequence === undefined) continue;
    const common = commonChunks(sequence, keys);
    if (common < chunks) continue;
    const commonly = commonTokens(sequence, view, common);
    if (commonly < tokens || commonly <= leastSimilarity * view.promptTokens) continue;
    if (slot !== undefined && commonly === tokens) {
      twin ??= candidate;
      continue;
    }
    slot = candidate;
    twin = undefined;
    chunks = common;
    tokens = commonly;
  }
  const similar = slot !== undefined;
  slot ??= oldest;
  if (slot === undefined) return undefined;
  const { sequence } = slot;
  if (!similar && sequence !== undefined) {
    chunks = commonChunks(sequence, keys);
    tokens = commonTokens(sequence, view, chunks);
  }
  const keeps = sequence === undefined ? -1 : tokens / Math.max(1, tokensOf(sequence));
  const stays = !state.ways.saves || (similar && keeps >= keepsEnough);
  const own: Choice = { slot, reused: sequence, chunks, tokens, fromSaved: false, savesSlot: !stays, twin };
  return stays ? own : chooseSaved(view, own, { saved: state.saved, keeps });
}

/** The saved sequence of which a larger share is wanted, and which would serve better, than the slot's own. */
function chooseSaved(view: PromptView, own: Choice, slot: { saved: SavedSequences; keeps: number }): Choice {
  const { keys } = view.chain;
  const { list, heads, heldFrom } = slot.saved;
  let { reused, chunks, tokens } = own;
  let { keeps } = slot;
  for (let index = heldFrom; index < list.length; index += 1) {
    if (heads[index] !== keys[0]) continue;
    const sequence = list[index];
    // Keys are chained: one look tells whether it has as much in common as the best so far.
    if (sequence === undefined || sequence.chunks < chunks) continue;
    if (chunks > 0 && sequence.keys[chunks - 1] !== keys[chunks - 1]) continue;
    const common = commonChunks(sequence, keys, chunks);
    // It parts where the best so far does, or did not yet.
    if (common === chunks && common < sequence.chunks) continue;
    const commonly = commonTokens(sequence, view, common);
    const share = commonly / Math.max(1, tokensOf(sequence));
    if (share < restoresFrom || share <= keeps || commonly <= tokens) continue;
    reused = sequence;
    chunks = common;
    tokens = commonly;
    keeps = share;
  }
  if (reused === own.reused) return own;
  return { slot: own.slot, reused, chunks, tokens, fromSaved: true, savesSlot: true, twin: own.twin };
}
