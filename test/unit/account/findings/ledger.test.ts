import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { createFindingLog } from '../../../../src/account/findings/finding-log.ts';
import { findingsPage } from '../../../../src/account/findings/findings-page.ts';
import type { Sighting } from '../../../../src/account/findings/finding.ts';
import { createLedger, lingerMs } from '../../../../src/account/findings/ledger.ts';
import { createLog } from '../../../../src/platform/log.ts';

const of = { finding: 'buffering', backend: 'b' } as const;
const seen = (weight: number): Sighting => ({ weight, says: `seen ${weight}`, evidence: { weight } });

describe('the ledger', () => {
  it('begins a finding once, keeps its strongest evidence, and ends it when it was not seen for a while', () => {
    const ledger = createLedger();
    expect(ledger.take(of, undefined, 1)).toBeUndefined();
    expect(ledger.take(of, seen(1), 1000)).toMatchObject({ kind: 'began', finding: { beganMs: 1000, says: 'seen 1' } });
    expect([ledger.take(of, seen(5), 2000), ledger.take(of, seen(3), 3000)]).toEqual([undefined, undefined]);
    expect(ledger.active()).toEqual([{ ...of, beganMs: 1000, says: 'seen 5', evidence: { weight: 5 } }]);
    expect(ledger.take(of, undefined, 3000 + lingerMs - 1)).toBeUndefined();
    expect(ledger.take(of, undefined, 3000 + lingerMs)).toMatchObject({
      kind: 'ended',
      finding: { endedMs: 3000, says: 'seen 5' },
    });
    expect([ledger.active(), ledger.holds('buffering', 'b')]).toEqual([[], false]);
    expect(ledger.ended()).toHaveLength(1);
    ledger.take(of, seen(1), 90_000);
    expect([...ledger.counts()]).toEqual([{ ...of, count: 2 }]);
  });

  it('keeps the last 200 that ended, newest first', () => {
    const ledger = createLedger();
    for (let i = 0; i < 250; i += 1) {
      ledger.take(of, seen(i), i * 100_000);
      ledger.take(of, undefined, i * 100_000 + lingerMs);
    }
    expect(ledger.ended()).toHaveLength(200);
    expect(ledger.ended()[0]?.says).toBe('seen 249');
  });

  it('begins and ends in turn, whatever is seen when', () => {
    const steps = fc.array(fc.tuple(fc.boolean(), fc.integer({ min: 0, max: 40_000 })), { maxLength: 60 });
    fc.assert(
      fc.property(steps, (sightings) => {
        const ledger = createLedger();
        let nowMs = 1;
        const kinds: string[] = [];
        for (const [is, afterMs] of sightings) {
          nowMs += afterMs;
          const event = ledger.take(of, is ? seen(1) : undefined, nowMs);
          if (event !== undefined) kinds.push(event.kind);
        }
        return kinds.every((kind, i) => kind === (i % 2 === 0 ? 'began' : 'ended'));
      }),
    );
  });

  it('is shown by wall clock, with how long each held', () => {
    const ledger = createLedger();
    ledger.take(of, seen(1), 1000);
    const wallMs = Date.parse('2026-01-01T00:01:00Z');
    expect(findingsPage(ledger, { nowMs: 31_000, wallMs })).toMatchObject({
      active: [{ finding: 'buffering', backend: 'b', began: '2026-01-01T00:00:30.000Z', lastedMs: 30_000 }],
      ended: [],
    });
  });
});

describe('the log of findings', () => {
  it('has a line for a beginning and its end, at most once in five minutes, and says how many were left out', () => {
    const lines: Record<string, unknown>[] = [];
    const log = createLog(
      { level: 'info', format: 'json' },
      (line) => void lines.push(JSON.parse(line) as Record<string, unknown>),
    ); // our own line
    const tell = createFindingLog(log);
    const finding = { ...of, beganMs: 0, says: 'so', evidence: { waitMs: 7 } };
    tell({ kind: 'began', finding }, 0);
    tell({ kind: 'ended', finding: { ...finding, endedMs: 900 } }, 40_000);
    for (const atMs of [60_000, 200_000]) {
      tell({ kind: 'began', finding }, atMs);
      tell({ kind: 'ended', finding: { ...finding, endedMs: atMs } }, atMs + 1);
    }
    tell({ kind: 'began', finding: { ...finding, finding: 'speculation' } }, 200_000);
    tell({ kind: 'began', finding }, 300_000);
    expect(lines.map(({ time: _time, ...line }) => line)).toEqual([
      { level: 'warn', msg: 'finding began', ...of, says: 'so', waitMs: 7 },
      { level: 'info', msg: 'finding ended', ...of, says: 'so', waitMs: 7, lastedMs: 900 },
      { level: 'info', msg: 'finding began', ...of, finding: 'speculation', says: 'so', waitMs: 7 },
      { level: 'warn', msg: 'finding began', ...of, says: 'so', waitMs: 7, leftOut: 2 },
    ]);
  });
});
