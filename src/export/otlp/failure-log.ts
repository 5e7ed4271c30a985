/**
 * What the log says of exports of one signal: the first failure of a row, one line a minute while it lasts, and its end.
 * Counts what was lost in a row, for these lines alone.
 */
import type { Clock } from '../../platform/clock.ts';
import type { Log } from '../../platform/log.ts';

export interface FailureLog {
  /** One export is over. @param lost what it would have carried @param error what went wrong; undefined: nothing */
  note(lost: number, error: unknown): void;
}

export interface FailureWords {
  readonly failed: string;
  readonly again: string;
  /** Beside a failure whose text says what may help. */
  readonly hint?: { readonly where: RegExp; readonly text: string };
}

const repeatMs = 60_000;
const longestText = 300;

export function createFailureLog(
  { failed, again, hint }: FailureWords,
  { log, clock }: { readonly log: Log; readonly clock: Clock },
): FailureLog {
  let lost = 0;
  let toldMs: number | undefined;
  return {
    note(more, error) {
      if (error === undefined) {
        if (toldMs !== undefined) log.info(again, { lost });
        toldMs = undefined;
        lost = 0;
        return;
      }
      lost += more;
      if (toldMs !== undefined && clock.nowMs() - toldMs < repeatMs) return;
      toldMs = clock.nowMs();
      const text = shortText(error);
      log.warn(failed, { error: text, lost, ...(hint?.where.test(text) === true ? { hint: hint.text } : {}) });
    },
  };
}

/** Short enough for a line of the log. */
export function shortText(value: unknown): string {
  const text = value instanceof Error ? value.message || value.name : String(value);
  return text.slice(0, longestText);
}
