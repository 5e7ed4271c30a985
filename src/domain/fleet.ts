/**
 * What is known of all backends, as an immutable snapshot: the only form in which routing and admission see them.
 */
import type { Engine } from './names.ts';

export type BackendHealth =
  /** not probed yet */
  | 'unknown'
  /** answers */
  | 'up'
  /** answers, its model is still loading */
  | 'loading'
  /** finishes what runs, takes nothing new */
  | 'draining'
  /** refuses, resets, or its engine is dead */
  | 'down'
  /** answers 401/403 to probes: key missing or wrong in the config */
  | 'auth';

/** What an engine says of the size of its one model. */
export interface ModelSize {
  /** All parameters. */
  readonly params?: number;
  /** Of all tensors. */
  readonly weightBytes?: number;
}

export interface BackendView {
  /** Stable short name, from the config or host:port. Unique. */
  readonly name: string;
  /** Origin plus optional path prefix, no trailing slash. */
  readonly url: string;
  readonly engine: Engine;
  /** False until a probe or the config told the engine. */
  readonly engineKnown: boolean;
  readonly version?: string;
  readonly health: BackendHealth;
  /** Monotonic ms of the last change of `health`. */
  readonly healthSinceMs: number;
  /** Why, as a short machine word: `refused`, `engine_dead`, `model_loading` … */
  readonly healthReason?: string;
  /** Model ids that it serves; empty means: not known, serves anything. */
  readonly models: readonly string[];
  /** Jobs that it can start at once (llama-server: slots; else a configured limit); undefined: no limit. */
  readonly slots?: number;
  /** Slots that may still be busy with an abandoned request (R10). */
  readonly ghostSlots: number;
  /** Longest context of one slot, in tokens, if known. */
  readonly contextTokens?: number;
  /** KV block size in tokens, if known. */
  readonly blockTokens?: number;
  /** KV cache in tokens, of all its engines together, if known. */
  readonly kvTokens?: number;
  /** Size of its one model, if it says (llama-server). */
  readonly modelSize?: ModelSize;
  /** Requests that the engine says it runs at once, where that isn't slots; for people only. */
  readonly maxSequences?: number;
  /** Relative capacity from the config; absent: 1. */
  readonly weight?: number;
  readonly labels?: Readonly<Record<string, string>>;
  /** Where it was named: `config`, `file`, `dns` or `api`. */
  readonly source?: string;
  /** Monotonic ms since when it takes work again after it was away or was added; absent: it was there from the start. */
  readonly backSinceMs?: number;
  /** How often its process was seen to be another one; what was cached before is gone. Absent: 0. */
  readonly restarts?: number;
  /** It failed before: one job at a time until it has done one well. */
  readonly onTrial?: true;
  /** Things missing there that cost the user something, each with its remedy. */
  readonly advice: readonly string[];
}

export interface FleetSnapshot {
  readonly atMs: number;
  readonly backends: readonly BackendView[];
}
