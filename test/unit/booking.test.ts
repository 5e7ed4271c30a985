import { describe, expect, it } from 'vitest';
import { type BookedPassage, createBooking } from '../../src/booking.ts';
import type { RequestRecord } from '../../src/domain/record.ts';
import type { AnswerTold } from '../../src/domain/routing.ts';
import type { Member } from '../../src/fleet/fleet.ts';
import type { AnswerShape } from '../../src/fleet/backend-watch.ts';
import type { Link } from '../../src/pipeline-deps.ts';
import { silentLog } from '../../src/platform/log.ts';
import { createFakeClock } from '../support/fake-clock.ts';
import { sampleJob } from '../support/sample.ts';
import { sampleRecord } from '../support/sample-record.ts';

function booked(record: RequestRecord, { stay, errand }: Partial<Pick<BookedPassage, 'stay' | 'errand'>> = {}) {
  const told: AnswerShape[] = [];
  const book = createBooking({
    clock: createFakeClock(),
    log: silentLog,
    sticky: { remember() {}, find: () => undefined },
    sinks: { add() {} },
    assess() {},
  });
  const passage: Partial<BookedPassage> = {
    job: sampleJob(),
    stay,
    errand,
    // Of both only what booking asks for.
    observer: {
      finish: () => record,
      failure: undefined,
      responseId: undefined,
    } as unknown as BookedPassage['observer'],
    link: { member: { noteAnswer: (shape) => void told.push(shape) } as Partial<Member> } as Link,
    attempts: 1,
  };
  book(passage as BookedPassage, { outcome: 'ok', phase: 'reading_answer', spokenBy: 'backend' });
  return told;
}

describe('the end of a request', () => {
  const prompt = { value: 100, source: 'usage' } as const;

  it('C147 tells whoever served it what its answer gave, and not who has the name by now', () => {
    expect(booked(sampleRecord({ backend: 'a', tokens: { prompt } }))).toEqual([{ usage: true, cached: false }]);
    const cached = { value: 0, source: 'usage' } as const;
    expect(booked(sampleRecord({ backend: 'a', tokens: { prompt, cached } }))).toEqual([{ usage: true, cached: true }]);
  });

  it('tells nothing of an answer that failed', () => {
    expect(booked(sampleRecord({ backend: 'a', outcome: 'upstream_error', tokens: { prompt } }))).toEqual([]);
  });

  it('tells routing how many choices the output is the sum of, where all came to their end', () => {
    const told: (number | undefined)[] = [];
    const errand = { promptTokens: 0, uncachedTokens: 0, ended: ({ choices }: AnswerTold) => void told.push(choices) };
    const finishReasons = ['stop', 'length'];
    booked(sampleRecord({ backend: 'a', finishReasons }), { errand });
    booked(sampleRecord({ backend: 'a', finishReasons, outcome: 'client_abort' }), { errand });
    booked(sampleRecord({ backend: 'a', finishReasons: [] }), { errand });
    expect(told).toEqual([2, undefined, undefined]);
  });

  it.each<[string, Partial<RequestRecord>, object]>([
    [
      'counts, those that the engine gave',
      { backend: 'a', tokens: { prompt, output: { value: 7, source: 'usage' } } },
      { prompt: 100, output: 7 },
    ],
    ['whole but uncounted, nothing', { backend: 'a', tokens: {}, streamed: false }, {}],
    ['left by its client, what came', { backend: 'a', outcome: 'client_abort', tokens: {}, events: 3 }, { output: 3 }],
    [
      'failed at the backend, what came',
      { backend: 'a', outcome: 'upstream_error', tokens: {} },
      { prompt: 0, output: 0 },
    ],
    ['refused before any backend, none', { outcome: 'rejected', tokens: {} }, { prompt: 0, output: 0 }],
    ['given again from the cache, none', { backend: 'a', warmth: 'replayed', tokens: {} }, { prompt: 0, output: 0 }],
  ])('settles what its tenant is charged: of one that is %s', (_, over, tokens) => {
    const told: object[] = [];
    const { backend: _none, ...bare } = sampleRecord({ streamed: true, events: 0 });
    booked({ ...bare, ...over }, { stay: { ended: (counts) => void told.push(counts) } });
    expect(told).toEqual([tokens]);
  });
});
