/**
 * Who may ask, and in which lane: tenants, the hashes of their keys, and the rules that put requests into lanes. Values only;
 * no key is ever in here.
 */
import type { Lane } from '../domain/names.ts';

export interface AccessSettings {
  /** Absent: no key is asked for, and clients' keys pass to the backends. */
  readonly auth?: AuthSettings;
  /** The first that matches counts. */
  readonly rules: readonly LaneRule[];
}

export interface AuthSettings {
  /** Several may be of one tenant. */
  readonly keys: readonly KeySettings[];
  /** Every one that a key names, once. */
  readonly tenants: readonly TenantSettings[];
  /** Request headers besides the keys' own that never go on to backends; lower case. */
  readonly dropHeaders: readonly string[];
  /** What is done with an id of which nobody knows whose it is: 404, or it goes on to a backend. */
  readonly unknownIds: 'refuse' | 'pass';
}

export interface KeySettings {
  /** SHA-256 of the key, 64 hex digits in lower case. */
  readonly sha256: string;
  readonly tenant: string;
  /** The highest that its requests get. */
  readonly lane: Lane;
  /** It stood in the configuration itself, and can be guessed. */
  readonly isWeak?: true;
}

export interface TenantSettings {
  readonly name: string;
  readonly weight: number;
  /** By the names that clients use; absent: all. */
  readonly models?: readonly string[];
  readonly limits: TenantLimits;
}

/** Absent: no limit. */
export interface TenantLimits {
  /** Requests that run or wait at one time, open WebSockets among them. */
  readonly concurrent?: number;
  readonly requestsPerMinute?: number;
  /** Prompt and output together. */
  readonly tokensPerMinute?: number;
}

/** All conditions that it has must hold. */
export interface LaneRule {
  /** A path (`*` at its end: whatever begins so), or a kind of endpoint: `chat`, `embeddings` … */
  readonly path?: string;
  /** As clients name it, or as an alias stands for it; `*` at its end as above. */
  readonly model?: string;
  readonly tenant?: string;
  /** Lower-case name; without a value: it is there, whatever it says. */
  readonly header?: { readonly name: string; readonly value?: string };
  readonly lane: Lane;
}
