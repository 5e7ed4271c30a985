import { describe, expect, it } from 'vitest';
import { createFindingWatch } from '../../../../src/account/findings/finding-watch.ts';
import type { RequestRecord } from '../../../../src/domain/record.ts';
import { sampleRecord } from '../../../support/sample-record.ts';

const now = () => ({ facts: { engine: 'vllm' }, oldestOwnMs: Infinity });

/** A stream that stood still for seven seconds, which another request's time in the engine covers. */
function victim(atMs: number): RequestRecord {
  const stamps = Float64Array.from([0, 60, 120, 180, 7180, 7240, 7300].map((ms) => atMs + ms));
  return sampleRecord({
    backend: 'b',
    engine: 'vllm',
    timeline: { received: atMs - 100, sent: atMs - 90, firstToken: atMs, lastToken: atMs + 7300, end: atMs + 7310 },
    events: 7,
    stamps: { atMs: stamps },
    tokens: { prompt: { value: 9, source: 'usage' }, output: { value: 7, source: 'usage' } },
    stalls: [{ atMs: atMs + 180, durationMs: 6900, requestId: 'queued', promptTokens: 900 }],
  });
}

function reading(atMs: number, preemptions: number) {
  return {
    kind: 'read',
    reading: { atMs, gauges: { running: 1 }, counters: { preemptions, generatedTokens: atMs / 100 } },
  } as const;
}

