/**
 * Fairness between the tenants of one lane: virtual token counters (VTC, Sheng et al., OSDI 2024). A tenant's counter grows
 * by what it was served, uncached prompt tokens + 2 × output tokens, over its weight; who has the least is next. A tenant
 * that comes back from idling is lifted to the least of those that wait, so that idling saves nothing up.
 * Within a tenant its two kinds of requests take turns, job by job: those that a client waits for and lines of batches, of which
 * thousands may stand there. So neither waits behind all of the other.
 * The prompt is charged at the grant, the output then by an estimate that is corrected when it is known.
 */
import type { Job } from '../domain/job.ts';
import type { AnswerTold } from '../domain/routing.ts';
import type { Ask } from './owner.ts';

export interface Tenant {
  /** tokens served, weighed */
  counter: number;
  /** the same with what those would cost that a walk of the queue has passed */
  walked: number;
  /** mean of its answers */
  outputTokens: number;
  /** jobs of it that wait */
  waiting: number;
  /** The last one of it that got a place was a line of a batch, or none has got one yet. */
  lineWasLast: boolean;
}

/** What of a job is charged: the job, and whether it is a line of a batch. */
export type Charged = Pick<Ask, 'job' | 'patient'>;

/** What one job was charged with, until it is known better. */
export interface Bill {
  /** @param told what it took; only what it states is corrected */
  correct(
    told: Pick<AnswerTold, 'outputTokens' | 'promptTokens' | 'cachedTokens'> & { readonly computed?: boolean },
  ): void;
}

export interface Fairness {
  /** Its tenant, as a new arrival: lifted if it idled. @param queues somebody waits in the lane */
  arrives(job: Job, queues: boolean): Tenant;
  /** It has got a place. */
  charge(tenant: Tenant, ask: Charged, uncachedTokens: number): Bill;
  /** A walk of the queue has passed a job of it that must wait. */
  passed(tenant: Tenant, job: Job, promptTokens: number): void;
}

/** Output is charged twice: a token of it takes as much of an engine as two of a prompt, about (VTC, as its authors set it). */
const outputWeight = 2;
/** Of tenants that nothing is known of yet. */
const firstOutputTokens = 256;
const learning = 0.1;

/** @param maxTenants counters kept; past it those that idle and owe nobody anything are forgotten */
export function createFairness(maxTenants: number): Fairness {
  const tenants = new Map<string, Tenant>();
  /** Of the one that was served last: who comes while nobody waits starts from there. */
  let latest = 0;

  function floor(): number {
    let least = Infinity;
    for (const { waiting, counter } of tenants.values()) if (waiting > 0 && counter < least) least = counter;
    return least === Infinity ? latest : least;
  }

  function added(name: string): Tenant {
    if (tenants.size >= maxTenants) forget();
    const tenant: Tenant = {
      counter: latest,
      walked: latest,
      outputTokens: firstOutputTokens,
      waiting: 0,
      lineWasLast: true,
    };
    tenants.set(name, tenant);
    return tenant;
  }

  /** Who would be lifted anyway loses nothing; else the one that is served next loses least. */
  function forget(): void {
    const least = floor();
    let first: string | undefined;
    for (const [name, { waiting, counter }] of tenants) {
      if (waiting > 0) continue;
      if (counter <= least) tenants.delete(name);
      else first ??= name;
    }
    if (tenants.size >= maxTenants && first !== undefined) tenants.delete(first);
  }

  return {
    arrives({ tenant: name = '' }, queues) {
      const tenant = tenants.get(name) ?? added(name);
      if (tenant.waiting === 0 && tenants.size > 1)
        tenant.counter = Math.max(tenant.counter, queues ? floor() : latest);
      return tenant;
    },
    charge(tenant, { job, patient }, uncachedTokens) {
      const outputTokens = expectedOutput(tenant, job);
      const cost = (uncachedTokens + outputWeight * outputTokens) / (job.weight ?? 1);
      tenant.counter += cost;
      tenant.walked += cost;
      tenant.lineWasLast = patient === true;
      latest = tenant.counter;
      return new OneBill(tenant, { uncachedTokens, outputTokens, weight: job.weight ?? 1 });
    },
    passed(tenant, job, promptTokens) {
      tenant.walked += (promptTokens + outputWeight * expectedOutput(tenant, job)) / (job.weight ?? 1);
    },
  };
}

/** As many as anybody gets of one request. */
const mostChoices = 128;

function expectedOutput({ outputTokens }: Tenant, { generates, choices, maxOutputTokens = Infinity }: Job): number {
  // What a client asks for is no measure of what it gets: a huge `n` must not move the counters that others are lifted to.
  return generates ? Math.min(choices, mostChoices) * Math.min(outputTokens, maxOutputTokens) : 0;
}

class OneBill implements Bill {
  readonly #tenant: Tenant;
  readonly #weight: number;
  #uncachedTokens: number;
  #outputTokens: number;

  constructor(
    tenant: Tenant,
    charged: { readonly uncachedTokens: number; readonly outputTokens: number; readonly weight: number },
  ) {
    this.#tenant = tenant;
    this.#weight = charged.weight;
    this.#uncachedTokens = charged.uncachedTokens;
    this.#outputTokens = charged.outputTokens;
  }

  correct({ computed, outputTokens, promptTokens, cachedTokens }: Parameters<Bill['correct']>[0]): void {
    const tenant = this.#tenant;
    // What never came to its first token has cost no output; of its prompt nobody knows.
    const output = outputTokens ?? (computed === false ? 0 : this.#outputTokens);
    const uncached =
      promptTokens === undefined || cachedTokens === undefined
        ? this.#uncachedTokens
        : Math.max(0, promptTokens - cachedTokens);
    tenant.counter += (uncached - this.#uncachedTokens + outputWeight * (output - this.#outputTokens)) / this.#weight;
    this.#uncachedTokens = uncached;
    this.#outputTokens = output;
    if (outputTokens !== undefined) tenant.outputTokens += learning * (outputTokens - tenant.outputTokens);
  }
}
