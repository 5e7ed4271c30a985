/** What the exact-answer cache may be told. Every number carries its unit in its name. */

export interface AnswerCacheSettings {
  /** Off: nothing is read, kept or marked. */
  readonly enabled: boolean;
  /** Answers kept, all together; those being recorded may take as much again. */
  readonly maxBytes: number;
  /** An answer is given again for so long after it came. */
  readonly ttlMs: number;
  /** A longer answer is not kept. */
  readonly maxAnswerBytes: number;
  /** Header by which a client asks for the cache or stays out of it, and in which the answer tells what became of that; lower case. */
  readonly header: string;
  /** Headers that tell tenants apart, besides the usual credentials; lower case. */
  readonly tenantHeaders: readonly string[];
}
