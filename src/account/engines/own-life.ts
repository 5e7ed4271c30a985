/**
 * A finished request in the engine's terms: when which of its tokens came, so that they can be laid beside what the
 * engine's counters said between two readings. Pure.
 */
import { type EndpointKind, generatingEndpoints } from '../../domain/names.ts';
import type { RequestRecord } from '../../domain/record.ts';

export interface OwnLife {
  readonly fromMs: number;
  readonly endMs: number;
  readonly firstTokenMs: number | undefined;
  /** As the answer reported them; the prompt is unknown, too, where the engine may count it once for each choice. */
  readonly promptTokens: number | undefined;
  readonly cachedTokens: number | undefined;
  readonly outputTokens: number | undefined;
  /** Sent to first visible token: what the engine's own TTFT can be held against. */
  readonly upstreamTtftMs: number | undefined;
  /** The engine may have made more tokens of it than are known here. */
  readonly blind: boolean;
  /** The engine counts its output at its end, not step by step (llama.cpp, SGLang). */
  readonly countedAtEnd: boolean;
  readonly stampsMs: Float64Array | undefined;
}

const generating: ReadonlySet<string> = new Set([...generatingEndpoints, 'audio' satisfies EndpointKind]);

/** Prompts are computed for these without an answer token. */
const readsPrompt: ReadonlySet<EndpointKind> = new Set<EndpointKind>(['embeddings', 'rerank']);

/** @returns undefined when the request never reached an engine, or gave it nothing to compute */
export function lifeOf(record: RequestRecord): OwnLife | undefined {
  const { timeline, tokens, endpoint } = record;
  const fromMs = timeline.sent;
  if (record.backend === undefined || fromMs === undefined) return undefined;
  const generates = generating.has(endpoint);
  // An unread route may be one that computes, and so may what runs in a tunnel.
  const computes =
    generates ||
    readsPrompt.has(endpoint) ||
    (endpoint === 'other' && (record.method === 'POST' || record.status === 101));
  if (!computes) return undefined;
  const refused = record.outcome === 'client_error' || record.outcome === 'rejected';
  const output = refused || (record.outcome === 'ok' && !generates && endpoint !== 'other') ? 0 : exactOutput(record);
  // vLLM counts a prompt once for each choice, the answer's usage once.
  const oneChoice = record.finishReasons.length < 2 && record.stamps?.choice === undefined;
  return {
    fromMs,
    endMs: Math.max(fromMs, timeline.end ?? timeline.lastToken ?? fromMs),
    firstTokenMs: timeline.firstToken,
    promptTokens: refused ? 0 : oneChoice ? tokens.prompt?.value : undefined,
    cachedTokens: tokens.cached?.value,
    outputTokens: output ?? tokens.output?.value,
    upstreamTtftMs: record.figures.upstreamTtftMs,
    blind: output === undefined,
    countedAtEnd: record.engine !== 'vllm',
    stampsMs: record.stamps?.atMs,
  };
}

function exactOutput({ outcome, tokens }: RequestRecord): number | undefined {
  return outcome === 'ok' && tokens.output?.source !== 'events_estimate' ? tokens.output?.value : undefined;
}

/** Output tokens that had come by a moment. */
export function outputUpTo(life: OwnLife, atMs: number): number {
  const output = life.outputTokens ?? 0;
  if (atMs >= life.endMs) return output;
  if (life.countedAtEnd || atMs < life.fromMs) return 0;
  const { stampsMs } = life;
  if (stampsMs !== undefined && stampsMs.length > 0) return (output * countUpTo(stampsMs, atMs)) / stampsMs.length;
  return (output * (atMs - life.fromMs)) / Math.max(1, life.endMs - life.fromMs);
}

/** Prompt tokens are counted when the prompt is done. */
export function promptDoneMs(life: OwnLife): number {
  return life.firstTokenMs ?? life.endMs;
}

/** Context that it holds in the engine at a moment: prompt and what was made so far. */
export function contextAt(life: OwnLife, atMs: number): number {
  if (atMs < life.fromMs || atMs > life.endMs) return 0;
  return (life.promptTokens ?? 0) + outputUpTo({ ...life, countedAtEnd: false }, atMs);
}

/** How many of the ascending moments are not later. */
function countUpTo(moments: Float64Array, atMs: number): number {
  let low = 0;
  let high = moments.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((moments[middle] ?? 0) <= atMs) low = middle + 1;
    else high = middle;
  }
  return low;
}
