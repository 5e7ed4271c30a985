/** What prefill ahead of time tells of itself, for one backend. Only rise. */
export interface WarmUpFigures {
  readonly backend: string;
  /** prompts by how their prefill ended; `given_up`: its turn never came */
  readonly ended: Readonly<Record<WarmUpEnd, number>>;
  /** prompt tokens that were computed for it */
  readonly tokens: number;
  /** online requests that found a beginning warm that nobody but a warm-up had brought there */
  readonly used: number;
  /** what those would have waited for it; s */
  readonly savedSeconds: number;
}

export const warmUpEnds = ['done', 'failed', 'aborted', 'given_up'] as const;

export type WarmUpEnd = (typeof warmUpEnds)[number];
