/** What the two lanes are bounded by, and how batch is held back. Values only; times in ms. */

export interface LaneSettings {
  /** Prompt tokens (estimated from bytes) of online jobs that may wait at once; one more is refused with 429. */
  readonly maxQueuedTokens: number;
  readonly batch: BatchLaneSettings;
  readonly control: ControlSettings;
  readonly reclaim: ReclaimSettings;
  /** Refusal by predicted wait: past so many times the TTFT bound of the job's SLO (decision 15). 0: never. */
  readonly refuseBeyond: number;
}

export interface BatchLaneSettings {
  /** Jobs of the batch lane that may wait at once, the lines of the Batch API that are under way among them. */
  readonly maxQueuedJobs: number;
  readonly maxQueuedTokens: number;
  /** Longest wait of a batch job that somebody waits for (`service_tier: flex`); lines of the Batch API wait on. 0: no limit. */
  readonly queueTimeoutMs: number;
  /** Of a backend's places (or of `control.maxPerBackend` where it has none), 0 to 1: what batch gets whatever online wants. */
  readonly minShare: number;
  /** A batch job that waited so long goes before newer online ones. 0: never. */
  readonly agingMs: number;
  /** Places of each backend that batch never takes while anybody was online lately. */
  readonly reserveSlots: number;
}

export interface ControlSettings {
  /** `adaptive`, or a fixed number of batch jobs on each backend. */
  readonly cap: 'adaptive' | number;
  /** The cap never grows beyond it, where the backend says no number of places. */
  readonly maxPerBackend: number;
  readonly tickMs: number;
  /** Pressure (share of the SLO's bound) above which the cap is cut. */
  readonly threshold: number;
  /** What is left of the cap after a cut. */
  readonly decrease: number;
  /** Jobs added in each quiet tick. */
  readonly increase: number;
  /** So long without online traffic there batch takes all places. */
  readonly idleMs: number;
  /** For jobs whose SLO says nothing; ms. */
  readonly ttftMs: number;
  readonly tpotMs: number;
  /** At most one batch prefill on a backend, none while an online one waits. */
  readonly gate: boolean;
  /** Tells engines with priority scheduling whom to take first. */
  readonly enginePriority: boolean;
  /** The `priority` in a client's body goes on where warmlane puts none in its place. */
  readonly trustClientPriority: boolean;
}

export interface ReclaimSettings {
  readonly enabled: boolean;
  /** How often one job may be taken back once its answer has begun; then it stays. 0: never at all. */
  readonly maxTimes: number;
  /** An online request without its first token after this share of its TTFT bound, on a backend that is full, is blocked. */
  readonly afterTtftShare: number;
}

export const laneDefaults: LaneSettings = {
  // Two thousand prompts of a thousand tokens: minutes of prefill, more than any bound on waiting allows.
  maxQueuedTokens: 2_000_000,
  batch: {
    maxQueuedJobs: 10_000,
    maxQueuedTokens: 20_000_000,
    // As OpenAI's documentation has its clients wait for flex.
    queueTimeoutMs: 900_000,
    minShare: 0,
    agingMs: 0,
    reserveSlots: 0,
  },
  control: {
    cap: 'adaptive',
    maxPerBackend: 64,
    tickMs: 250,
    threshold: 0.85,
    decrease: 0.5,
    increase: 1,
    idleMs: 10_000,
    ttftMs: 2000,
    tpotMs: 100,
    gate: true,
    enginePriority: true,
    trustClientPriority: false,
  },
  reclaim: { enabled: true, maxTimes: 2, afterTtftShare: 0.25 },
  refuseBeyond: 3,
};
