/** Backends and how they are looked after. */
import type { Engine } from '../domain/names.ts';

export interface BackendTls {
  /** PEM text of the authorities to trust instead of the system's. */
  readonly ca?: string;
  /** SNI and certificate name, when it isn't the URL's host. */
  readonly serverName?: string;
  /** False switches verification off; loudly logged. */
  readonly verify: boolean;
}

export interface BackendSettings {
  /** Unique; host:port unless given. */
  readonly name: string;
  /** http(s) origin, path prefix allowed, no trailing slash. */
  readonly url: string;
  /** Overrides detection. */
  readonly engine?: Engine;
  /** Overrides what `/v1/models` says. */
  readonly models?: readonly string[];
  /** Jobs in flight at most; llama-server: its slots unless given. */
  readonly maxInFlight?: number;
  /** Sent as `Authorization: Bearer` on probes, and on requests that carry no credentials of their own. */
  readonly apiKey?: string;
  readonly tls?: BackendTls;
}

export interface FleetSettings {
  readonly backends: readonly BackendSettings[];
  /** Pause between two probes of a healthy backend; at least 2,000 (decision 10). */
  readonly probeIntervalMs: number;
  /** Pause between two probes of one that is down, loading or silent. */
  readonly probeDownIntervalMs: number;
  readonly probeTimeoutMs: number;
  /** Read the engines' own `/metrics` with the probes. */
  readonly engineMetrics: boolean;
}
