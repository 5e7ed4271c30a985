/**
 * The port through which the fleet asks a backend something: one short GET, answered or failed by a stated moment.
 * The real one is `probe-fetch.ts`; tests script it. Failures are values, so a probe never throws.
 */
import type { BackendSettings } from './settings.ts';

export type ProbeFailureKind =
  /** nothing listens, host unreachable */
  | 'refused'
  /** no connection within the time: the host swallows packets */
  | 'connect_timeout'
  /** connected, but no whole answer within the time: may be mere work (R12) */
  | 'timeout'
  | 'reset'
  | 'dns'
  | 'tls'
  /** not HTTP, too large, or called off */
  | 'other';

export interface ProbeFailure {
  readonly failure: ProbeFailureKind;
  /** For logs; names addresses, never keys. */
  readonly detail: string;
}

export interface ProbeAnswer {
  readonly status: number;
  /** Names in lower case. */
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
}

export type ProbeResult = ProbeAnswer | ProbeFailure;

export interface ProbeOptions {
  /** Absolute: from the call to the last byte of the answer. */
  readonly timeoutMs: number;
  readonly method?: 'GET' | 'HEAD';
  /** A client's own credentials, by lower-case header name; they take the place of the backend's key. */
  readonly credentials?: Readonly<Record<string, string>>;
  /** Calls the probe off; it then fails with `other`. */
  readonly signal?: AbortSignal;
}

/** @param path begins with `/`, without the backend's own path prefix */
export type ProbeFetch = (path: string, options: ProbeOptions) => Promise<ProbeResult>;

/** What a probe needs to know of a backend. */
export type ProbeTarget = Pick<BackendSettings, 'url' | 'apiKey' | 'tls'>;

export type ProbeFetchFactory = (target: ProbeTarget) => ProbeFetch;

export function isFailure(result: ProbeResult): result is ProbeFailure {
  return 'failure' in result;
}
