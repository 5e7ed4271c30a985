import fc from 'fast-check';
import { describe, expect, it } from 'vitest';

import { courseOf } from '../../../../src/account/report/course.ts';
import { readRow, type Row } from '../../../../src/account/report/row.ts';
import { courseSpent, timeSpent } from '../../../../src/account/slo/time-spent.ts';
import type { PrefillStall, RequestRecord, Timeline } from '../../../../src/domain/record.ts';
import { logFields } from '../../../support/log-fields.ts';
import { takeFigures } from '../../../../src/measure/figures.ts';
import { lineText, parsed } from '../../../support/log-rows.ts';
import { sampleRecord } from '../../../support/sample-record.ts';

interface Case {
  readonly timeline: Timeline;
  readonly more?: Partial<RequestRecord>;
  /** When the last attempt began, if it was not the first. */
  readonly attemptMs?: number;
}

function recordOf({ timeline, more = {}, attemptMs }: Case): RequestRecord {
  const { streamed = true, engine } = more;
  const figures = takeFigures({
    timeline,
    attemptMs: attemptMs ?? timeline.admitted,
    firstAttemptMs: timeline.admitted,
    endMs: timeline.end ?? 0,
    streamed,
    engine,
    choices: [],
    tokens: {},
    tpot: { window: 'none_unknown_count', marks: [] },
    engineTimes: undefined,
    overheadPerEventMicros: undefined,
  });
  return sampleRecord({ attempts: attemptMs === undefined ? 1 : 2, timeline, figures, streamed, ...more });
}

function readBack(record: RequestRecord): Row {
  const row = readRow(parsed(lineText('request', logFields(record))));
  if (row === undefined) throw new Error('no row');
  return row;
}

/** By the record and by its line, ms to a hundredth: the line has microseconds. */
function both(record: RequestRecord, untilMs: number): readonly [object, object] {
  const { received, receivedLast = received } = record.timeline;
  const told = (spent: ReadonlyMap<string, number>) => {
    const rounded: Record<string, number> = {};
    for (const [phase, ms] of spent) if (ms >= 0.005) rounded[phase] = Math.round(ms * 100) / 100;
    return rounded;
  };
  return [told(timeSpent(record, receivedLast + untilMs)), told(courseSpent(courseOf(readBack(record)), untilMs))];
}

const before = { received: 90, receivedLast: 100, queued: 102, admitted: 112, connected: 115, sent: 116 };

describe('the course of a request, from its line', () => {
  it('is that of a stream: R20 with all of its stalls', () => {
    const stalls: readonly PrefillStall[] = [
      { atMs: 300, durationMs: 150, requestId: 'a' },
      { atMs: 600, durationMs: 50, requestId: 'b' },
    ];
    const timeline = { ...before, head: 118, firstToken: 216, lastToken: 900, end: 910 };
    const [record, line] = both(recordOf({ timeline, more: { stalls } }), 800);
    expect(line).toEqual({
      receiving: 2,
      queued: 10,
      connecting: 3,
      sending: 1,
      prefill: 100,
      stalled: 200,
      decode: 484,
    });
    expect(line).toEqual(record);
  });

  it('has llama-server’s queue apart, also of a stream to which no head came', () => {
    const timeline = { ...before, head: 500, firstToken: 600, lastToken: 700, end: 701 };
    const [record, line] = both(recordOf({ timeline, more: { engine: 'llama-server' } }), 601);
    expect(line).toMatchObject({ engine_queue: 384, prefill: 100, decode: 101 });
    expect(line).toEqual(record);
    for (const head of [undefined, 300]) {
      const cut = { ...before, ...(head === undefined ? {} : { head }), end: 400 };
      const [short, shortLine] = both(
        recordOf({ timeline: cut, more: { engine: 'llama-server', outcome: 'timeout' } }),
        300,
      );
      expect(shortLine).toEqual(short);
      expect(Object.keys(shortLine)).toContain(head === undefined ? 'engine_queue' : 'prefill');
    }
  });

  it('of an answer that isn’t streamed tells the wait for its head from its reading', () => {
    const timeline = { ...before, head: 916, end: 950 };
    const [record, line] = both(recordOf({ timeline, more: { streamed: false } }), 850);
    expect(line).toMatchObject({ waiting_head: 800, reading_answer: 34 });
    expect(line).toEqual(record);
  });

  it.each<[string, Case]>([
    ['in the queue', { timeline: { received: 90, receivedLast: 100, queued: 102, end: 900 } }],
    ['connecting', { timeline: { received: 90, receivedLast: 100, queued: 102, admitted: 112, end: 900 } }],
    [
      'sending',
      { timeline: { received: 90, receivedLast: 100, queued: 102, admitted: 112, connected: 120, end: 900 } },
    ],
    ['waiting for a head', { timeline: { ...before, end: 900 } }],
    ['on its second backend', { timeline: { ...before, connected: 400, sent: 402, end: 900 }, attemptMs: 390 }],
    [
      'with a body that came while it waited',
      { timeline: { received: 10, receivedLast: 100, queued: 12, admitted: 95, connected: 97, sent: 101, end: 900 } },
    ],
    [
      'with a body that came while it waited, and longer',
      { timeline: { received: 10, receivedLast: 100, queued: 12, admitted: 150, connected: 152, sent: 153, end: 900 } },
    ],
  ])('is that of one that ended %s', (_where, given) => {
    const [record, line] = both(recordOf({ ...given, more: { outcome: 'timeout' } }), 800);
    expect(line).toEqual(record);
    expect(Object.keys(line).length).toBeGreaterThan(0);
  });

  it('is that of the record, whatever came when', () => {
    const moment = fc.integer({ min: 0, max: 100_000 }).map((hundredths) => hundredths / 100);
    fc.assert(
      fc.property(
        fc.array(moment, { minLength: 9, maxLength: 9 }),
        fc.record({
          streamed: fc.boolean(),
          llama: fc.boolean(),
          second: fc.boolean(),
          cut: fc.integer({ max: 9, min: 2 }),
        }),
        (moments, { streamed, llama, second, cut }) => {
          const sorted = moments.toSorted((a, b) => a - b).slice(0, cut);
          const names = [
            'queued',
            'admitted',
            'failed',
            'connected',
            'sent',
            'head',
            'firstToken',
            'lastToken',
          ] as const;
          const known = Object.fromEntries(
            names.flatMap((name, i) => {
              const ms = i < sorted.length - 1 ? sorted[i] : undefined;
              return ms === undefined || (!streamed && name.endsWith('Token')) ? [] : [[name, 100 + ms]];
            }),
          ) as Partial<Record<(typeof names)[number], number>>;
          const { failed, ...rest } = known;
          const endMs = sorted.at(-1) ?? 0;
          const record = recordOf({
            timeline: { received: 90, receivedLast: 100, ...rest, end: 100 + endMs },
            more: { streamed, engine: llama ? 'llama-server' : 'vllm' },
            ...(second && failed !== undefined && rest.sent !== undefined ? { attemptMs: failed } : {}),
          });
          const [spent, line] = both(record, endMs);
          expect(line).toEqual(spent);
        },
      ),
      { numRuns: 300 },
    );
  });
});
