import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { longestPhase, timeSpent } from '../../../../src/account/slo/time-spent.ts';
import { beganMs, streamOf } from '../../../support/slo-record.ts';

const spent = (record: Parameters<typeof timeSpent>[0], untilMs: number) =>
  Object.fromEntries(timeSpent(record, beganMs + untilMs));

describe('the time of a request', () => {
  it('is cut into the phases that it went through', () => {
    const record = streamOf({
      queued: 2,
      admitted: 12,
      connected: 15,
      sent: 16,
      head: 18,
      tokens: [116, 216],
      end: 220,
    });
    expect(spent(record, 220)).toEqual({
      receiving: 2,
      queued: 10,
      connecting: 3,
      sending: 1,
      prefill: 100,
      decode: 104,
    });
    expect(spent(record, 116)).toEqual({ receiving: 2, queued: 10, connecting: 3, sending: 1, prefill: 100 });
    expect(longestPhase(record, beganMs + 116)).toBe('prefill');
  });

  it('R28 has the engine’s queue apart where the engine tells it, else it is in the prefill', () => {
    const course = { queued: 0, admitted: 0, connected: 0, sent: 0, head: 300, tokens: [350] };
    expect(spent(streamOf(course), 350)).toEqual({ prefill: 350 });
    const split = streamOf(course);
    const told = { ...split, figures: { ...split.figures, engineQueueMs: 300, prefillMs: 50 } };
    expect(spent(told, 350)).toEqual({ engine_queue: 300, prefill: 50 });
  });

  it('is llama-server’s queue as long as that sends no head', () => {
    const record = streamOf({
      queued: 0,
      admitted: 0,
      connected: 0,
      sent: 10,
      end: 900,
      more: { engine: 'llama-server' },
    });
    expect(spent(record, 900)).toEqual({ sending: 10, engine_queue: 890 });
  });

  it('stays in the phase that was never left', () => {
    expect(spent(streamOf({ queued: 5, end: 800 }), 800)).toEqual({ receiving: 5, queued: 795 });
    expect(spent(streamOf({ queued: 5, admitted: 6, end: 800 }), 800)).toEqual({
      receiving: 5,
      queued: 1,
      connecting: 794,
    });
  });

  it('tells what other backends took that failed first', () => {
    const record = streamOf({
      queued: 0,
      admitted: 1,
      connected: 501,
      sent: 502,
      head: 503,
      tokens: [510],
      more: { attempts: 2 },
    });
    const told = { ...record, figures: { ...record.figures, connectMs: 2 } };
    expect(spent(told, 510)).toEqual({ queued: 1, failed_attempts: 498, connecting: 2, sending: 1, prefill: 8 });
  });

  it('of an answer that isn’t streamed is split as far as its engine told', () => {
    const whole = streamOf({
      queued: 0,
      admitted: 1,
      connected: 2,
      sent: 3,
      head: 95,
      end: 100,
      more: { streamed: false },
    });
    expect(spent(whole, 100)).toEqual({ queued: 1, connecting: 1, sending: 1, waiting_head: 92, reading_answer: 5 });
    const told = { ...whole, figures: { ...whole.figures, prefillMs: 40, engineQueueMs: 10 } };
    expect(spent(told, 100)).toEqual({
      queued: 1,
      connecting: 1,
      sending: 1,
      engine_queue: 10,
      prefill: 40,
      decode: 47,
    });
  });

  it('adds up to the whole, whatever came when', () => {
    const moment = fc.double({ min: 0, max: 1000, noNaN: true });
    fc.assert(
      fc.property(fc.array(moment, { minLength: 8, maxLength: 8 }), fc.boolean(), (moments, streamed) => {
        const [queued, admitted, connected, sent, head, first, last, end] = moments.toSorted((a, b) => a - b);
        const record = streamOf({
          queued: queued ?? 0,
          ...(admitted === undefined ? {} : { admitted }),
          ...(connected === undefined ? {} : { connected }),
          ...(sent === undefined ? {} : { sent }),
          ...(head === undefined ? {} : { head }),
          tokens: [first ?? 0, last ?? 0],
          end: end ?? 0,
          more: { streamed },
        });
        const total = [...timeSpent(record, beganMs + (end ?? 0)).values()].reduce((sum, ms) => sum + ms, 0);
        expect(total).toBeCloseTo(end ?? 0, 6);
      }),
    );
  });
});
