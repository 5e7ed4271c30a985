/** `deploy/tracing.md` names every attribute with the spans that carry it, and none besides. */
import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';

import type { RequestRecord } from '../../../src/domain/record.ts';
import { exported } from '../../support/encoded-spans.ts';
import type { DecodedSpan } from '../../support/otlp-receiver.ts';
import { sampleNote } from '../../support/sample-routing.ts';
import { sampleRecord } from '../../support/sample-record.ts';

const page = readFileSync(new URL('../../../deploy/tracing.md', import.meta.url), 'utf8');
const rows = page
  .slice(page.indexOf('\n## Attributes\n'))
  .split('\n')
  .filter((line) => line.startsWith('| `'))
  .map((line) => line.split('|').slice(1, 3));

/** `attribute @ span`, as the table has it. */
const documented = new Set(
  rows.flatMap(([names = '', spans = '']) =>
    [...names.matchAll(/`([^`]+)`/g)].flatMap(([, name]) => spans.split(',').map((span) => `${name} @ ${span.trim()}`)),
  ),
);

const count = (value: number) => ({ value, source: 'usage' as const });
const ids = { traceId: '0af7651916cd43dd8448eb211c80319c', spanId: 'b7ad6b7169203331', sampled: true };
const tokens = 20_000;
const failed = {
  backend: 'b',
  engine: 'vllm' as const,
  spanId: 'aaaaaaaaaaaaaaa1',
  routeReason: 'r',
  startMs: 11,
  connectedMs: 12,
  sentMs: 13,
  headMs: 14,
  endMs: 15,
  status: 503,
  reason: 'status_503',
};

/** Everything that a record can say at once, likely or not. */
const everything: RequestRecord = sampleRecord({
  method: 'BREW',
  model: 'm',
  responseModel: 'm1',
  responseId: 'chatcmpl-1',
  maxOutputTokens: 100,
  choices: 2,
  host: 'llm.internal:8080',
  tenant: 'team-a',
  backend: 'b',
  engine: 'vllm',
  outcome: 'upstream_error',
  reason: 'reset',
  phase: 'streaming',
  status: 502,
  events: tokens + 5,
  tokens: { prompt: count(10), output: count(tokens), reasoning: count(1), cached: count(5) },
  finishReasons: ['stop'],
  timeline: {
    received: 1,
    receivedLast: 2,
    queued: 3,
    admitted: 10,
    sent: 16,
    head: 17,
    role: 18,
    firstToken: 20,
    lastToken: 100_000,
  },
  figures: {
    ttftMs: 1,
    upstreamTtftMs: 1,
    firstEventMs: 1,
    ttfaMs: 1,
    tpotMs: 1,
    tpotWindow: 'visible',
    decodeTokensPerSecond: 1,
    e2eMs: 1,
    durationMs: 100_000,
    queueMs: 1,
    connectMs: 1,
    prefillMs: 1,
    prefillKind: 'split',
    engineQueueMs: 1,
    overheadMs: 1,
    overheadPerEventMicros: 1,
    maxItlMs: 1,
  },
  stamps: {
    atMs: Float64Array.from({ length: tokens }, (_, index) => 20 + index),
    tokens: new Uint16Array(tokens).fill(2),
    choice: new Uint16Array(tokens).fill(1),
    coalesced: new Uint8Array(tokens).fill(1),
  },
  stalls: [{ atMs: 30, durationMs: 5, requestId: 'x', promptTokens: 7 }],
  marks: ['coalesced'],
  routeReason: 'r',
  routing: sampleNote(),
  trace: ids,
  attemptLog: [failed, { ...failed, spanId: 'aaaaaaaaaaaaaaa2', startMs: 15, endMs: 100_001 }],
  assessment: {
    slo: {
      profile: 'p',
      met: false,
      benefitTokens: 1,
      breaches: [{ bound: 'ttft', limitMs: 1, valueMs: 2, phase: 'prefill' }],
    },
    useless: ['cut_by_length'],
    retry: true,
    decodeConcurrency: 2,
    missed: [{ cause: 'diverged', tokens: 5 }],
  },
});

/** Nobody had a place for it: the one case in which the queue itself has an error. */
const refused: RequestRecord = sampleRecord({
  outcome: 'rejected',
  reason: 'queue_timeout',
  status: 503,
  timeline: { received: 1, queued: 2 },
  trace: ids,
  attemptLog: [],
});

function carrier({ name, kind }: DecodedSpan): string {
  return kind === 2 ? 'SERVER' : kind === 3 ? 'CLIENT' : name;
}

const all = [
  ...exported(everything, 'arrays').spans,
  ...exported(everything, 'events').spans,
  ...exported(refused).spans,
];
const carried = new Set(
  all.flatMap((span) => Object.keys(span.attributes).map((name) => `${name} @ ${carrier(span)}`)),
);

describe('deploy/tracing.md', () => {
  it('has every attribute that a span carries, on the spans that carry it', () => {
    expect(carried.size).toBeGreaterThan(90);
    expect([...carried].filter((each) => !documented.has(each)).toSorted()).toEqual([]);
  });

  it('has no attribute that no span carries', () => {
    expect([...documented].filter((each) => !carried.has(each)).toSorted()).toEqual([]);
  });

  it('names every event and its attributes', () => {
    const events = all.flatMap((span) => span.events);
    const words = new Set(events.flatMap(({ name, attributes }) => [name, ...Object.keys(attributes)]));
    expect(words.size).toBe(8);
    const told = page.slice(page.indexOf('\nEvents: '));
    expect([...words].filter((word) => !told.includes(`\`${word}\``))).toEqual([]);
  });
});
