/**
 * One sequence in the engine: a prompt and one answer to it. Plain mutable state shared by the engine, its queue and its KV store;
 * no decisions here.
 */
import type { ChainHash, OutputIds, SimPrompt } from './prompt.ts';

/** One answer asked of a prompt. */
export interface ChoicePlan {
  /** Tokens that it will have, an end token included; at least 1. */
  readonly outputTokens: number;
  /** Why it ends there. */
  readonly endsBy: 'stop' | 'length';
  /** Its token ids; without them what it adds to the context is never found again. */
  readonly output?: OutputIds;
}

export interface EngineRequest {
  readonly prompt: SimPrompt;
  /** One answer each. vLLM computes the prompt for each (the later ones hit the cache), llama.cpp once for all. */
  readonly choices: readonly ChoicePlan[];
  /** Lower is sooner; counts with `scheduling: 'priority'` only. */
  readonly priority?: number;
}

export type EndReason = 'stop' | 'length' | 'aborted' | 'failed';

/** How one sequence ended. Times are monotonic ms of the engine's clock; absent: never happened. */
export interface SequenceEnd {
  readonly choice: number;
  readonly reason: EndReason;
  /** For `failed`. */
  readonly error?: string;
  readonly promptTokens: number;
  /** Prompt tokens found in the cache when it first started. */
  readonly cachedTokens: number;
  /** Prompt tokens computed by its end (all of the uncached, unless it ended early). */
  readonly computedTokens: number;
  readonly outputTokens: number;
  readonly preemptions: number;
  readonly arrivedMs: number;
  readonly startedMs?: number;
  readonly firstTokenMs?: number;
  readonly lastTokenMs?: number;
  readonly endMs: number;
}

/** Told what happens to a request, in the order in which it happens. All but `ended` are optional. */
export interface EngineSink {
  /** It left the queue: a place is taken, the prefill begins. Not called again after a preemption. */
  started?(
    choice: number,
    start: { readonly atMs: number; readonly cachedTokens: number; readonly slot?: number },
  ): void;
  /** A part of the prompt is done; `processed` counts the cached tokens too. */
  progress?(choice: number, processed: number, atMs: number): boolean;
  token?(choice: number, index: number, atMs: number): void;
  ended(end: SequenceEnd): void;
}

export interface Sequence {
  readonly order: number;
  readonly choice: number;
  readonly prompt: SimPrompt;
  readonly plan: ChoicePlan;
  readonly priority: number;
  readonly arrivedMs: number;
  readonly sink: EngineSink;
  /** The sequences of one request; the first computes the prompt for those that share it. */
  readonly group: readonly Sequence[];
  /** Waits for the group's first to compute the prompt (llama.cpp's children). */
  readonly sharesPrefill: boolean;
  state: 'waiting' | 'running' | 'ended';
  /** Place in the queue: smaller is sooner, within a priority. */
  queueRank: number;
  /** Prompt tokens plus tokens made. */
  knownTokens: number;
  /** Tokens whose KV is there. */
  computedTokens: number;
  /** Tokens of it in the step under way. */
  scheduledTokens: number;
  cachedTokens: number;
  outputTokens: number;
  preemptions: number;
  abortRequested: boolean;
  startedMs: number | undefined;
  firstTokenMs: number | undefined;
  lastTokenMs: number | undefined;
  /** Block cache: the blocks it holds, in order, and how many of them were offered for reuse. */
  readonly blocks: number[];
  offeredBlocks: number;
  /** The running hash over its first `chainedTokens` tokens, once the answer's own blocks are hashed. */
  chain: ChainHash | undefined;
  chainedTokens: number;
  /** Slot cache: its slot. */
  slot: number | undefined;
}

/** Tokens of it still to be computed. */
export function remainingTokens(sequence: Sequence): number {
  return sequence.knownTokens - sequence.computedTokens;
}

/** True once its prompt is done and each step yields a token. */
export function isDecoding(sequence: Sequence): boolean {
  return sequence.outputTokens > 0 && remainingTokens(sequence) === 1;
}

/** Less important, or later: the one to give way. */
export function isLessUrgent(left: Sequence, right: Sequence, byPriority: boolean): boolean {
  if (byPriority && left.priority !== right.priority) return left.priority > right.priority;
  return left.order > right.order;
}

export interface GroupFacts {
  readonly sharesPrefill: boolean;
  readonly arrivedMs: number;
  nextOrder(): number;
}

/** The request's sequences, in groups that must start together: all in one for llama.cpp, each alone for vLLM. */
export function makeGroups(request: EngineRequest, sink: EngineSink, facts: GroupFacts): (readonly Sequence[])[] {
  const together: Sequence[] = [];
  const groups: (readonly Sequence[])[] = [];
  request.choices.forEach((plan, choice) => {
    const order = facts.nextOrder();
    const group: Sequence[] = facts.sharesPrefill ? together : [];
    group.push({
      order,
      choice,
      prompt: request.prompt,
      plan,
      priority: request.priority ?? 0,
      arrivedMs: facts.arrivedMs,
      sink,
      group,
      sharesPrefill: facts.sharesPrefill && choice > 0,
      state: 'waiting',
      queueRank: order,
      knownTokens: request.prompt.tokenCount,
      computedTokens: 0,
      scheduledTokens: 0,
      cachedTokens: 0,
      outputTokens: 0,
      preemptions: 0,
      abortRequested: false,
      startedMs: undefined,
      firstTokenMs: undefined,
      lastTokenMs: undefined,
      blocks: [],
      offeredBlocks: 0,
      chain: undefined,
      chainedTokens: 0,
      slot: undefined,
    });
    if (!facts.sharesPrefill) groups.push(group);
  });
  return facts.sharesPrefill ? [together] : groups;
}

export function endOf(
  sequence: Sequence,
  reason: EndReason,
  more: { readonly atMs: number; readonly error?: string },
): SequenceEnd {
  const { choice, cachedTokens, outputTokens, preemptions, arrivedMs, startedMs, firstTokenMs, lastTokenMs } = sequence;
  const promptTokens = sequence.prompt.tokenCount;
  return {
    choice,
    reason,
    ...(more.error === undefined ? {} : { error: more.error }),
    promptTokens,
    cachedTokens,
    computedTokens: Math.max(0, Math.min(promptTokens, sequence.computedTokens) - cachedTokens),
    outputTokens,
    preemptions,
    arrivedMs,
    ...(startedMs === undefined ? {} : { startedMs }),
    ...(firstTokenMs === undefined ? {} : { firstTokenMs }),
    ...(lastTokenMs === undefined ? {} : { lastTokenMs }),
    endMs: more.atMs,
  };
}
