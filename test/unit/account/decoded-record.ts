/** A finished stream for tests: its prompt, its tokens and its times make up the figures as the observer would. */
import type { RequestRecord } from '../../../src/domain/record.ts';
import { Sketch } from '../../../src/platform/sketch.ts';
import { sampleRecord } from '../../support/sample-record.ts';

export interface DecodedStream {
  readonly backend?: string;
  readonly model?: string;
  readonly prompt?: number;
  readonly cached?: number;
  readonly output?: number;
  readonly stepMs?: number;
  readonly ttftMs?: number;
  readonly sentMs?: number;
  readonly concurrency?: number;
  readonly over?: Partial<RequestRecord>;
}

export function decodedRecord(stream: DecodedStream = {}): RequestRecord {
  const { backend = 'b', model = 'm', prompt = 100, output = 101, stepMs = 20, ttftMs = 200, sentMs = 1000 } = stream;
  const firstToken = sentMs + ttftMs;
  const lastToken = firstToken + (output - 1) * stepMs;
  const itl = new Sketch();
  itl.add(stepMs / 1000, output - 1);
  return sampleRecord({
    backend,
    model,
    engine: 'vllm',
    events: output,
    finishReasons: ['stop'],
    tokens: {
      prompt: { value: prompt, source: 'usage' },
      output: { value: output, source: 'usage' },
      ...(stream.cached === undefined ? {} : { cached: { value: stream.cached, source: 'usage' } }),
    },
    timeline: { received: sentMs - 1, sent: sentMs, firstToken, lastToken, end: lastToken + 1 },
    figures: {
      tpotWindow: 'visible',
      tpotMs: stepMs,
      upstreamTtftMs: ttftMs,
      prefillMs: ttftMs,
      prefillKind: 'joint',
      durationMs: lastToken - sentMs,
    },
    itl: itl.data(),
    assessment: { decodeConcurrency: stream.concurrency ?? 1 },
    ...stream.over,
  });
}
