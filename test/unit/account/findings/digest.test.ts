import { describe, expect, it } from 'vitest';
import { digestOf } from '../../../../src/account/findings/digest.ts';
import type { RequestRecord, TokenStamps } from '../../../../src/domain/record.ts';
import { loadRecorded, type RecordedServer } from '../../../support/recorded.ts';
import { observeRecorded } from '../../../support/observe.ts';
import { sampleRecord } from '../../../support/sample-record.ts';

const recorded = (server: RecordedServer, name: string, cutting: 'as recorded' | 'whole' = 'as recorded') =>
  digestOf(observeRecorded(loadRecorded(server, name), cutting));

function came(atMs: readonly number[], more: Partial<RequestRecord> = {}, stamps: Partial<TokenStamps> = {}) {
  const moments = Float64Array.from(atMs);
  return digestOf(
    sampleRecord({
      timeline: { received: 0, sent: 0, firstToken: atMs[0] ?? 0, end: (atMs.at(-1) ?? 0) + 1 },
      events: atMs.length,
      stamps: { atMs: moments, ...stamps },
      ...more,
    }),
  );
}
const every = (count: number, fromMs: number, stepMs: number) =>
  Array.from({ length: count }, (_, i) => fromMs + i * stepMs);

describe('how an answer came', () => {
  it.each([
    ['llama-server', 'chat-plain'],
    ['llama-server', 'stall-stream'],
    ['vllm', 'chat-plain'],
    ['vllm', 'beside-prefill'],
    ['vllm', 'chat-usage'],
  ] as const)('is spread in time in the recorded %s %s, and a burst when it is read all at once', (server, name) => {
    expect(recorded(server, name)?.arrival).toBe('spread');
    expect(recorded(server, name, 'whole')?.arrival).toBe('burst');
  });

  it('is a burst when nine of ten events come within milliseconds after a long wait', () => {
    expect(came(every(20, 1000, 0.1))?.arrival).toBe('burst');
    expect(came([300, ...every(19, 1000, 0.1)])?.arrival).toBe('burst');
    expect(came([...every(19, 1000, 0.1), 1400])?.arrival).toBe('burst');
  });

  it('is none of it when the wait was short, the answer short, or a quick engine decoded', () => {
    expect(came(every(20, 100, 0.1))?.arrival).toBe('spread');
    expect(came(every(7, 1000, 0))?.arrival).toBeUndefined();
    expect(came(every(40, 1000, 2))?.arrival).toBe('spread');
    expect(came(every(100, 300, 0.3))?.arrival).toBe('spread');
  });

  it('is in lumps when many events share few moments', () => {
    const lumps = [0, 1, 2, 3].flatMap((n) => Array.from({ length: 20 }, () => 500 + n * 300));
    expect(came(lumps)?.arrival).toBe('lumps');
  });

  it('says nothing where choices share reads (R17), warmlane lagged, tokens had no events, or it was replayed', () => {
    const burst = every(20, 1000, 0);
    expect(came(burst, {}, { choice: new Uint16Array(20) })?.arrival).toBeUndefined();
    for (const mark of ['loop_lag', 'fewer_events_than_tokens'] as const)
      expect(came(burst, { marks: [mark] })?.arrival).toBeUndefined();
    expect(came(burst, { warmth: 'replayed' })?.arrival).toBeUndefined();
    expect(came(burst, { streamed: false })?.arrival).toBeUndefined();
  });
});

describe('a digest', () => {
  it('R21 has the largest gap of the recorded stream, and its usual one', () => {
    const digest = recorded('vllm', 'beside-prefill');
    expect(digest?.largestGap?.gapMs).toBeCloseTo(3503.208 - 1911.403, 1);
    expect(digest?.usualGapMs).toBeGreaterThan(50);
    expect(digest?.usualGapMs).toBeLessThan(80);
  });

  it('R16 counts the tokens of events where they are known', () => {
    expect(recorded('vllm', 'ngram-speculation')).toMatchObject({ events: 6 });
    expect(recorded('vllm', 'ngram-speculation')?.eventTokens).toBeGreaterThan(6);
    expect(came([1, 2, 3], {}, { tokens: Uint16Array.from([1, 5, 1]) })).toMatchObject({
      eventTokens: 7,
      severalEvents: 1,
    });
    expect(came([1, 2, 3])).toMatchObject({ eventTokens: 3, severalEvents: 0 });
    expect(came([1, 2, 3], { marks: ['fewer_events_than_tokens'] })?.eventTokens).toBeUndefined();
  });

  it('R15 has no tokens per event of an answer whose markers gave none', () => {
    expect(recorded('vllm', 'chat-tool-call')?.eventTokens).toBeUndefined();
  });

  it('is none of a request that was never sent', () => {
    expect(digestOf(sampleRecord({ timeline: { received: 1 } }))).toBeUndefined();
  });
});
