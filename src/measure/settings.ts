/** Bounds of what is kept of one request. */
export interface MeasureSettings {
  /** Token stamps kept per request; later tokens are counted, not stamped. */
  readonly maxStamps: number;
  /** Largest event that is read; a larger one passes through unread. */
  readonly maxEventBytes: number;
  /** Largest JSON value (usage, timings, choices …) kept of an answer that is not streamed. */
  readonly maxAnswerValueBytes: number;
  /** Share of the prompt that must come from the cache for `prefix_hit`. */
  readonly prefixHitShare: number;
  /** Answers are checked for being of use; text kept of one that must be JSON. Absent: no checks. */
  readonly maxCheckedBytes?: number;
}
