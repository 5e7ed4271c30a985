/**
 * Where prompts begin to differ from what was seen before: places with their counts, what is lost behind each, and a few
 * request ids to look at. Pure state, bounded: of a full table the place that was seen once and longest ago goes first, so
 * that conversations, each of which differs somewhere else, don't push out the place where all prompts differ.
 */
import type { PromptPlace } from '../../domain/prefix.ts';
import type { RequestRecord } from '../../domain/record.ts';

export interface DivergenceRow {
  readonly model: string;
  readonly place: PromptPlace;
  requests: number;
  promptTokens: number;
  /** of them, those that no backend held: computed anew whatever routing does */
  lostTokens: number;
  /** prompts that differ near their start, go on with known text, and lose most of themselves by it; newest last, a few */
  early: readonly EarlyDivergence[];
  /** ids of the last few requests, newest last */
  examples: readonly string[];
  firstMs: number;
  lastMs: number;
}

export interface EarlyDivergence {
  readonly atMs: number;
  readonly promptTokens: number;
  readonly lostTokens: number;
}

export interface DivergenceTable {
  add(record: RequestRecord, model: string, nowMs: number): void;
  rows(): readonly DivergenceRow[];
  /** Places that had to go for want of room. */
  readonly dropped: number;
}

/** Shorter prompts lose little by it. */
const leastPromptTokens = 1000;
/** Within the first part of its prompt, and losing most of it. */
const earlyShare = 0.2;
const leastLostShare = 0.5;
const maxEarly = 32;
const maxExamples = 3;

export function createDivergenceTable(settings: { readonly maxRows: number }): DivergenceTable {
  const rows = new Map<string, DivergenceRow>();
  let dropped = 0;

  function makeRoom(): void {
    let victim: string | undefined;
    let worth = Infinity;
    for (const [key, { requests, lastMs }] of rows) {
      // Those seen again stay while there are others.
      const its = lastMs + (requests > 1 ? againMs : 0);
      if (its >= worth) continue;
      worth = its;
      victim = key;
    }
    if (victim === undefined) return;
    rows.delete(victim);
    dropped += 1;
  }

  function rowAt(model: string, place: PromptPlace, nowMs: number): DivergenceRow {
    const key = `${place.part} ${place.startBytes} ${place.endBytes} ${model}`;
    const found = rows.get(key);
    if (found !== undefined) return found;
    if (rows.size >= settings.maxRows) makeRoom();
    const made: DivergenceRow = {
      model,
      place,
      requests: 0,
      promptTokens: 0,
      lostTokens: 0,
      early: [],
      examples: [],
      firstMs: nowMs,
      lastMs: nowMs,
    };
    rows.set(key, made);
    return made;
  }

  return {
    add({ requestId, routing, tokens, assessment }, model, nowMs) {
      const unstableAt = assessment?.unstableAt;
      const place = unstableAt ?? routing?.divergence;
      if (routing === undefined || place === undefined) return;
      const promptTokens = tokens.prompt?.value ?? routing.promptTokens;
      const heldTokens = Math.min(routing.reusableTokens, promptTokens);
      const lostTokens = promptTokens - heldTokens;
      const row = rowAt(model, place, nowMs);
      row.requests += 1;
      row.promptTokens += promptTokens;
      row.lostTokens += lostTokens;
      row.lastMs = nowMs;
      row.examples = [...row.examples.slice(1 - maxExamples), requestId];
      const isEarly = heldTokens <= earlyShare * promptTokens && lostTokens >= leastLostShare * promptTokens;
      if (unstableAt !== undefined && isEarly && promptTokens >= leastPromptTokens)
        row.early = [...row.early.slice(1 - maxEarly), { atMs: nowMs, promptTokens, lostTokens }];
    },
    rows: () => [...rows.values()],
    get dropped() {
      return dropped;
    },
  };
}

/** What a place's second visit is worth: as if it had been seen an hour later. */
const againMs = 3_600_000;
