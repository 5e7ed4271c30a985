/**
 * What a latency objective may say, the profiles that come with warmlane, and which requests they are for.
 * Every number carries its unit in its key. Values only: `judge.ts` applies them.
 */

/** The bounds of one profile; a bound that is left out is not asked for. */
export interface SloBounds {
  /** request's last byte → first visible token */
  readonly ttftMs?: number;
  /** added to `ttftMs` for each 1,000 prompt tokens that had to be computed */
  readonly ttftPerKilotokenMs?: number;
  /** request's last byte → first token that is not reasoning */
  readonly ttfaMs?: number;
  readonly ttfaPerKilotokenMs?: number;
  /** gap between two token events of one choice */
  readonly itlMs?: number;
  readonly itlPerKilotokenMs?: number;
  /** share of a request's gaps that must be within `itlMs` */
  readonly itlShare?: number;
  readonly tpotMs?: number;
  readonly tpotPerKilotokenMs?: number;
  /** request's last byte → last token; of an answer that is not streamed: → its end */
  readonly e2eMs?: number;
  readonly e2ePerKilotokenMs?: number;
  /** how many of the judged requests must meet all bounds */
  readonly percent?: number;
  /** smooth goodput: time that its reader takes for one token */
  readonly readTokenMs?: number;
  /** smooth goodput: what a second of the reader's waiting costs */
  readonly waitCostTokensPerSecond?: number;
}

export interface SloProfile extends SloBounds {
  readonly name: string;
  readonly itlShare: number;
  readonly percent: number;
}

export interface SloChecks {
  /** Whether answers could be used is looked at. */
  readonly usable: boolean;
  /** Text of one answer that is kept for that while it runs; longer ones go unchecked. */
  readonly maxTextBytes: number;
  /** Repeated requests are looked for. */
  readonly retries: boolean;
  /** So long after a failed one the same request counts as its repetition. */
  readonly retryWithinMs: number;
}

export interface SloSettings {
  /** All that can be named: shipped and own. */
  readonly profiles: readonly SloProfile[];
  /** For generating requests that nothing else says a profile for; absent: none. */
  readonly fallback?: string;
  /** Endpoint kind, or a path that begins with a slash → profile. */
  readonly routes: Readonly<Record<string, string>>;
  /** Model as clients name it, or as the backend does → profile. */
  readonly models: Readonly<Record<string, string>>;
  readonly checks: SloChecks;
}

/** A request that names this in its header is not judged. */
export const noProfile = 'none';

export const profileDefaults = { itlShare: 0.95, percent: 99 } as const;

/**
 * `mlperf-…`: MLPerf inference rules, Llama 2 70B, p99 of TTFT and TPOT, interactive and server scenario. The others are
 * warmlane's: a chat feels immediate up to 200 ms; a reader skims 30 ms a token; speech that is to begin within 500 ms
 * leaves 180 ms for the first token, beside listening and speaking; a completion that comes after 150 ms is typed over.
 */
export const shippedProfiles: Readonly<Record<string, SloBounds>> = {
  chat: { ttftMs: 200, percent: 99 },
  reading: { itlMs: 30, itlShare: 0.95, percent: 95 },
  voice: { ttftMs: 180, percent: 95 },
  autocomplete: { e2eMs: 150, percent: 95 },
  'mlperf-interactive': { ttftMs: 450, tpotMs: 40, percent: 99 },
  'mlperf-server': { ttftMs: 2000, tpotMs: 200, percent: 99 },
};

/** Own profiles beside the shipped ones; one of a shipped name changes the keys that it states and keeps the others. */
export function allProfiles(own: Readonly<Record<string, SloBounds>>): SloProfile[] {
  const names = new Set([...Object.keys(shippedProfiles), ...Object.keys(own)]);
  return [...names].map((name) => ({ ...profileDefaults, ...shippedProfiles[name], ...own[name], name }));
}
