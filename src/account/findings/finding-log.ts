/**
 * The log lines of findings: one when it begins, one when it ends, and not more than one pair in five minutes for each
 * finding of a backend; how many were left out stands in the next.
 */
import type { Log, LogFields } from '../../platform/log.ts';
import type { FindingEvent, FindingName } from './finding.ts';

const pauseMs = 300_000;
const maxKept = 4096;

/** Says what is so, not that something is wrong. */
const calm: ReadonlySet<FindingName> = new Set<FindingName>([
  'speculation',
  'several_tokens_per_event',
  'prefix_too_short_for_block',
  'cached_tokens_untold',
]);

interface Told {
  atMs: number;
  /** Its beginning was logged, so its end will be. */
  open: boolean;
  leftOut: number;
}

export function createFindingLog(log: Log): (event: FindingEvent, nowMs: number) => void {
  const told = new Map<string, Told>();

  return ({ kind, finding }, nowMs) => {
    const key = `${finding.finding} ${finding.backend}`;
    const before = told.get(key);
    const one: Told = before ?? { atMs: -Infinity, open: false, leftOut: 0 };
    if (before === undefined && told.size < maxKept) told.set(key, one);
    const fields: LogFields = { finding: finding.finding, backend: finding.backend, says: finding.says };
    if (kind === 'began') {
      if (nowMs - one.atMs < pauseMs) {
        one.leftOut += 1;
        return;
      }
      const since = one.leftOut > 0 ? { leftOut: one.leftOut } : {};
      Object.assign(one, { atMs: nowMs, open: true, leftOut: 0 });
      const tell = calm.has(finding.finding) ? log.info : log.warn;
      tell('finding began', { ...fields, ...finding.evidence, ...since });
      return;
    }
    if (!one.open) return;
    one.open = false;
    const lastedMs = Math.round((finding.endedMs ?? nowMs) - finding.beganMs);
    log.info('finding ended', { ...fields, ...finding.evidence, lastedMs });
  };
}
