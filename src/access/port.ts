/**
 * Who asks, and what they may: the key's check, the lane that a request gets, its tenant's limits. The pipeline asks before it
 * reads a body (`caller`) and again once the job is known (`place`); the listeners' own routes ask `caller` only.
 * Without `auth` in the config there is one tenant, keys pass through, and only lane rules and `service_tier` count.
 */
import type { Job } from '../domain/job.ts';
import type { Lane } from '../domain/names.ts';
import type { Refusal } from '../domain/refusal.ts';

export interface Caller {
  /** Name from the config, never a key. `anonymous` without `auth`. */
  readonly tenant: string;
  /** Of its key; a request may go lower, never higher. */
  readonly lane: Lane;
  /** Share of what tenants of a lane get when all want more than there is. */
  readonly weight: number;
  /** Models that it may use, by the names that clients use; absent: all. */
  readonly models?: ReadonlySet<string>;
  /** Its key is warmlane's: it isn't for backends. */
  readonly keyIsOurs: boolean;
  /** Headers that stay here with it, lower case: all that may hold a credential. Absent: none. */
  readonly dropped?: ReadonlySet<string>;
  /** What it may refer to by the id that a backend gave it: its tenant's, or also what nobody knows here. Absent: all. */
  readonly ids?: 'own' | 'own_or_unknown';
  /** A browser's question, let through without a key: no backend's own key is lent to it, and nothing is learnt from it. */
  readonly preflight?: true;
}

/** What a request may do; to be ended once, whatever became of it: what comes after the first time counts for nothing. */
export interface Stay {
  /** `x-ratelimit-*` for its answer: raw names and values in turn; empty where it has no limits. */
  readonly headers: readonly string[];
  /** @param tokens prompt and output as the engine counted them; absent: not known, the estimate stands */
  ended(tokens: { readonly prompt?: number; readonly output?: number }): void;
}

/** To be ended once; what comes after the first time counts for nothing. */
export interface Claim {
  ended(): void;
}

/** What a front door knows of a request before its body. */
export interface AccessHead {
  readonly method: string;
  /** Path with query. */
  readonly target: string;
  header(name: string): string | undefined;
}

export interface Access {
  /** 401 without a key that is known, 403 where it may not be used. */
  caller(head: AccessHead): Caller | Refusal;
  /** In which lane it is, whether it may go on or not. Puts nothing on the job; the pipeline does. */
  lane(caller: Caller, head: AccessHead, job: Job): Lane;
  /** 403 for a model that isn't the caller's, 429 past its limits. */
  place(caller: Caller, job: Job): Stay | Refusal;
  /** One of the tenant's requests at one time, for what warmlane answers itself; 429 past that limit. The others don't count. */
  claim(tenant: string): Claim | Refusal;
  /** A line of a tenant's batch, which comes by no key and counts against no limit: 403 for a model that isn't the tenant's. */
  line(tenant: string, job: Job): Pick<Caller, 'weight' | 'ids'> | Refusal;
}
