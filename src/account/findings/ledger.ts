/**
 * Which findings hold, since when, and the last ones that ended. Begins and ends a finding by what its detector says, with
 * patience: one that isn't seen for a while has ended. Bounded; knows no clock.
 */
import { findingNames, type Finding, type FindingEvent, type FindingName, type Sighting } from './finding.ts';

/** A finding that isn't seen for so long has ended: what comes and goes is one finding. */
export const lingerMs = 30_000;
const maxEnded = 200;
const maxBackends = 256;

interface Open {
  readonly finding: FindingName;
  readonly backend: string;
  readonly beganMs: number;
  seenMs: number;
  best: Sighting;
}

/** What people read of a sighting. */
export type Said = Pick<Sighting, 'says' | 'evidence'>;

export interface Ledger {
  /** @returns what began or ended by this */
  take(
    of: { readonly finding: FindingName; readonly backend: string },
    sighting: Sighting | undefined,
    nowMs: number,
  ): FindingEvent | undefined;
  /** What became known later of a finding that holds or has ended. @param change undefined: nothing did */
  amend(
    of: { readonly finding: FindingName; readonly backend: string },
    change: (said: Said) => Said | undefined,
  ): void;
  holds(finding: FindingName, backend: string): boolean;
  active(): readonly Finding[];
  /** Newest first. */
  ended(): readonly Finding[];
  /** How often each began. */
  counts(): Iterable<{ readonly finding: FindingName; readonly backend: string; readonly count: number }>;
}

export function createLedger(): Ledger {
  const open = new Map<string, Open>();
  const ended: Finding[] = [];
  const counts = new Map<string, { finding: FindingName; backend: string; count: number }>();
  const maxKeys = maxBackends * findingNames.length;

  function begin(finding: FindingName, backend: string, sighting: Sighting, nowMs: number): FindingEvent | undefined {
    const key = keyOf(finding, backend);
    if (!counts.has(key) && counts.size >= maxKeys) return undefined;
    const begun = { finding, backend, beganMs: nowMs, seenMs: nowMs, best: sighting };
    open.set(key, begun);
    const counted = counts.get(key) ?? { finding, backend, count: 0 };
    counted.count += 1;
    counts.set(key, counted);
    return { kind: 'began', finding: shown(begun) };
  }

  return {
    take({ finding, backend }, sighting, nowMs) {
      const key = keyOf(finding, backend);
      const held = open.get(key);
      if (held === undefined) return sighting === undefined ? undefined : begin(finding, backend, sighting, nowMs);
      if (sighting !== undefined) {
        held.seenMs = nowMs;
        if (sighting.weight >= held.best.weight) held.best = sighting;
        return undefined;
      }
      if (nowMs - held.seenMs < lingerMs) return undefined;
      open.delete(key);
      const over = { ...shown(held), endedMs: held.seenMs };
      ended.unshift(over);
      if (ended.length > maxEnded) ended.pop();
      return { kind: 'ended', finding: over };
    },
    amend({ finding, backend }, change) {
      const held = open.get(keyOf(finding, backend));
      const said = held === undefined ? undefined : change(held.best);
      if (held !== undefined && said !== undefined) held.best = { weight: held.best.weight, ...said };
      for (const [at, one] of ended.entries()) {
        const late = one.finding === finding && one.backend === backend ? change(one) : undefined;
        if (late !== undefined) ended[at] = { ...one, ...late };
      }
    },
    holds: (finding, backend) => open.has(keyOf(finding, backend)),
    active: () => [...open.values()].map(shown),
    ended: () => ended,
    counts: () => counts.values(),
  };
}

function shown({ finding, backend, beganMs, best }: Open): Finding {
  return { finding, backend, beganMs, says: best.says, evidence: best.evidence };
}

function keyOf(finding: FindingName, backend: string): string {
  return `${finding} ${backend}`;
}
