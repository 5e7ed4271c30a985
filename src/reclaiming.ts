/**
 * What a client's request of the batch lane offers to online work: its place, while nothing of an answer has reached its client
 * and it can be sent again. Taking it ends the attempt; `pipeline.ts` then asks for a place anew, before the others. Lines of
 * batches have a client of warmlane's own and offer theirs by themselves.
 */
import type { Reclaimable } from './admit/owner.ts';
import type { Received } from './classify/receive.ts';
import type { Job } from './domain/job.ts';
import { isResendable, type Passage, standsIn, stopsOnLeaving } from './passage.ts';

export interface Reclaiming {
  readonly job: Job;
  readonly received: Pick<Received, 'body'>;
  /** How often one request may be taken back once its answer has begun; then it stays. 0: never at all. */
  readonly maxTimes: number;
}

/** @returns undefined for requests of the online lane, and for those that can be sent only once */
export function reclaimableOf(passage: Passage, { job, received, maxTimes }: Reclaiming): Reclaimable | undefined {
  if (job.lane !== 'batch' || passage.terms !== undefined || maxTimes === 0) return undefined;
  if (!isResendable(received.body)) return undefined;
  return {
    loses() {
      const { relay, observer, errand } = passage;
      if (relay === undefined || relay.committed || !stopsOnLeaving(passage, job)) return undefined;
      const { reclaimed, promptsTaken } = passage;
      if (reclaimed - promptsTaken >= maxTimes && standsIn(passage, job) === 'answer') return undefined;
      // Its prompt as far as it wasn't cached, and what came of its answer.
      return Math.round((errand?.uncachedTokens ?? job.bodyBytes / bytesPerToken) + observer.tokenEvents);
    },
    take() {
      if (standsIn(passage, job) === 'prompt') passage.promptsTaken += 1;
      passage.relay?.takeBack();
    },
  };
}

/** About so many bytes of a request make a prompt token. */
const bytesPerToken = 4;
