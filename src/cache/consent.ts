/**
 * Whether a request may be answered from the cache, and its answer kept: what the request is (`job.repeatable`), and what its
 * client says. Pure.
 *
 * The client's header says `allow` (any earlier answer will do, though this one isn't deterministic), `bypass` (neither give
 * nor keep) or `refresh` (ask anew, and keep that). `Cache-Control: no-store` is `bypass`, `no-cache` and `max-age=0` are
 * `refresh` (RFC 9111, 5.2.1). The stricter one holds; an unknown word counts as none.
 */
import type { Job } from '../domain/job.ts';

export type CacheUse =
  /** give an earlier answer if there is one, else keep this one */
  | 'use'
  /** keep this one */
  | 'refresh'
  | 'none';

export function cacheUse(
  job: Pick<Job, 'repeatable'>,
  told: { readonly own: string | undefined; readonly cacheControl: string | undefined },
): CacheUse {
  if (job.repeatable === undefined) return 'none';
  const own = words(told.own);
  const control = words(told.cacheControl);
  if (own.includes('bypass') || control.includes('no-store')) return 'none';
  if (job.repeatable === 'on_request' && !own.includes('allow')) return 'none';
  if (own.includes('refresh') || control.includes('no-cache') || control.includes('max-age=0')) return 'refresh';
  return 'use';
}

function words(value: string | undefined): readonly string[] {
  return value === undefined ? none : value.split(',').map((word) => word.trim().toLowerCase());
}

const none: readonly string[] = [];
