/** Who may open a WebSocket: the same question as for a request, in the words of whoever opens it. Keeps nothing. */
import type { Job } from '../domain/job.ts';
import { isRefusal, type Refusal } from '../domain/refusal.ts';
import { anonymousTenant } from '../domain/tenant.ts';
import type { Access, AccessHead, Stay } from './port.ts';

export interface Entry {
  readonly dropped?: ReadonlySet<string> | undefined;
  /** Puts lane and tenant on the job, which nobody else has yet. */
  place(job: Job): Stay | Refusal;
}

export function enter(access: Access, head: AccessHead): Entry | Refusal {
  const caller = access.caller(head);
  if (isRefusal(caller)) return caller;
  const { tenant, weight, dropped } = caller;
  return {
    dropped,
    place(job) {
      if (tenant !== anonymousTenant) Object.assign(job, { tenant, weight });
      // Before it may be refused: that counts in its lane too.
      Object.assign(job, { lane: access.lane(caller, head, job) });
      return access.place(caller, job);
    },
  };
}
