/**
 * What `/slots` says of each slot: its last task, and how far it is.
 * Kept up to date by the dialect, read by the route.
 */
import type { SlotView } from '../kv-store.ts';
import { paramsJson, type EchoedParams } from './params.ts';
import type { ChoiceRun } from './timings.ts';

export interface SlotBook {
  /** A task has started in a slot. */
  begin(run: ChoiceRun, task: { readonly id: number; readonly params: EchoedParams }): void;
  json(slots: readonly SlotView[], contextTokens: number): string;
}

interface SlotTask {
  readonly id: number;
  readonly run: ChoiceRun;
  readonly params: EchoedParams;
}

export function createSlotBook(): SlotBook {
  const tasks = new Map<number, SlotTask>();
  return {
    begin(run, task) {
      tasks.set(run.slot, { ...task, run });
    },
    json(slots, contextTokens) {
      return `[${slots.map((slot) => slotJson(slot, tasks.get(slot.id), contextTokens)).join(',')}]`;
    },
  };
}

/** Before its first task a slot has the first four members only. */
function slotJson(slot: SlotView, task: SlotTask | undefined, contextTokens: number): string {
  const head = `{"id":${slot.id},"n_ctx":${contextTokens},"speculative":false,"is_processing":${slot.busy}`;
  if (task === undefined) return `${head}}`;
  const { run } = task;
  const tokens = slot.busy ? run.promptTokens + run.tokens : slot.tokens;
  const processed = slot.busy ? run.processedTokens - run.cachedTokens : 0;
  const { maxTokens } = task.params;
  const next = slot.busy
    ? `{"has_next_token":true,"has_new_line":false,"n_remain":${maxTokens < 0 ? -1 : maxTokens - run.tokens},"n_decoded":${run.tokens}}`
    : '{"has_next_token":false,"has_new_line":false,"n_remain":-1,"n_decoded":0}';
  const counts = `"n_prompt_tokens":${tokens},"n_prompt_tokens_processed":${processed},"n_prompt_tokens_cache":${slot.busy ? run.cachedTokens : 0}`;
  return `${head},"id_task":${task.id},${counts},"params":${paramsJson(task.params, 'short')},"next_token":[${next}]}`;
}