describe('the watch over findings', () => {
  it('waits for the reading that covers a request’s end before it says why that stood still', () => {
    const watch = createFindingWatch(1);
    watch.scraped('b', reading(1000, 0), 0);
    watch.finished(victim(10_000), 17_400);
    expect(watch.look(18_000, now)).toEqual([]);
    expect(watch.pending()).toBe(true);
    watch.scraped('b', reading(11_000, 1), 1);
    watch.scraped('b', reading(19_000, 1), 0);
    const names = watch.look(19_500, now).map(({ kind, finding }) => [kind, finding.finding]);
    expect(names).toContainEqual(['began', 'preemption']);
    expect(names).not.toContainEqual(['began', 'prefill_stall']);
  });

  it('learns who was preempted from a stream that ends a minute later, though nothing else runs by then', () => {
    const watch = createFindingWatch(1);
    const found = () => watch.ledger.active().find(({ finding }) => finding === 'preemption')?.evidence;
    watch.scraped('b', reading(1000, 0), 0);
    watch.scraped('b', reading(11_000, 1), 1);
    watch.look(11_500, () => ({ ...now(), oldestOwnMs: 9910 }));
    expect(found()).toMatchObject({ preemptions: 1, victims: 0 });
    watch.scraped('b', reading(69_000, 1), 1);
    const { timeline, stamps, ...rest } = victim(10_000);
    const atMs = Float64Array.from([
      ...(stamps?.atMs ?? []),
      ...Array.from({ length: 1000 }, (_, i) => 17_350 + 50 * i),
    ]);
    watch.finished({ ...rest, timeline: { ...timeline, lastToken: 67_300, end: 70_010 }, stamps: { atMs } }, 70_010);
    watch.look(70_500, now);
    expect(found()).toMatchObject({ victims: 0 });
    watch.scraped('b', reading(71_000, 1), 0);
    watch.look(71_500, now);
    expect(found()).toMatchObject({ preemptions: 1, victims: 1 });
  });

  it('finds a llama-server’s context full as soon as those have ended that filled it', () => {
    const watch = createFindingWatch(1);
    const facts = { engine: 'llama-server', slots: 2, contextTokens: 1000 };
    const full = (atMs: number) =>
      ({ kind: 'read', reading: { atMs, gauges: { running: 2, waiting: 1 }, counters: {} } }) as const;
    for (let atMs = 2000; atMs <= 12_000; atMs += 2000) watch.scraped('b', full(atMs), 2);
    for (const requestId of ['one', 'two'])
      watch.finished(
        sampleRecord({
          ...{ backend: 'b', engine: 'llama-server', requestId },
          timeline: { received: 900, sent: 1000, firstToken: 1900, lastToken: 12_400, end: 12_500 },
          tokens: { prompt: { value: 980, source: 'timings' }, output: { value: 20, source: 'timings' } },
        }),
        12_500,
      );
    const found = watch.look(13_000, () => ({ facts, oldestOwnMs: Infinity }));
    expect(found.map(({ kind, finding }) => [kind, finding.finding])).toContainEqual(['began', 'kv_exhaustion']);
  });

  it('does not wait longer than ten seconds, nor at all where nothing can be read', () => {
    const late = createFindingWatch(1);
    late.scraped('b', reading(1000, 0), 0);
    late.finished(victim(10_000), 17_400);
    expect(late.look(27_000, now)).toEqual([]);
    expect(late.look(27_500, now).map(({ finding }) => finding.finding)).toEqual(['prefill_stall']);
    const closed = createFindingWatch(1);
    closed.scraped('b', { kind: 'none', why: 'closed' }, 0);
    closed.finished(victim(10_000), 17_400);
    expect(closed.look(17_500, now).map(({ finding }) => finding.finding)).toEqual(['prefill_stall']);
  });

  it('says how long the prompt was that held a stream up, once the request tells that had it: while it holds and after', () => {
    const cause = (endMs: number) =>
      sampleRecord({
        backend: 'b',
        requestId: 'queued',
        timeline: { received: 10_000, sent: 10_001, firstToken: 17_100, lastToken: endMs, end: endMs },
        tokens: { prompt: { value: 900, source: 'usage' }, cached: { value: 100, source: 'usage' } },
      });
    const { stalls = [], ...stream } = victim(10_000);
    const unsized = {
      ...stream,
      stalls: stalls.map(({ atMs, durationMs, requestId }) => ({ atMs, durationMs, requestId })),
    };
    const told = {
      evidence: { worstPromptTokens: 800 },
      says: expect.stringMatching(/queued \(800 computed tokens\)$/) as string,
    };
    for (const [causeMs, lookMs] of [
      [20_000, 20_500],
      [150_000, 151_000],
    ] as const) {
      const watch = createFindingWatch(1);
      watch.scraped('b', { kind: 'none', why: 'off' }, 0);
      watch.finished(unsized, 17_400);
      watch.look(17_500, now);
      expect(watch.ledger.active()[0]?.evidence).not.toHaveProperty('worstPromptTokens');
      if (causeMs > 100_000) for (const atMs of [80_000, 120_000]) watch.look(atMs, now);
      watch.finished(cause(causeMs), causeMs);
      watch.look(lookMs, now);
      watch.look(lookMs + 1000, now);
      const { ledger } = watch;
      expect([...ledger.active(), ...ledger.ended()]).toMatchObject([told]);
    }
  });

  it('ends what is not seen any more, and has nothing to do then', () => {
    const watch = createFindingWatch(1);
    watch.scraped('b', { kind: 'none', why: 'off' }, 0);
    watch.finished(victim(10_000), 17_400);
    watch.look(17_500, now);
    expect(watch.pending()).toBe(true);
    expect(watch.look(60_000, now)).toEqual([]);
    expect(watch.look(120_000, now).map(({ kind, finding }) => [kind, finding.finding])).toEqual([
      ['ended', 'prefill_stall'],
    ]);
    expect(watch.pending()).toBe(false);
  });

  it('keeps the findings of another part, too: those that it does not name any more end after a while', () => {
    const watch = createFindingWatch(1);
    const sighting = { weight: 1, says: 'it drifts', evidence: { biasPoints: 12 } };
    const drift = { finding: 'prediction_drift', backend: 'b', sighting } as const;
    const names = ['prediction_drift', 'cached_tokens_untold'] as const;
    expect(watch.note(names, [drift], 1000)).toMatchObject([
      { kind: 'began', finding: { finding: 'prediction_drift', backend: 'b', says: 'it drifts' } },
    ]);
    expect(watch.pending()).toBe(true);
    expect(watch.note(names, [drift], 2000)).toEqual([]);
    expect(watch.note(['cached_tokens_untold'], [], 60_000)).toEqual([]);
    expect(watch.note(names, [], 31_000)).toEqual([]);
    expect(watch.note(names, [], 32_001)).toMatchObject([{ kind: 'ended', finding: { endedMs: 2000 } }]);
    expect(watch.pending()).toBe(false);
  });

  it('keeps backends apart, and at most 256 of them', () => {
    const watch = createFindingWatch(1);
    for (let i = 0; i < 300; i += 1) watch.scraped(`b${i}`, reading(1000, 0), 0);
    expect([...watch.backends()]).toHaveLength(256);
    watch.finished({ ...victim(10_000), backend: 'b3' }, 17_400);
    expect(watch.look(30_000, now).map(({ finding }) => finding.backend)).toEqual(['b3']);
  });
});
