/**
 * A model server's engine without the model: queue, prefill, batched decode, KV cache, in discrete steps on a given clock.
 * It knows tokens as numbers and time as `step-time.ts` says; text, wire formats and sockets are elsewhere. The same requests at the same
 * moments give the same events, on a virtual clock and on the real one.
 */
import type { Clock } from '../platform/clock.ts';
import { createBlockStore } from './block-store.ts';
import { emptyCounters, type EngineCounters } from './engine-counters.ts';
import type { KvStore, SlotView } from './kv-store.ts';
import type { SimPrompt } from './prompt.ts';
import { scheduleStep } from './scheduler.ts';
import { createSeededRandom } from './seeded-random.ts';
import {
  endOf,
  makeGroups,
  remainingTokens,
  type EndReason,
  type EngineRequest,
  type EngineSink,
  type Sequence,
} from './sequence.ts';
import type { EngineSettings } from './settings.ts';
import { createSlotStore } from './slot-store.ts';
import { createStepLoop } from './step-loop.ts';
import { stepMs, type StepLoad } from './step-time.ts';
import { createWaitingQueue } from './waiting-queue.ts';

export interface EngineHandle {
  /** The client is gone. A waiting request leaves at once, a running one at the border that the settings name. */
  abort(): void;
}

export interface EngineView {
  readonly running: number;
  readonly waiting: number;
  /** 0 to 1. */
  readonly kvUsage: number;
  readonly heldTokens: number;
  readonly slots: readonly SlotView[];
  /** When it last gave a result (token, end, progress where that was asked for) to anybody; 0: never. */
  readonly lastResultMs: number;
  readonly counters: EngineCounters;
}

export interface Engine {
  readonly settings: EngineSettings;
  /** Takes a request; `sink.ended` may be called before this returns, when its prompt can never fit. */
  submit(request: EngineRequest, sink: EngineSink): EngineHandle;
  view(): EngineView;
  /** Prompt tokens that a request would find in the cache now. */
  peek(prompt: SimPrompt): number;
  /** Forgets all cached content that is not in use. */
  clearCache(): void;
  /** The engine dies: every request ends as `failed` with this message. It takes new ones afterwards. */
  fail(message: string): void;
  /** Stands still for good, telling nobody: no more steps, no ends. */
  freeze(): void;
}

export interface EngineDeps {
  readonly clock: Clock;
  /** Told of each finished step: tokens in it, and when it ended. */
  readonly onStep?: (tokens: number, atMs: number) => void;
}

