import { describe, expect, it } from 'vitest';
import { decisionText } from '../../../../src/account/hits/decision-text.ts';
import { explained } from '../../../../src/account/hits/explain.ts';
import type { RequestRecord } from '../../../../src/domain/record.ts';
import { alikeCosts, type RouteNote } from '../../../../src/domain/routing.ts';
import { costOf as warmCostOf, createWarm } from '../../../../src/route/policies/warm.ts';
import { costDefaults } from '../../../../src/route/settings.ts';
import { namesOf, sampleCandidate, sampleRouteJob } from '../../../support/candidates.ts';
import { sampleCost, sampleNote } from '../../../support/sample-routing.ts';
import { sampleRecord } from '../../../support/sample-record.ts';

const routed = (
  backend: string,
  routeReason: string,
  note: Partial<RouteNote> = {},
  over: Partial<RequestRecord> = {},
) => sampleRecord({ backend, routeReason, routing: sampleNote(note), ...over });

describe('why a request went where it went', () => {
  it('is that the backend holds its prefix, with the cost beside that of the next best', () => {
    expect(
      decisionText(routed('b2', 'prefix', { promptTokens: 4096, reusableTokens: 3120, predictedTokens: 3120 })),
    ).toBe('sent to b2: holds 3,120 of 4,096 prompt tokens; 0.31 s against 1.20 s at b1, which is idle');
  });

  it('is that who holds more is too busy, and with what', () => {
    const considered = [
      { backend: 'b1', heldTokens: 0, cost: sampleCost({ total: 1.2, prefill: 1.2 }) },
      { backend: 'b2', heldTokens: 3120, cost: sampleCost({ total: 4.5, queue: 4.2 }) },
      { backend: 'b3', heldTokens: 0, cost: sampleCost({ total: 1.3 }) },
    ];
    const note = {
      promptTokens: 4096,
      reusableTokens: 3120,
      predictedTokens: 0,
      considered,
      cost: sampleCost({ total: 1.2 }),
    };
    expect(decisionText(routed('b1', 'load_over_prefix', note))).toBe(
      'sent to b1: holds none of 4,096 prompt tokens, b2 3,120; 1.20 s against 4.50 s at b2, where other prompts wait (4.20 s)',
    );
  });

  it('is that it waited here before, where that was long enough to be felt', () => {
    const figures = (queueMs: number) => ({ tpotWindow: 'visible', durationMs: 900, queueMs }) as const;
    expect(decisionText(sampleRecord({ backend: 'b1', routeReason: 'round_robin', figures: figures(14_845) }))).toBe(
      'waited 14.85 s in warmlane for a place, then sent to b1: its turn',
    );
    expect(decisionText(sampleRecord({ backend: 'b1', lane: 'batch', figures: figures(14_845) }))).toBe(
      "waited 14.85 s in warmlane's batch lane for a place, then sent to b1",
    );
    expect(decisionText(sampleRecord({ backend: 'b1', figures: figures(99) }))).toBe('sent to b1');
  });

  it('is said without costs where the policy counts none, and without a prompt where nothing was known of it', () => {
    const { cost: _none, considered: _all, ...note } = sampleNote({ reusableTokens: 0, predictedTokens: 0 });
    expect(decisionText(sampleRecord({ backend: 'b1', routeReason: 'round_robin', routing: note }))).toBe(
      'sent to b1: its turn; nobody holds any of 1,000 prompt tokens',
    );
    expect(decisionText(sampleRecord({ backend: 'b1', routeReason: 'sticky' }))).toBe(
      'sent to b1: it keeps what this request refers to',
    );
    expect(decisionText(sampleRecord({ backend: 'b1' }))).toBe('sent to b1');
    expect(decisionText(sampleRecord({ outcome: 'rejected' }))).toBe('sent to no backend: it ended before (rejected)');
  });

  it('is that nobody was asked for an answer from the cache, and that a warm-up was meant for its backend', () => {
    expect(decisionText(sampleRecord({ warmth: 'replayed' }))).toBe(
      'sent to no backend: answered from the answer cache',
    );
    expect(decisionText(sampleRecord({ spokenBy: 'warmlane' }))).toBe(
      'sent to no backend: warmlane answers this itself',
    );
    expect(decisionText(routed('b1', 'least_load', {}, { marks: ['warm_up'] }))).toBe('sent to b1: to warm it up');
    expect(decisionText(sampleRecord({ outcome: 'client_error', reason: 'model_not_found' }))).toBe(
      'sent to no backend: it ended before (client_error, model_not_found)',
    );
  });

  it('is no cost that is alike elsewhere, and says why one that is lower was passed over', () => {
    const beside = (cost: Parameters<typeof sampleCost>[0]) => [
      { backend: 'b1', heldTokens: 512, cost: sampleCost(cost) },
      { backend: 'b2', heldTokens: 512, cost: sampleCost() },
    ];
    expect(decisionText(routed('b2', 'least_load', { considered: beside({ total: 0.305 }) }))).toBe(
      'sent to b2: holds 512 of 1,000 prompt tokens; 0.31 s, much the same as 0.30 s at b1',
    );
    expect(decisionText(routed('b2', 'least_load', { considered: beside({ total: 0.2, slot: 0.1 }) }))).toBe(
      'sent to b2: holds 512 of 1,000 prompt tokens; 0.31 s against 0.20 s at b1, where all slots were busy and waiting longer was not worth it',
    );
  });

  it.each([0, 4])('calls costs alike just where the policy takes them for alike (%d s and more)', (networkSeconds) => {
    const decide = createWarm(costDefaults);
    const job = sampleRouteJob();
    const least = sampleCandidate('b1', { networkSeconds, lastUsed: 9 });
    const { total } = warmCostOf(job, least, costDefaults);
    const bound = Math.min(alikeCosts.atMostSeconds, alikeCosts.seconds + alikeCosts.share * total);
    for (const [difference, areAlike] of [
      [0.99 * bound, true],
      [1.01 * bound, false],
    ] as const) {
      const other = sampleCandidate('b2', { networkSeconds: networkSeconds + difference });
      // Of those alike the one that was used longest ago.
      expect(namesOf(decide(job, [least, other]))).toEqual(areAlike ? ['b2', 'b1'] : ['b1', 'b2']);
      const considered = [
        { backend: 'b1', heldTokens: 0, cost: sampleCost({ total }) },
        { backend: 'b2', heldTokens: 0, cost: sampleCost({ total: total + difference }) },
      ];
      const text = decisionText(routed('b1', 'least_load', { cost: sampleCost({ total }), considered }));
      expect(text.includes('much the same')).toBe(areAlike);
    }
  });

  it('tells of a backend that starts slowly, whose seconds are no real ones', () => {
    const considered = [
      {
        backend: 'b1',
        heldTokens: 0,
        cost: sampleCost({ total: 12, prefill: 12 }),
        weight: 0.1,
        startsSlowly: true as const,
      },
      { backend: 'b2', heldTokens: 512, cost: sampleCost(), weight: 2 },
    ];
    const record = routed('b2', 'prefix', { considered });
    expect(decisionText(record)).toBe(
      'sent to b2: holds 512 of 1,000 prompt tokens; 0.31 s against 12.00 s at b1, which is idle; b1 is starting slowly and counts as 0.1 of a backend',
    );
    expect(JSON.parse(JSON.stringify(explained(record)))).toMatchObject({
      decision: {
        considered: [
          { backend: 'b1', weight: 0.1, startsSlowly: true },
          { backend: 'b2', weight: 2 },
        ],
      },
    });
    expect(decisionText(routed('b1', 'least_load', { considered, cost: sampleCost({ total: 12 }) }))).toContain(
      '; b1 is starting slowly and counts as 0.1 of a backend',
    );
  });

  it('does not hold it against a backend that it could not be had', () => {
    const considered = [
      { backend: 'b1', heldTokens: 0, cost: sampleCost({ total: 0.1 }), left: 'failed_before' as const },
      { backend: 'b2', heldTokens: 512, cost: sampleCost() },
    ];
    expect(decisionText(routed('b2', 'prefix', { considered }))).toBe(
      'sent to b2: holds 512 of 1,000 prompt tokens; 0.31 s',
    );
  });
});

