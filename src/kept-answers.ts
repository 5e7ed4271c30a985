/**
 * What backends keep under an id (responses, stored chats, conversations, resumable streams): where it is, and whether who asks
 * may have it. Engines know no tenants: whoever knew an id could read, continue, cancel or delete what is behind it. So with
 * keys of warmlane's own an id is its tenant's, from the request on that it came of. Answers nobody and changes no request.
 */
import type { Caller } from './access/port.ts';
import { idNotFound } from './access/refusals.ts';
import type { Job } from './domain/job.ts';
import { unreadId } from './domain/job.ts';
import type { Refusal } from './domain/refusal.ts';
import type { ClientHead } from './platform/client-port.ts';
import type { Sticky } from './route/sticky.ts';

/** A request under way, as far as it came. */
export interface UnderWay {
  readonly job: Job | undefined;
  readonly backend: string | undefined;
  /** `responseId`: of its answer, once that has said it. */
  readonly observer: { readonly responseId: string | undefined };
}

export interface KeptAnswers {
  /**
   * Whether whoever asks may have what the request refers to; its tenant stands on the job. 404 where it may not;
   * a header's name: it may go on without that.
   * @param ids the caller's; undefined: nobody is kept apart
   */
  check(
    head: Pick<ClientHead, 'header'>,
    job: Job,
    ids: Caller['ids'],
  ): Refusal | typeof conversationHeader | undefined;
  /** Where what a request refers to was begun, or is under way still. @param self the request itself */
  homeOf(key: string | undefined, self: UnderWay): string | undefined;
}

/** Names what a request belongs to, and may begin it. */
const conversationHeader = 'x-conversation-id';
/** Longer ones are remembered by nobody. */
const maxIdChars = 512;

/** Whether what its sticky key names is made by the request. One that only refers to something doesn't make it its tenant's. */
export function isBegunBy({ stickyKey, refersTo, generates }: Job): boolean {
  return generates && (stickyKey === undefined || refersTo?.includes(stickyKey) !== true);
}

/** @param underWay all requests, in any order */
export function createKeptAnswers(sticky: Sticky, underWay: () => readonly UnderWay[]): KeptAnswers {
  function whose(id: string, asking: Job, running: () => readonly UnderWay[]): 'own' | 'unknown' | 'foreign' {
    if (id === unreadId) return 'foreign';
    const known = sticky.find(id);
    const begun = known === undefined ? running().find(({ job, observer }) => begins(job, observer, id)) : undefined;
    const tenant = known === undefined ? begun?.job?.tenant : known.tenant;
    if (tenant === undefined) return 'unknown';
    return tenant === asking.tenant ? 'own' : 'foreign';

    function begins(job: Job | undefined, { responseId }: UnderWay['observer'], wanted: string): boolean {
      if (job?.tenant === undefined || job === asking) return false;
      return responseId === wanted || (job.stickyKey === wanted && isBegunBy(job));
    }
  }

  return {
    check(head, job, ids) {
      if (ids === undefined) return undefined;
      let copied: readonly UnderWay[] | undefined;
      const running = () => (copied ??= underWay());
      for (const id of job.refersTo ?? []) {
        const found = whose(id, job, running);
        if (found === 'foreign' || (found === 'unknown' && ids === 'own')) return idNotFound(id);
      }
      const conversation = head.header(conversationHeader);
      if (conversation === undefined || conversation === '') return undefined;
      // Sent twice, Node joins them: a server might take either.
      const isOne = !conversation.includes(',') && conversation.length <= maxIdChars;
      const found = isOne ? whose(conversation, job, running) : 'foreign';
      if (found === 'own') return undefined;
      // A generation begins it. What else would read it may have it only if it is its tenant's.
      return found === 'unknown' && (job.generates || ids === 'own_or_unknown') ? undefined : conversationHeader;
    },
    homeOf(key, self) {
      if (key === undefined) return undefined;
      const home = sticky.find(key)?.backend;
      if (home !== undefined) return home;
      return underWay().find((other) => {
        const isHome = other.observer.responseId === key || other.job?.stickyKey === key;
        return other !== self && isHome && other.backend !== undefined;
      })?.backend;
    },
  };
}
