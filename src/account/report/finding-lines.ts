/**
 * Findings that warmlane logged while it ran (`finding began`, `finding ended`): how often each began, how long it lasted,
 * what its last line said. Nothing is found anew here. Bounded.
 */
import type { LogLine } from '../../platform/log-line.ts';
import { ownText } from './tally.ts';

export interface FindingResult {
  readonly kind: string;
  readonly backend?: string;
  /** as often as it was logged; `leftOut` more times it was not, so as not to fill the log */
  readonly begun: number;
  readonly leftOut: number;
  readonly ended: number;
  /** of those that ended in the log */
  readonly seconds: number;
  readonly firstAt: string;
  readonly lastAt: string;
  /** one sentence for people, of its last line; its other fields */
  readonly says?: string;
  readonly evidence: Readonly<Record<string, string>>;
}

export interface FindingLines {
  /** @returns whether it was one */
  add(line: LogLine): boolean;
  results(): readonly FindingResult[];
}

const mostFindings = 200;
const mostEvidence = 20;
const longestEvidence = 200;
const longestSaying = 500;
const ownFields = new Set(['time', 'level', 'msg', 'finding', 'backend', 'says', 'leftOut', 'lastedMs']);

/** Its beginning, or its end. */
export function isFinding(line: Pick<LogLine, 'message'>): boolean {
  return line.message === 'finding began' || line.message === 'finding ended';
}

interface Finding {
  readonly kind: string;
  readonly backend: string | undefined;
  begun: number;
  leftOut: number;
  ended: number;
  ms: number;
  says: string | undefined;
  readonly firstAtMs: number;
  lastAtMs: number;
  beganAtMs: number | undefined;
  evidence: Readonly<Record<string, string>>;
}

export function createFindingLines(): FindingLines {
  const findings = new Map<string, Finding>();
  return {
    add(line) {
      if (!isFinding(line)) return false;
      const { fields, timeMs } = line;
      const kind = text(fields['finding']) ?? 'unnamed';
      const backend = text(fields['backend']);
      const key = `${kind}\n${backend ?? ''}`;
      let finding = findings.get(key);
      if (finding === undefined) {
        if (findings.size >= mostFindings) return true;
        finding = {
          kind: ownText(kind),
          backend: backend === undefined ? undefined : ownText(backend),
          begun: 0,
          leftOut: 0,
          ended: 0,
          ms: 0,
          says: undefined,
          firstAtMs: timeMs,
          lastAtMs: timeMs,
          beganAtMs: undefined,
          evidence: {},
        };
        findings.set(ownText(key), finding);
      }
      note(finding, line);
      return true;
    },
    results: () => [...findings.values()].map(resultOf).toSorted((a, b) => b.begun - a.begun),
  };
}

function note(finding: Finding, { message, fields, timeMs }: LogLine): void {
  finding.lastAtMs = timeMs;
  finding.evidence = evidenceOf(fields);
  const says = text(fields['says']);
  if (says !== undefined) finding.says = ownText(says.slice(0, longestSaying));
  if (message === 'finding began') {
    finding.begun += 1;
    const leftOut = Number(fields['leftOut'] ?? 0);
    if (leftOut > 0) finding.leftOut += leftOut;
    finding.beganAtMs = timeMs;
    return;
  }
  finding.ended += 1;
  const toldMs = Number(fields['lastedMs']);
  const lastedMs = finding.beganAtMs === undefined ? 0 : timeMs - finding.beganAtMs;
  finding.ms += toldMs >= 0 ? toldMs : lastedMs;
  finding.beganAtMs = undefined;
}

function text(value: unknown): string | undefined {
  return typeof value === 'string' || typeof value === 'number' ? String(value) : undefined;
}

function evidenceOf(fields: LogLine['fields']): Readonly<Record<string, string>> {
  return Object.fromEntries(
    Object.entries(fields)
      .filter(([name, value]) => !ownFields.has(name) && value !== null && value !== undefined)
      .slice(0, mostEvidence)
      .map(([name, value]) => [ownText(name), ownText(String(value).slice(0, longestEvidence))]),
  );
}

function resultOf(finding: Finding): FindingResult {
  const { kind, backend, begun, leftOut, ended, ms, firstAtMs, lastAtMs, says, evidence } = finding;
  return {
    kind,
    ...(backend === undefined ? {} : { backend }),
    begun,
    leftOut,
    ended,
    seconds: ms / 1000,
    firstAt: new Date(firstAtMs).toISOString(),
    lastAt: new Date(lastAtMs).toISOString(),
    ...(says === undefined ? {} : { says }),
    evidence,
  };
}