describe('one request explained', () => {
  it('has every backend that was considered, each term of its cost in seconds, what came, and why not more', () => {
    const record = routed(
      'b2',
      'prefix',
      {},
      {
        tokens: { prompt: { value: 1010, source: 'usage' }, cached: { value: 500, source: 'usage' } },
        attempts: 2,
        failedAttempts: [{ backend: 'b1', outcome: 'upstream_error', reason: 'refused' }],
        assessment: {
          missed: [
            { cause: 'unaligned', tokens: 1 },
            { cause: 'diverged', tokens: 509 },
          ],
        },
        figures: { tpotWindow: 'visible', durationMs: 900, ttftMs: 320, queueMs: 0 },
      },
    );
    expect(JSON.parse(JSON.stringify(explained(record)))).toEqual({
      requestId: 'r1',
      startedAt: '2023-11-14T22:13:20.000Z',
      outcome: 'ok',
      backend: 'b2',
      says: 'sent to b2: holds 512 of 1,000 prompt tokens; 0.31 s against 1.20 s at b1, which is idle',
      decision: {
        reason: 'prefix',
        policy: 'warm',
        promptTokens: 1000,
        reusableTokens: 512,
        reusableAt: 'b2',
        predictedTokens: 512,
        cause: 'diverged',
        cost: costOf(0.31),
        considered: [
          { backend: 'b1', heldTokens: 0, cost: costOf(1.2) },
          { backend: 'b2', sentThere: true, heldTokens: 512, cost: costOf(0.31) },
        ],
      },
      told: { promptTokens: 1010, deliveredTokens: 500 },
      missed: {
        newTokens: 0,
        divergedTokens: 509,
        evictedTokens: 0,
        reroutedTokens: 0,
        restartedTokens: 0,
        unalignedTokens: 1,
        notDeliveredTokens: 0,
      },
      divergence: { place: 'message 0, bytes 0–256', part: 0, startBytes: 0, endBytes: 256 },
      attempts: [
        { backend: 'b1', outcome: 'upstream_error', reason: 'refused' },
        { backend: 'b2', outcome: 'ok' },
      ],
      times: { queueMs: 0, ttftMs: 320, durationMs: 900 },
    });
  });

  it('says of a refused one what there is', () => {
    const record = sampleRecord({ outcome: 'rejected', attempts: 0, reason: 'queue_full' });
    expect(JSON.parse(JSON.stringify(explained(record)))).toMatchObject({ decision: {}, told: {}, attempts: [] });
  });
});

function costOf(prefill: number) {
  return {
    totalSeconds: prefill,
    queueSeconds: 0,
    slotSeconds: 0,
    prefillSeconds: prefill,
    copySeconds: 0,
    stallSeconds: 0,
    decodeSeconds: 0,
    burdenSeconds: 0,
    networkSeconds: 0,
    bonusSeconds: 0,
  };
}
