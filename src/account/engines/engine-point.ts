/** What lies between two readings of one engine: its own account, and warmlane's beside it. Values only. */
import { addDeltas, type CounterDeltas } from './counter-deltas.ts';

/** What warmlane's own requests on that backend did meanwhile; filled in as they end. */
export interface OwnShare {
  /** ended in it */
  requests: number;
  /** prompts that were done in it, and those whose length was reported */
  prompts: number;
  promptTokens: number;
  /** of requests that reported cached tokens: how many those were, and of how many prompt tokens */
  cachedTokens: number;
  cachedOfTokens: number;
  outputTokens: number;
  /** of first tokens in it: sent → first token */
  ttftMs: number;
  ttftCount: number;
  /** context of own requests at its end, in tokens */
  contextTokens: number;
  /** requests were under way whose tokens aren't known for certain: aborted, failed, unread or estimated */
  blind: number;
  /** prompts of unknown length were done */
  blindPrompts: number;
  /** tokens of requests that ran across its beginning and don't tell on which side of it their tokens came */
  crossingOutput: number;
  crossingPrompt: number;
}

export interface EnginePoint {
  readonly fromMs: number;
  readonly toMs: number;
  readonly deltas: CounterDeltas;
  readonly restarted: boolean;
  /** The engine's gauges at its end; of several merged points the highest. */
  readonly running: number | undefined;
  readonly waiting: number | undefined;
  readonly kvUsage: number | undefined;
  /** Engine places that own requests held then. */
  readonly ownRunning: number;
  readonly own: OwnShare;
}

export function emptyShare(): OwnShare {
  return {
    requests: 0,
    prompts: 0,
    promptTokens: 0,
    cachedTokens: 0,
    cachedOfTokens: 0,
    outputTokens: 0,
    ttftMs: 0,
    ttftCount: 0,
    contextTokens: 0,
    blind: 0,
    blindPrompts: 0,
    crossingOutput: 0,
    crossingPrompt: 0,
  };
}

/** Two that follow one another, as one. */
export function mergePoints(a: EnginePoint, b: EnginePoint): EnginePoint {
  return {
    fromMs: a.fromMs,
    toMs: b.toMs,
    deltas: addDeltas(a.deltas, b.deltas),
    restarted: a.restarted || b.restarted,
    running: highest(a.running, b.running),
    waiting: highest(a.waiting, b.waiting),
    kvUsage: highest(a.kvUsage, b.kvUsage),
    ownRunning: Math.max(a.ownRunning, b.ownRunning),
    own: {
      requests: a.own.requests + b.own.requests,
      prompts: a.own.prompts + b.own.prompts,
      promptTokens: a.own.promptTokens + b.own.promptTokens,
      cachedTokens: a.own.cachedTokens + b.own.cachedTokens,
      cachedOfTokens: a.own.cachedOfTokens + b.own.cachedOfTokens,
      outputTokens: a.own.outputTokens + b.own.outputTokens,
      ttftMs: a.own.ttftMs + b.own.ttftMs,
      ttftCount: a.own.ttftCount + b.own.ttftCount,
      contextTokens: Math.max(a.own.contextTokens, b.own.contextTokens),
      blind: a.own.blind + b.own.blind,
      blindPrompts: a.own.blindPrompts + b.own.blindPrompts,
      crossingOutput: a.own.crossingOutput,
      crossingPrompt: a.own.crossingPrompt,
    },
  };
}

function highest(a: number | undefined, b: number | undefined): number | undefined {
  return a === undefined || b === undefined ? (a ?? b) : Math.max(a, b);
}
