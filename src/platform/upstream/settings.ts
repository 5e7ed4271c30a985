/** How many connections to model servers may wait unused, and for how long. */
export interface UpstreamSettings {
  readonly maxIdlePerTarget: number;
  readonly maxIdleTotal: number;
  /** Life of an unused connection whose server announced none; below uvicorn's 5,000 (R02). */
  readonly idleMs: number;
  /** Longest life of an unused connection, whatever its server announced. */
  readonly maxIdleMs: number;
}

export const upstreamDefaults: UpstreamSettings = {
  maxIdlePerTarget: 256,
  maxIdleTotal: 1024,
  idleMs: 4000,
  maxIdleMs: 300_000,
};
