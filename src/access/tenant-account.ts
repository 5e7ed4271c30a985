/**
 * What one tenant has used of its limits: requests at once, requests and tokens of the last minute. Lets a request in or says
 * why not, and settles it once. Knows no keys and no lanes.
 */
import type { Refusal } from '../domain/refusal.ts';
import { durationText } from './duration-text.ts';
import type { Claim, Stay } from './port.ts';
import { RateBucket } from './rate-bucket.ts';
import { type LimitName, overLimit } from './refusals.ts';
import type { TenantLimits } from './settings.ts';
import type { TokenEstimate } from './token-estimate.ts';

export class TenantAccount {
  #limits: TenantLimits;
  #requests: RateBucket | undefined;
  #tokens: RateBucket | undefined;
  /** The same, or those of the last limit that there was: it may come back. */
  #lastRequests: RateBucket | undefined;
  #lastTokens: RateBucket | undefined;
  #running = 0;
  readonly #nowMs: () => number;

  constructor(limits: TenantLimits, nowMs: () => number) {
    this.#limits = limits;
    this.#nowMs = nowMs;
    this.limit(limits);
  }

  /** Other limits from now on, or none; what was used of the old ones counts on, also where a limit is away for a while. */
  limit(limits: TenantLimits): void {
    const nowMs = this.#nowMs();
    this.#limits = limits;
    this.#requests = bucketFor(limits.requestsPerMinute, this.#lastRequests, nowMs);
    this.#tokens = bucketFor(limits.tokensPerMinute, this.#lastTokens, nowMs);
    this.#lastRequests = this.#requests ?? this.#lastRequests;
    this.#lastTokens = this.#tokens ?? this.#lastTokens;
  }

  /** Nothing runs, and nothing is used that a new account would not have. */
  isIdle(): boolean {
    const nowMs = this.#nowMs();
    const isFull = (bucket: RateBucket | undefined) => bucket === undefined || bucket.fullMs(nowMs) === 0;
    return this.#running === 0 && isFull(this.#lastRequests) && isFull(this.#lastTokens);
  }

  /** Only the number of requests at one time counts. */
  claim(): Claim | Refusal {
    const refusal = this.#crowded(this.#nowMs());
    if (refusal !== undefined) return refusal;
    this.#running += 1;
    return new TenantClaim(this);
  }

  enter(estimate: TokenEstimate): Stay | Refusal {
    const nowMs = this.#nowMs();
    const requests = this.#requests;
    const tokens = this.#tokens;
    const crowded = this.#crowded(nowMs);
    if (crowded !== undefined) return crowded;
    const turnMs = requests?.waitMs(1, nowMs) ?? 0;
    if (requests !== undefined && turnMs > 0)
      return this.#refused('requestsPerMinute', { allowed: requests.perMinute, waitMs: turnMs }, nowMs);
    const charge = estimate.prompt + estimate.output;
    const tokensMs = charge === 0 ? 0 : (tokens?.waitMs(charge, nowMs) ?? 0);
    if (tokens !== undefined && tokensMs > 0)
      return this.#refused('tokensPerMinute', { allowed: tokens.perMinute, waitMs: tokensMs }, nowMs);
    requests?.take(1, nowMs);
    tokens?.take(charge, nowMs);
    this.#running += 1;
    return new TenantStay(this, { estimate, headers: this.#headers(nowMs) });
  }

  /** A request that was let in is over. @param tokens what it took beyond its estimate; below 0: less */
  left(tokens: number): void {
    this.#running -= 1;
    if (tokens !== 0) this.#lastTokens?.take(tokens, this.#nowMs());
  }

  #crowded(nowMs: number): Refusal | undefined {
    const { concurrent } = this.#limits;
    if (concurrent === undefined || this.#running < concurrent) return undefined;
    return this.#refused('concurrent', { allowed: concurrent, waitMs: 0 }, nowMs);
  }

  #refused(limit: LimitName, of: { readonly allowed: number; readonly waitMs: number }, nowMs: number): Refusal {
    return overLimit(limit, { allowed: of.allowed, waitMs: of.waitMs, headers: this.#headers(nowMs) });
  }

  #headers(nowMs: number): readonly string[] {
    const headers: string[] = [];
    if (this.#requests !== undefined) addHeaders(headers, 'requests', this.#requests, nowMs);
    if (this.#tokens !== undefined) addHeaders(headers, 'tokens', this.#tokens, nowMs);
    return headers;
  }
}

class TenantClaim implements Claim {
  #account: TenantAccount | undefined;

  constructor(account: TenantAccount) {
    this.#account = account;
  }

  ended(): void {
    this.#account?.left(0);
    this.#account = undefined;
  }
}

class TenantStay implements Stay {
  readonly headers: readonly string[];
  readonly #account: TenantAccount;
  readonly #estimate: TokenEstimate;
  #isOver = false;

  constructor(account: TenantAccount, told: { readonly estimate: TokenEstimate; readonly headers: readonly string[] }) {
    this.headers = told.headers;
    this.#account = account;
    this.#estimate = told.estimate;
  }

  ended({ prompt, output }: { readonly prompt?: number; readonly output?: number }): void {
    if (this.#isOver) return;
    this.#isOver = true;
    const estimate = this.#estimate;
    const more = (prompt ?? estimate.prompt) - estimate.prompt + (output ?? estimate.output) - estimate.output;
    this.#account.left(more);
  }
}

/** Its level goes along: new limits are no way to a fresh minute. */
function bucketFor(
  perMinute: number | undefined,
  before: RateBucket | undefined,
  nowMs: number,
): RateBucket | undefined {
  if (perMinute === undefined) return undefined;
  if (before === undefined) return new RateBucket(perMinute, nowMs);
  if (before.perMinute === perMinute) return before;
  return new RateBucket(perMinute, nowMs, perMinute - (before.perMinute - before.level(nowMs)));
}

function addHeaders(headers: string[], of: 'requests' | 'tokens', bucket: RateBucket, nowMs: number): void {
  const remaining = Math.max(0, Math.floor(bucket.level(nowMs)));
  if (of === 'requests')
    headers.push('x-ratelimit-limit-requests', String(bucket.perMinute), 'x-ratelimit-remaining-requests');
  else headers.push('x-ratelimit-limit-tokens', String(bucket.perMinute), 'x-ratelimit-remaining-tokens');
  headers.push(String(remaining));
  headers.push(of === 'requests' ? 'x-ratelimit-reset-requests' : 'x-ratelimit-reset-tokens');
  headers.push(durationText(bucket.fullMs(nowMs)));
}
