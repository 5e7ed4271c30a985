/**
 * What the doctor says: one finding for each thing that it looked at, and the exit code that follows from all of them.
 * Values and text only; asks nothing.
 */

/** `unknown`: it could not be seen from here, and is not guessed. */
export type Verdict = 'ok' | 'warn' | 'bad' | 'unknown';

export interface Finding {
  /** What was looked at, for scripts: `buffering.spread`, `cache.granularity`, … */
  readonly check: string;
  readonly verdict: Verdict;
  readonly says: string;
  /** Figures and headers that were seen. */
  readonly evidence?: string;
  /** What to do about it. */
  readonly remedy?: string;
}

export function finding(
  check: string,
  verdict: Verdict,
  says: string,
  more: { readonly evidence?: string | undefined; readonly remedy?: string | undefined } = {},
): Finding {
  const { evidence, remedy } = more;
  return {
    check,
    verdict,
    says,
    ...(evidence === undefined ? {} : { evidence }),
    ...(remedy === undefined ? {} : { remedy }),
  };
}

/** The key, or that there is none, is why: such an answer says nothing of what stands behind it. */
export function isKeyRefusal(status: number | undefined): status is 401 | 403 {
  return status === 401 || status === 403;
}

/** @returns 1 when anything is bad, else 0 */
export function exitCodeOf(findings: readonly Finding[]): 0 | 1 {
  return findings.some(({ verdict }) => verdict === 'bad') ? 1 : 0;
}

/** One line, newline included. Control characters of a server's words are not passed on to a terminal. */
export function findingLine({ check, verdict, says, evidence, remedy }: Finding): string {
  const seen = evidence === undefined ? '' : ` [${evidence}]`;
  const todo = remedy === undefined ? '' : ` → ${remedy}`;
  return `${printable(`${verdict.padEnd(7)}  ${check.padEnd(18)}  ${says}${seen}${todo}`)}\n`;
}

/** How many of each verdict, for the last line. */
export function tally(findings: readonly Finding[]): string {
  const verdicts: readonly Verdict[] = ['bad', 'warn', 'unknown', 'ok'];
  return verdicts
    .map((verdict) => `${findings.filter((found) => found.verdict === verdict).length} ${verdict}`)
    .join(', ');
}

export function printable(text: string): string {
  // eslint-disable-next-line no-control-regex -- control characters are what must not get through
  return text.replace(/[\u0000-\u001f\u007f-\u009f]/g, ' ');
}
