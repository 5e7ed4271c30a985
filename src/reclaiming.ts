/**
 * What a client's request of the batch lane offers to online work: its place, while nothing of an answer has reached its client
 * and it can be sent again. Taking it ends the attempt; `pipeline.ts` then asks for a place anew, before the others. Lines of
 * batches have a client of warmlane's own and offer theirs by themselves.
 */
import type { Reclaimable } from './admit/owner.ts';
import type { Received } from './classify/receive.ts';
import type { Job } from './domain/job.ts';
import { isResendable, type Passage, stopsOnLeaving } from './passage.ts';

export interface Reclaiming {
  readonly job: Job;
  readonly received: Pick<Received, 'body'>;
  /** How often one request may be taken back; then it stays. */
  readonly maxTimes: number;
}

/** @returns undefined for requests of the online lane, and for those that can be sent only once */
export function reclaimableOf(passage: Passage, { job, received, maxTimes }: Reclaiming): Reclaimable | undefined {
  if (job.lane !== 'batch' || passage.terms !== undefined || !isResendable(received.body)) return undefined;
  return {
    loses() {
      const { relay, observer, errand } = passage;
      if (relay === undefined || relay.committed || passage.reclaimed >= maxTimes) return undefined;
      if (!stopsOnLeaving(passage, job)) return undefined;
      // Its prompt as far as it wasn't cached, and what came of its answer.
      return Math.round((errand?.uncachedTokens ?? job.bodyBytes / bytesPerToken) + observer.tokenEvents);
    },
    take() {
      passage.relay?.takeBack();
    },
  };
}

/** About so many bytes of a request make a prompt token. */
const bytesPerToken = 4;
