import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { createGoodput, type Goodput, otherName } from '../../../src/account/goodput.ts';
import { type WindowName, windowLengths } from '../../../src/account/window-lengths.ts';
import type { Assessment } from '../../../src/domain/assessment.ts';
import { warmths } from '../../../src/domain/names.ts';
import type { RequestRecord } from '../../../src/domain/record.ts';
import { sampleRecord } from '../../support/sample-record.ts';

function recordOf(assessment: Assessment, more: Partial<RequestRecord> = {}): RequestRecord {
  return sampleRecord({
    model: 'm',
    backend: 'b',
    tokens: { output: { value: 10, source: 'usage' } },
    assessment,
    ...more,
  });
}

const met: Assessment = { slo: { profile: 'chat', met: true, breaches: [], benefitTokens: 9 } };
const missed: Assessment = {
  slo: {
    profile: 'chat',
    met: false,
    breaches: [{ bound: 'ttft', limitMs: 200, valueMs: 300, phase: 'prefill' }],
    benefitTokens: -2,
  },
};

const totalOf = (goodput: Goodput, window: WindowName, nowMs: number) =>
  goodput.read(window, nowMs).cells.reduce((sum, { sums }) => sum + sums.requests, 0);

describe('a window', () => {
  it('sums requests, tokens, those that met their profile, and use', () => {
    const goodput = createGoodput({ maxCells: 10 }, 0);
    goodput.add(recordOf(met), 'm', 1000);
    goodput.add(recordOf(missed), 'm', 2000);
    goodput.add(recordOf({ useless: ['cut_by_length'], retry: true }), 'm', 3000);
    goodput.add(recordOf({}, { outcome: 'client_abort' }), 'm', 4000);
    const { cells, missed: reasons, coveredMs } = goodput.read('1m', 5000);
    expect(coveredMs).toBe(5000);
    expect(cells).toEqual([
      {
        profile: 'chat',
        model: 'm',
        backend: 'b',
        lane: 'online',
        warmth: 'unknown',
        sums: {
          requests: 2,
          tokens: 20,
          judged: 2,
          met: 1,
          metTokens: 10,
          benefitTokens: 7,
          useless: 0,
          usefulTokens: 20,
          retries: 0,
        },
      },
      {
        profile: '',
        model: 'm',
        backend: 'b',
        lane: 'online',
        warmth: 'unknown',
        sums: {
          requests: 2,
          tokens: 20,
          judged: 0,
          met: 0,
          metTokens: 0,
          benefitTokens: 0,
          useless: 1,
          usefulTokens: 0,
          retries: 1,
        },
      },
    ]);
    expect(reasons).toEqual([{ profile: 'chat', warmth: 'unknown', bound: 'ttft', phase: 'prefill', requests: 1 }]);
  });

  it('forgets what is older than it, and covers no more than it says', () => {
    const goodput = createGoodput({ maxCells: 10 }, 0);
    goodput.add(recordOf(met), 'm', 1000);
    goodput.add(recordOf(met), 'm', 62_000);
    expect(totalOf(goodput, '1m', 64_999)).toBe(2);
    expect(totalOf(goodput, '1m', 65_000)).toBe(1);
    expect(goodput.read('1m', 65_000).coveredMs).toBe(60_000);
    expect(goodput.read('1m', 64_999).coveredMs).toBe(64_999);
    expect(totalOf(goodput, '5m', 65_000)).toBe(2);
    expect(totalOf(goodput, '60m', 3_500_000)).toBe(2);
    expect(totalOf(goodput, '60m', 4_000_000)).toBe(0);
  });

  it('counts a failed request under its failing, with the phase in which it failed', () => {
    const goodput = createGoodput({ maxCells: 10 }, 0);
    const late = { ...missed, slo: { profile: 'chat', met: false, breaches: missed.slo?.breaches ?? [] } };
    goodput.add(recordOf(late, { outcome: 'timeout', phase: 'queued' }), 'm', 1);
    goodput.add(recordOf(late, { outcome: 'client_abort', phase: 'waiting_first_token' }), 'm', 1);
    expect(goodput.read('5m', 2).missed).toEqual([
      { profile: 'chat', warmth: 'unknown', bound: 'failed', phase: 'queued', requests: 1 },
      { profile: 'chat', warmth: 'unknown', bound: 'ttft', phase: 'prefill', requests: 1 },
    ]);
  });

  it('books names past its bound under other, and takes new ones once old ones are gone', () => {
    const goodput = createGoodput({ maxCells: 3 }, 0);
    for (let i = 0; i < 10; i += 1) goodput.add(recordOf({}), `m${i}`, 1);
    const models = (nowMs: number) => goodput.read('60m', nowMs).cells.map(({ model }) => model);
    expect(models(2)).toEqual(['m0', 'm1', 'm2', otherName]);
    expect(goodput.overflowed).toBe(7);
    expect(totalOf(goodput, '60m', 2)).toBe(10);
    const laterMs = 2 * 3_600_000;
    goodput.add(recordOf({}), 'new', laterMs);
    expect(models(laterMs + 1)).toEqual(['new']);
  });

  it('keeps each warmth apart, in its sums and in what missed', () => {
    const goodput = createGoodput({ maxCells: 10 }, 0);
    for (const warmth of warmths) goodput.add(recordOf(met, { warmth }), 'm', 1);
    for (const warmth of ['cold_start', 'cold_start', 'resident'] as const)
      goodput.add(recordOf(missed, { warmth }), 'm', 7000);
    const { cells, missed: reasons } = goodput.read('1m', 8000);
    expect(cells.map(({ warmth, sums }) => [warmth, sums.judged, sums.met, sums.metTokens])).toEqual([
      ['cold_start', 3, 1, 10],
      ['resident', 2, 1, 10],
      ['prefix_hit', 1, 1, 10],
      ['replayed', 1, 1, 10],
      ['unknown', 1, 1, 10],
    ]);
    expect(reasons).toEqual([
      { profile: 'chat', warmth: 'cold_start', bound: 'ttft', phase: 'prefill', requests: 2 },
      { profile: 'chat', warmth: 'resident', bound: 'ttft', phase: 'prefill', requests: 1 },
    ]);
  });

  it('gives up backends too past twice its bound, never profile, lane or warmth', () => {
    const goodput = createGoodput({ maxCells: 3 }, 0);
    for (let i = 0; i < 20; i += 1)
      goodput.add(recordOf(met, { backend: `b${i}`, warmth: i % 2 === 0 ? 'resident' : 'cold_start' }), `m${i}`, 1);
    const { cells } = goodput.read('60m', 2);
    expect(cells.map(({ model, backend, warmth }) => [model, backend, warmth])).toEqual([
      ['m0', 'b0', 'resident'],
      ['m1', 'b1', 'cold_start'],
      ['m2', 'b2', 'resident'],
      [otherName, 'b3', 'cold_start'],
      [otherName, 'b4', 'resident'],
      [otherName, 'b5', 'cold_start'],
      [otherName, otherName, 'resident'],
      [otherName, otherName, 'cold_start'],
    ]);
    expect(cells.map(({ sums }) => sums.met)).toEqual([1, 1, 1, 1, 1, 1, 7, 7]);
    expect(goodput.overflowed).toBe(17);
  });

  it('sums a combination on both sides of the moment at which others are forgotten', () => {
    const goodput = createGoodput({ maxCells: 2 }, 0);
    goodput.add(recordOf(met), 'old', 1);
    goodput.add(recordOf(met), 'm', 299_999);
    goodput.add(recordOf(met), 'm', 300_001);
    expect(goodput.read('60m', 300_002).cells.map(({ model, sums }) => [model, sums.met])).toEqual([
      ['old', 1],
      ['m', 2],
    ]);
    // The hour's 12 slots and the one under way: at 3,900 s the first slot is gone, and with it `old`.
    goodput.add(recordOf(met), 'm', 3_900_000);
    goodput.add(recordOf(met), 'new', 3_900_001);
    expect(goodput.read('60m', 3_900_002).cells.map(({ model, sums }) => [model, sums.met])).toEqual([
      ['m', 2],
      ['new', 1],
    ]);
    expect(goodput.overflowed).toBe(0);
  });

  it('keeps apart what no backend got and what named no model', () => {
    const goodput = createGoodput({ maxCells: 3 }, 0);
    const { backend: _none, ...refused } = recordOf({}, { outcome: 'rejected' });
    goodput.add(refused, 'm', 1);
    goodput.add(recordOf({}), '', 1);
    expect(goodput.read('1m', 2).cells).toMatchObject([
      { model: 'm', backend: '' },
      { model: '', backend: 'b' },
    ]);
  });

  it('holds every request of its time and none from before, whatever the order of profiles', () => {
    const steps = fc.array(fc.tuple(fc.nat({ max: 20_000 }), fc.boolean()), { maxLength: 60 });
    fc.assert(
      fc.property(steps, (list) => {
        const goodput = createGoodput({ maxCells: 5 }, 0);
        const seen: { atMs: number; isMet: boolean }[] = [];
        let nowMs = 0;
        for (const [gapMs, isMet] of list) {
          nowMs += gapMs;
          goodput.add(recordOf(isMet ? met : missed), 'm', nowMs);
          seen.push({ atMs: nowMs, isMet });
        }
        for (const window of ['1m', '5m'] as const) {
          const slotMs = windowLengths[window] / 12;
          const sinceMs = (Math.floor(nowMs / slotMs) - 12) * slotMs;
          const inside = seen.filter(({ atMs }) => atMs >= sinceMs);
          const sums = goodput.read(window, nowMs).cells[0]?.sums;
          expect(sums?.judged ?? 0).toBe(inside.length);
          expect(sums?.met ?? 0).toBe(inside.filter(({ isMet }) => isMet).length);
        }
      }),
    );
  });
});
