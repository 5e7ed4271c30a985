/**
 * Whether a whole answer could be used, as far as that can be seen from outside: not cut by its length, and JSON where JSON was
 * asked for. Opt-in (`maxCheckedBytes`); decides about one finished record. What was said is in `usable-text.ts` alone.
 */
import type { Assessment, UselessReason } from '../domain/assessment.ts';
import type { Job } from '../domain/job.ts';
import type { RequestRecord } from '../domain/record.ts';
import { UsableText } from './usable-text.ts';

/** The words in which engines say that the length ended an answer. */
const cutReasons: ReadonlySet<string> = new Set([
  'length',
  'max_tokens',
  'max_output_tokens',
  'model_context_window_exceeded',
  'limit',
  'incomplete',
]);

/** @returns undefined when there is nothing to gather: checks are off, or the request asks for no such answer */
export function createUsableText(job: Job | undefined, maxCheckedBytes: number | undefined): UsableText | undefined {
  if (maxCheckedBytes === undefined || job?.shape === undefined || !job.measured) return undefined;
  return new UsableText(job.format, job.shape, maxCheckedBytes);
}

/** Notes on a record whether its answer could be used; once, before anybody else sees it. */
export function noteUsable(record: RequestRecord, text: UsableText | undefined): void {
  const useless = uselessReasons(record, text);
  // Readonly to all who read it later.
  if (useless !== undefined) (record as { assessment?: Assessment }).assessment = { ...record.assessment, useless };
}

/**
 * What makes the answer useless; empty: nothing that was checked.
 * @param text what was gathered of it, for requests that asked for JSON or offered tools
 * @returns undefined when nothing could be checked
 */
function uselessReasons(record: RequestRecord, text: UsableText | undefined): UselessReason[] | undefined {
  const told = text?.judge();
  if (record.outcome !== 'ok') return undefined;
  const reasons = [...(told ?? [])];
  if (record.finishReasons.some((reason) => cutReasons.has(reason))) reasons.push('cut_by_length');
  const checked = told !== undefined || (text === undefined && record.finishReasons.length > 0);
  return checked || reasons.length > 0 ? reasons : undefined;
}
