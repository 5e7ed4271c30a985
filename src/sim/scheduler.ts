/**
 * What goes into the next engine step: running sequences first, then as many waiting ones as places, memory and the token budget
 * allow; sequences are dropped for a while when memory runs out. Follows vLLM's V1 scheduler and llama.cpp's slot loop, which differ
 * in their stores only. Changes sequences and stores, never time.
 */
import type { KvStore } from './kv-store.ts';
import { isDecoding, isLessUrgent, remainingTokens, type Sequence } from './sequence.ts';
import type { EngineSettings } from './settings.ts';
import type { StepLoad } from './step-time.ts';
import type { WaitingQueue } from './waiting-queue.ts';

export interface ScheduleDeps {
  readonly store: KvStore;
  readonly queue: WaitingQueue;
  /** In the order in which they were admitted. */
  readonly running: Sequence[];
  /** A request got its places. */
  admitted(group: readonly Sequence[]): void;
  /** A running sequence lost its place and waits again. */
  preempted(sequence: Sequence): void;
  /** Memory ran out for a sequence and nobody may be dropped. */
  outOfMemory(sequence: Sequence): void;
}

/** Fills `load` and each running sequence's `scheduledTokens`. @returns tokens of the step, 0 when there is nothing to do */
export function scheduleStep(settings: EngineSettings, deps: ScheduleDeps, load: StepLoad): number {
  load.decodeSequences = 0;
  load.contextTokens = 0;
  load.prefillTokens = 0;
  load.prefillPairs = 0;
  let budget = settings.stepTokens;
  const preempted = { any: false };
  for (const sequence of deps.running) sequence.scheduledTokens = 0;
  // The list may shrink while it is walked, always behind the place where the walk stands or at it.
  for (let index = 0; index < deps.running.length && budget > 0; index += 1) {
    const sequence = deps.running[index];
    if (sequence === undefined || (sequence.sharesPrefill && sequence.outputTokens === 0)) continue;
    const tokens = tokensNow(settings, sequence, budget);
    if (tokens === 0) continue;
    if (!makeRoom(settings, deps, { sequence, tokens, preempted })) {
      if (deps.running[index] !== sequence) index -= 1;
      continue;
    }
    if (deps.running[index] !== sequence) index = deps.running.indexOf(sequence);
    sequence.scheduledTokens = tokens;
    budget -= tokens;
  }
  if (!preempted.any) budget = admitWaiting(settings, deps, budget);
  let total = 0;
  for (const sequence of deps.running) {
    if (sequence.scheduledTokens === 0) continue;
    total += sequence.scheduledTokens;
    addLoad(load, sequence);
  }
  return total;
}

/** @returns the budget that is left */
function admitWaiting(settings: EngineSettings, deps: ScheduleDeps, budget: number): number {
  let left = budget;
  while (left > 0) {
    const group = deps.queue.first;
    const [first] = group ?? [];
    if (group === undefined || first === undefined || deps.running.length + group.length > settings.maxSequences)
      return left;
    // Without chunks a prompt needs the budget whole; alone in a step it may exceed it.
    const alone = left === settings.stepTokens;
    if (!settings.chunkedPrefill && !alone && first.knownTokens - deps.store.peek(first.prompt) > left) return left;
    if (!deps.store.admit(group, settings.chunkedPrefill ? left : first.knownTokens)) return left;
    deps.queue.shift();
    deps.running.push(...group);
    deps.admitted(group);
    first.scheduledTokens = settings.chunkedPrefill ? Math.min(left, remainingTokens(first)) : remainingTokens(first);
    left -= first.scheduledTokens;
  }
  return left;
}

function tokensNow(settings: EngineSettings, sequence: Sequence, budget: number): number {
  const remaining = remainingTokens(sequence);
  if (remaining <= budget) return remaining;
  if (settings.chunkedPrefill) return budget;
  return budget === settings.stepTokens ? remaining : 0;
}

interface RoomWanted {
  readonly sequence: Sequence;
  readonly tokens: number;
  readonly preempted: { any: boolean };
}

/** Drops less urgent sequences until this one can grow. @returns false when it was itself dropped or failed */
function makeRoom(settings: EngineSettings, deps: ScheduleDeps, wanted: RoomWanted): boolean {
  while (!deps.store.grow(wanted.sequence, wanted.tokens)) {
    if (settings.cache.kind === 'slots' || !settings.preemption) {
      deps.outOfMemory(wanted.sequence);
      return false;
    }
    const victim = leastUrgent(deps.running, settings.scheduling === 'priority');
    if (victim === undefined) return false;
    victim.scheduledTokens = 0;
    wanted.preempted.any = true;
    deps.running.splice(deps.running.indexOf(victim), 1);
    deps.store.release(victim);
    deps.preempted(victim);
    if (victim === wanted.sequence) return false;
  }
  return true;
}

function leastUrgent(running: readonly Sequence[], byPriority: boolean): Sequence | undefined {
  return running.reduce<Sequence | undefined>(
    (worst, sequence) => (worst === undefined || isLessUrgent(sequence, worst, byPriority) ? sequence : worst),
    undefined,
  );
}

function addLoad(load: StepLoad, sequence: Sequence): void {
  if (isDecoding(sequence)) {
    load.decodeSequences += 1;
    load.contextTokens += sequence.computedTokens;
    return;
  }
  const tokens = sequence.scheduledTokens;
  load.prefillTokens += tokens;
  load.prefillPairs += tokens * sequence.computedTokens + (tokens * (tokens - 1)) / 2;
}
