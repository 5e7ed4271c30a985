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

/** Where a backend was named. */
export type BackendSource = 'config' | 'file' | 'dns' | 'api';

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
  /** SGLang with priority scheduling: told by the body's `priority` whom to take first. */
  readonly priorityField?: boolean;
  /** Sent as `Authorization: Bearer` on probes, and on requests that carry no credentials of their own. */
  readonly apiKey?: string;
  readonly tls?: BackendTls;
  /** Relative capacity; 1 unless given. */
  readonly weight?: number;
  /** For people, and for what reads the admin pages. */
  readonly labels?: Readonly<Record<string, string>>;
  /** Takes no new work, what runs there ends well. */
  readonly drain?: boolean;
  /** Absent: the config. */
  readonly source?: BackendSource;
}

/** When a backend that fails at its work is left alone for a while. */
export interface BreakerSettings {
  readonly enabled: boolean;
  /** So many failures in a row open it. */
  readonly failures: number;
  /** So does this share of the requests within the window, from `minRequests` on. */
  readonly share: number;
  readonly minRequests: number;
  readonly windowMs: number;
  /** How long it stays open the first time; doubled each time it opens again soon. */
  readonly backoffMs: number;
  readonly maxBackoffMs: number;
}

export const breakerDefaults: BreakerSettings = {
  enabled: true,
  failures: 5,
  share: 0.5,
  minRequests: 20,
  windowMs: 30_000,
  backoffMs: 1000,
  maxBackoffMs: 30_000,
};

/** Backends by a name that is resolved anew again and again: one for each address. */
export interface DnsSource {
  /** A host, or an SRV record (`_http._tcp.…`), which brings its own ports. */
  readonly name: string;
  /** Of hosts; 80 or 443 unless given. SRV records bring their own. */
  readonly port?: number;
  readonly scheme: 'http' | 'https';
  /** Between two resolutions; at least 1,000. The records' TTL plays no part. */
  readonly intervalMs: number;
  /** `auto`: IPv4 addresses if there are any, else IPv6, since a server with both would count twice. */
  readonly family: 'auto' | 'ipv4' | 'ipv6' | 'both';
  /** Path prefix of all of them; '' or '/v1'. */
  readonly path: string;
  /** What holds for each of them. */
  readonly each: Omit<BackendSettings, 'name' | 'url' | 'source'>;
}

export interface DiscoverySettings {
  readonly dns: readonly DnsSource[];
  /** A YAML or JSON file with a list of backends, read anew when it changes. */
  readonly file?: { readonly path: string };
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
  /** `breakerDefaults` unless given. */
  readonly breaker?: BreakerSettings;
}
