/** The page `/findings`: what holds now and what ended, with its evidence, its metric and where to read on. Pure. */
import { findingNames, type Finding } from './finding.ts';
import type { Ledger } from './ledger.ts';

export interface PageClock {
  readonly nowMs: number;
  /** Wall clock at the same moment, ms since the epoch. */
  readonly wallMs: number;
}

export function findingsPage(ledger: Ledger, clock: PageClock): object {
  return {
    active: ledger.active().map((finding) => shown(finding, clock)),
    ended: ledger.ended().map((finding) => shown(finding, clock)),
    known: findingNames,
    metric: 'warmlane_finding_active',
  };
}

function shown(finding: Finding, clock: PageClock): object {
  const { beganMs, endedMs, ...rest } = finding;
  return {
    ...rest,
    began: wallTime(beganMs, clock),
    ...(endedMs === undefined ? {} : { ended: wallTime(endedMs, clock) }),
    lastedMs: (endedMs ?? clock.nowMs) - beganMs,
  };
}

function wallTime(atMs: number, { nowMs, wallMs }: PageClock): string {
  return new Date(wallMs - (nowMs - atMs)).toISOString();
}
