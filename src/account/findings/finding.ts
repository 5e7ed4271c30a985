/** What a detector says, and what becomes of it. Values only. */

export const findingNames = [
  'prefill_stall',
  'kv_exhaustion',
  'preemption',
  'speculation',
  'several_tokens_per_event',
  'buffering',
  'foreign_traffic',
  'unstable_prompt_start',
  'prefix_too_short_for_block',
  'cached_tokens_untold',
  'prediction_drift',
] as const;

export type FindingName = (typeof findingNames)[number];

/** Numbers and short words; keys end in their unit. */
export type Evidence = Readonly<Record<string, number | string>>;

/** The finding holds now, by this evidence. */
export interface Sighting {
  /** How strong the evidence is: the strongest of a finding's time is kept. */
  readonly weight: number;
  /** One sentence for people. */
  readonly says: string;
  readonly evidence: Evidence;
}

/** A sighting with what it is of, from a part that looks at all backends at once. */
export interface Observation {
  readonly finding: FindingName;
  readonly backend: string;
  readonly sighting: Sighting;
}

export interface Finding {
  readonly finding: FindingName;
  readonly backend: string;
  readonly beganMs: number;
  readonly endedMs?: number;
  readonly says: string;
  readonly evidence: Evidence;
}

export interface FindingEvent {
  readonly kind: 'began' | 'ended';
  readonly finding: Finding;
}

/** What detectors may know of a backend beside its points and its requests. */
export interface BackendFacts {
  readonly engine: string;
  readonly slots?: number;
  readonly contextTokens?: number;
}
