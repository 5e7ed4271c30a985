/** What prefill ahead of time may be told. Every number carries its unit in its name. */

/** One prompt to bring into caches. */
export interface WarmPrompt {
  /** for logs: where it stands in the config */
  readonly name: string;
  /** path with query of the route that it is sent to */
  readonly path: string;
  /** a request's body as clients send it; what limits its output is replaced before it is sent */
  readonly body: string;
}

export interface HottestSettings {
  /** Beginnings that many prompts share are remembered, with their text. */
  readonly enabled: boolean;
  /** How many are sent to a backend that comes back. */
  readonly count: number;
  /** Of the prompts' text that is kept, all together. */
  readonly maxBytes: number;
}

export interface WarmUpSettings {
  readonly prompts: readonly WarmPrompt[];
  readonly hottest: HottestSettings;
  /** Backends that are warmed at once. */
  readonly maxConcurrentPerFleet: number;
  /** One prompt's prefill; then it counts as failed. */
  readonly timeoutMs: number;
}