export function createEngine(settings: EngineSettings, deps: EngineDeps): Engine {
  const { clock } = deps;
  const store: KvStore =
    settings.cache.kind === 'blocks'
      ? createBlockStore(settings.cache, !settings.preemption)
      : createSlotStore(settings.cache, settings.maxSequences);
  const sharesPrefill = settings.cache.kind === 'slots';
  const random = createSeededRandom(settings.seed);
  const queue = createWaitingQueue(settings.scheduling === 'priority');
  const running: Sequence[] = [];
  const counters = emptyCounters();
  const load: StepLoad = { decodeSequences: 0, contextTokens: 0, prefillTokens: 0, prefillPairs: 0 };
  let orders = 0;
  /** Ranks of preempted sequences: before all that never ran, the last dropped first. */
  let frontRank = -1;
  let stepStartMs = 0;
  let stepTokens = 0;
  let lastResultMs = 0;

  function end(sequence: Sequence, reason: EndReason, more: { readonly atMs: number; readonly error?: string }): void {
    if (sequence.state === 'ended') return;
    if (sequence.state === 'running') {
      const index = running.indexOf(sequence);
      if (index >= 0) running.splice(index, 1);
      store.release(sequence);
    }
    sequence.state = 'ended';
    counters.ended[reason] += 1;
    lastResultMs = more.atMs;
    sequence.sink.ended(endOf(sequence, reason, more));
  }

  const scheduleDeps = {
    store,
    queue,
    running,
    admitted(group: readonly Sequence[]) {
      for (const sequence of group) {
        sequence.state = 'running';
        const first = sequence.startedMs === undefined;
        sequence.startedMs ??= stepStartMs;
        if (!first) continue;
        // A child of a shared prefill has what the group's first has.
        sequence.cachedTokens = group[0]?.computedTokens ?? 0;
        counters.prefixQueries += sequence.prompt.tokenCount;
        counters.prefixHits += sequence.cachedTokens;
        const slot = sequence.slot === undefined ? {} : { slot: sequence.slot };
        sequence.sink.started?.(sequence.choice, { atMs: stepStartMs, cachedTokens: sequence.cachedTokens, ...slot });
      }
    },
    preempted(sequence: Sequence) {
      sequence.state = 'waiting';
      sequence.computedTokens = 0;
      sequence.preemptions += 1;
      sequence.queueRank = frontRank--;
      counters.preemptions += 1;
      queue.add(sequence.group);
    },
    /** llama.cpp's shared context is full: the whole batch fails to decode. */
    outOfMemory() {
      for (const sequence of [...running])
        end(sequence, 'failed', { atMs: stepStartMs, error: 'Context size has been exceeded.' });
    },
  };

  function beginStep(startMs: number): number | undefined {
    stepStartMs = startMs;
    stepTokens = scheduleStep(settings, scheduleDeps, load);
    return stepTokens === 0 ? undefined : stepMs(load, settings.stepTime, random());
  }

  function finishStep(atMs: number): void {
    counters.steps += 1;
    counters.stepSequences += running.length;
    deps.onStep?.(stepTokens, atMs);
    for (const sequence of [...running]) {
      if (sequence.state !== 'running') continue;
      // What the step computed for a client that left meanwhile was computed all the same.
      if (sequence.scheduledTokens > 0) advance(sequence, atMs);
      if (sequence.abortRequested) end(sequence, 'aborted', { atMs });
    }
  }

  /** A sequence's share of a finished step: its tokens are computed, and with the last of them comes a new one. */
  function advance(sequence: Sequence, atMs: number): void {
    const wasPrefill = sequence.outputTokens === 0;
    if (wasPrefill || sequence.scheduledTokens > 1) counters.computedTokens += sequence.scheduledTokens;
    sequence.computedTokens += sequence.scheduledTokens;
    sequence.scheduledTokens = 0;
    counters.longestSequence = Math.max(counters.longestSequence, sequence.computedTokens);
    store.offer(sequence);
    // A step of a prompt is a result only for a client that wants to hear of it.
    if (wasPrefill && sequence.sink.progress?.(sequence.choice, sequence.computedTokens, atMs) === true)
      lastResultMs = atMs;
    if (remainingTokens(sequence) > 0) return;
    if (wasPrefill && sharesPrefill && !sequence.sharesPrefill) shareWithGroup(sequence, atMs);
    produce(sequence, atMs);
  }

  /** The children of a shared prefill get its context, and their first token with it. */
  function shareWithGroup(first: Sequence, atMs: number): void {
    for (const child of first.group) {
      if (child === first || child.state !== 'running') continue;
      child.computedTokens = child.prompt.tokenCount;
      produce(child, atMs);
    }
  }

  function produce(sequence: Sequence, atMs: number): void {
    if (sequence.outputTokens === 0) {
      sequence.firstTokenMs = atMs;
      if (!sequence.sharesPrefill) {
        counters.promptTokens += sequence.prompt.tokenCount;
        counters.cachedTokens += sequence.cachedTokens;
      }
    }
    sequence.lastTokenMs = atMs;
    sequence.knownTokens += 1;
    sequence.outputTokens += 1;
    counters.generatedTokens += 1;
    lastResultMs = atMs;
    sequence.sink.token?.(sequence.choice, sequence.outputTokens - 1, atMs);
    // The sink may have aborted it.
    if (sequence.state !== 'running') return;
    if (sequence.outputTokens >= sequence.plan.outputTokens) end(sequence, sequence.plan.endsBy, { atMs });
    else if (sequence.knownTokens >= store.maxSequenceTokens) end(sequence, 'length', { atMs });
  }

  function abort(group: readonly Sequence[]): void {
    const atMs = clock.nowMs();
    for (const sequence of group) {
      if (sequence.state === 'waiting') {
        queue.remove(group);
        end(sequence, 'aborted', { atMs });
      } else if (sequence.state === 'running') {
        if (settings.abortBorder === 'at_once') end(sequence, 'aborted', { atMs });
        else sequence.abortRequested = true;
      }
    }
  }

  const loop = createStepLoop({ clock, begin: beginStep, finish: finishStep });
  return {
    settings,
    submit(request, sink) {
      counters.submitted += 1;
      const groups = makeGroups(request, sink, { sharesPrefill, nextOrder: () => orders++, arrivedMs: clock.nowMs() });
      // An empty prompt gives an engine nothing to compute a first token from.
      const fits = request.prompt.tokenCount > 0;
      for (const group of groups) {
        if (fits && store.fits(group)) queue.add(group);
        else
          for (const sequence of group)
            end(sequence, 'failed', { atMs: clock.nowMs(), error: 'The prompt does not fit.' });
      }
      loop.wake();
      return { abort: () => groups.forEach(abort) };
    },
    view: () => ({
      running: running.length,
      waiting: queue.size,
      kvUsage: store.usage,
      heldTokens: store.heldTokens,
      slots: store.slots,
      lastResultMs,
      counters: { ...counters, ended: { ...counters.ended } },
    }),
    peek: (prompt) => store.peek(prompt),
    clearCache: () => store.clear(),
    fail(message) {
      loop.cancel();
      const atMs = clock.nowMs();
      const waiting = queue.groups.flat();
      for (const group of [...queue.groups]) queue.remove(group);
      for (const sequence of [...running, ...waiting]) end(sequence, 'failed', { atMs, error: message });
    },
    freeze: () => loop.freeze(),
  };
}
