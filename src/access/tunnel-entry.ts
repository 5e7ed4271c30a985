/** Who may open a WebSocket: the same question as for a request, in the words of whoever opens it. Keeps nothing. */
import type { Job } from '../domain/job.ts';
import { isRefusal, type Refusal } from '../domain/refusal.ts';
import { anonymousTenant } from '../domain/tenant.ts';
import type { Access, AccessHead, Caller, Stay } from './port.ts';

export interface Entry {
  /** To be asked for once the job has its place. */
  readonly dropped?: ReadonlySet<string> | undefined;
  /** Puts lane and tenant on the job, which nobody else has yet. */
  place(job: Job): Stay | Refusal;
}

/** What else a caller may be refused, or kept from the backend: a header by its lower-case name. */
export type Binding = (job: Job, ids: Caller['ids']) => Refusal | string | undefined;

export function enter(access: Access, head: AccessHead, binding: Binding): Entry | Refusal {
  const caller = access.caller(head);
  if (isRefusal(caller)) return caller;
  const { tenant, weight, ids } = caller;
  let { dropped } = caller;
  return {
    get dropped() {
      return dropped;
    },
    place(job) {
      if (tenant !== anonymousTenant) Object.assign(job, { tenant, weight });
      // Before it may be refused: that counts in its lane too.
      Object.assign(job, { lane: access.lane(caller, head, job) });
      const stay = access.place(caller, job);
      if (isRefusal(stay)) return stay;
      const bound = binding(job, ids);
      if (typeof bound === 'string') dropped = new Set([...(dropped ?? []), bound]);
      else if (bound !== undefined) {
        stay.ended({});
        return bound;
      }
      return stay;
    },
  };
}
