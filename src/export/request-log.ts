/** One request as the fields of a log line: the record without its stamps. Never a prompt, an answer or a key. */
import type { RequestRecord } from '../domain/record.ts';
import type { LogFields } from '../platform/log.ts';
import { reportFields } from './report-fields.ts';

/** Milliseconds are given to the microsecond, rates to a tenth. */
export function logFields(record: RequestRecord): LogFields {
  const { figures, tokens } = record;
  // R20, R21: what the stream lost most time to.
  const stall = record.stalls?.[0];
  return {
    requestId: record.requestId,
    outcome: record.outcome,
    reason: record.reason,
    phase: record.outcome === 'ok' ? undefined : record.phase,
    status: record.status,
    method: record.method,
    path: record.path,
    endpoint: record.endpoint,
    model: record.model ?? record.responseModel,
    backend: record.backend,
    engine: record.engine,
    lane: record.lane,
    attempts: record.attempts,
    stream: record.streamed,
    warmth: record.warmth,
    promptTokens: tokens.prompt?.value,
    cachedTokens: tokens.cached?.value,
    outputTokens: tokens.output?.value,
    reasoningTokens: tokens.reasoning?.value,
    tokensFrom: tokens.output?.source,
    finish: record.finishReasons.length > 0 ? record.finishReasons : undefined,
    ttftMs: millis(figures.ttftMs),
    upstreamTtftMs: millis(figures.upstreamTtftMs),
    firstEventMs: millis(figures.firstEventMs),
    ttfaMs: figures.ttfaMs === figures.ttftMs ? undefined : millis(figures.ttfaMs),
    tpotMs: millis(figures.tpotMs),
    tpotWindow: figures.tpotWindow,
    maxItlMs: millis(figures.maxItlMs),
    decodeTokensPerSecond: tenth(figures.decodeTokensPerSecond),
    overallTokensPerSecond: tenth(figures.overallTokensPerSecond),
    e2eMs: millis(figures.e2eMs),
    durationMs: millis(figures.durationMs),
    queueMs: millis(figures.queueMs),
    connectMs: millis(figures.connectMs),
    prefillMs: millis(figures.prefillMs),
    prefillKind: figures.prefillKind,
    engineQueueMs: millis(figures.engineQueueMs),
    stallMs: millis(stall?.durationMs),
    stalledBy: stall?.requestId,
    stalledByTokens: stall?.promptTokens,
    overheadMs: millis(figures.overheadMs),
    overheadPerEventMicros: tenth(figures.overheadPerEventMicros),
    requestBytes: record.requestBytes,
    responseBytes: record.responseBytes,
    events: record.events,
    marks: record.marks.length > 0 ? record.marks : undefined,
    ...reportFields(record),
  };
}

function millis(value: number | undefined): number | undefined {
  return value === undefined ? undefined : Math.round(value * 1000) / 1000;
}

function tenth(value: number | undefined): number | undefined {
  return value === undefined ? undefined : Math.round(value * 10) / 10;
}
