/** One request as its log line: the record without its stamps. Never a prompt, an answer or a key. */
import type { RequestRecord } from '../domain/record.ts';
import type { Log, LogFields } from '../platform/log.ts';
import { reportFields } from './report-fields.ts';
import { tenth, thousandth } from './rounding.ts';

/** In two groups: an object of so many fields into which another is spread is dear to make. */
export function logRequest(log: Pick<Log, 'info'>, record: RequestRecord): void {
  log.info('request', logFields(record), reportFields(record));
}

/** Milliseconds are given to the microsecond, rates to a tenth. */
function logFields(record: RequestRecord): LogFields {
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
    tenant: record.tenant,
    attempts: record.attempts,
    reclaimed: record.reclaimed,
    stream: record.streamed,
    warmth: record.warmth,
    promptTokens: tokens.prompt?.value,
    cachedTokens: tokens.cached?.value,
    outputTokens: tokens.output?.value,
    reasoningTokens: tokens.reasoning?.value,
    tokensFrom: tokens.output?.source,
    finish: record.finishReasons.length > 0 ? record.finishReasons : undefined,
    ttftMs: thousandth(figures.ttftMs),
    upstreamTtftMs: thousandth(figures.upstreamTtftMs),
    firstEventMs: thousandth(figures.firstEventMs),
    ttfaMs: figures.ttfaMs === figures.ttftMs ? undefined : thousandth(figures.ttfaMs),
    tpotMs: thousandth(figures.tpotMs),
    tpotWindow: figures.tpotWindow,
    maxItlMs: thousandth(figures.maxItlMs),
    decodeTokensPerSecond: tenth(figures.decodeTokensPerSecond),
    overallTokensPerSecond: tenth(figures.overallTokensPerSecond),
    e2eMs: thousandth(figures.e2eMs),
    durationMs: thousandth(figures.durationMs),
    queueMs: thousandth(figures.queueMs),
    connectMs: thousandth(figures.connectMs),
    prefillMs: thousandth(figures.prefillMs),
    prefillKind: figures.prefillKind,
    engineQueueMs: thousandth(figures.engineQueueMs),
    stallMs: thousandth(stall?.durationMs),
    stalledBy: stall?.requestId,
    stalledByTokens: stall?.promptTokens,
    stalledMs: thousandth(stalledMs(record)),
    overheadMs: thousandth(figures.overheadMs),
    overheadPerEventMicros: tenth(figures.overheadPerEventMicros),
    requestBytes: record.requestBytes,
    responseBytes: record.responseBytes,
    events: record.events,
    marks: record.marks.length > 0 ? record.marks : undefined,
  };
}

/** By all its stalls together, where there was more than the one that the line names. */
function stalledMs({ stalls = [] }: RequestRecord): number | undefined {
  return stalls.length < 2 ? undefined : stalls.reduce((sum, { durationMs }) => sum + durationMs, 0);
}
