/**
 * What the end of one attempt says of its backend: it did its work, it failed at it, or nothing. Pure; the breaker weighs it.
 * Full and loading are not failures, nor is whatever the request itself brought on: 4xx, and the 500 with which older
 * llama-servers answer a request that they can't read (R24).
 */
import type { Outcome } from '../domain/names.ts';

export interface AttemptEnd {
  readonly outcome: Outcome;
  /** In the record's words. */
  readonly reason: string | undefined;
  /** An engine slot was asked for: only that shows that the engine works. */
  readonly generates: boolean;
  /** The whole text of an answer with a status from 500 on; '' without one. */
  readonly errorText: string;
}

/** Ends for want of time that no backend can help, and errors that an engine told within a stream it went on serving. */
const neutralReasons: ReadonlySet<string> = new Set([
  'total_timeout',
  'no_finish',
  'error_event',
  'status_501',
  'status_505',
]);

const blamesRequest =
  /json\.exception|pars(e|ing)|invalid|template|unsupported|not (supported|implemented)|must (be|have)|exceed|too (long|large)|required/i;

export function verdictOf({ outcome, reason, generates, errorText }: AttemptEnd): 'good' | 'bad' | undefined {
  switch (outcome) {
    case 'ok':
      return generates ? 'good' : undefined;
    case 'timeout':
    case 'upstream_error':
    case 'upstream_truncated':
      if (reason !== undefined && neutralReasons.has(reason)) return undefined;
      return reason === 'status_500' && blamesRequest.test(errorText) ? undefined : 'bad';
    default:
      return undefined;
  }
}
