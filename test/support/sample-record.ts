/** A finished request for tests, with what a test doesn't care about filled in. */
import type { RequestRecord } from '../../src/domain/record.ts';

export function sampleRecord(over: Partial<RequestRecord> = {}): RequestRecord {
  return {
    requestId: 'r1',
    startedAtEpochMs: 1_700_000_000_000,
    endpoint: 'chat',
    method: 'POST',
    path: '/v1/chat/completions',
    lane: 'online',
    outcome: 'ok',
    spokenBy: 'backend',
    attempts: 1,
    streamed: true,
    format: 'chat',
    requestBytes: 10,
    responseBytes: 20,
    events: 2,
    tokens: {},
    finishReasons: [],
    warmth: 'unknown',
    timeline: { received: 1 },
    figures: { tpotWindow: 'none_unknown_count', durationMs: 1 },
    marks: [],
    ...over,
  };
}
