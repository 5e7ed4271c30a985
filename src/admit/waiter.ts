/** One job that asked for a place: what is kept of it while it waits, and what of it the order of the queue depends on. */
import type { Job } from '../domain/job.ts';
import type { Refusal } from '../domain/refusal.ts';
import type { Timer } from '../platform/clock.ts';
import type { Tenant } from './fairness.ts';
import type { Line } from './lane-queue.ts';
import type { Ask, Permit, RankedTarget } from './owner.ts';

export interface Waiter {
  readonly ask: Ask;
  readonly answer: (result: Permit | Refusal) => void;
  readonly sinceMs: number;
  /** of its prompt, estimated */
  readonly tokens: number;
  readonly tenant: Tenant;
  timer: Timer | undefined;
  /** Where it would go, best first, when it was chosen for last. */
  wants: readonly RankedTarget[];
  /** It waits for prompts to be computed (late binding), not for a place. */
  holds: boolean;
  /** Its choice is to be made anew from then on, though nothing changed meanwhile. */
  chosenUntilMs: number;
  /** Wherever it would go it is not quiet enough for it until then (`quiet.ts`). */
  noisyUntilMs: number;
  /** Where it stands; absent: it doesn't wait (yet, or any more). */
  line: Line | undefined;
  /** Grows with each arrival. */
  order: number;
  previous: Waiter | undefined;
  next: Waiter | undefined;
}

/** A token is about four bytes. */
const bytesPerToken = 4;

export function promptTokensOf({ prefix, bodyBytes }: Job): number {
  return Math.ceil((prefix?.bytes ?? bodyBytes) / bytesPerToken);
}

export function modelOf({ servedModel, model }: Job): string {
  return servedModel ?? model ?? '';
}

/**
 * Who waits like any other job for its model. Where one is at home need not serve its model, and where it failed it may not
 * go: such a one may have nobody to wait for.
 */
export function isOrdinary({ affinity, exclude }: Ask): boolean {
  return affinity === undefined && exclude.length === 0;
}

/** Nobody waits for it at the other end. */
export function isBatchLine({ patient }: Pick<Ask, 'patient'>): boolean {
  return patient === true;
}

/** It keeps an engine busy, if only for a moment; all else (lists, tokenising) costs nobody anything. */
export function isWork({ generates, endpoint }: Pick<Job, 'generates' | 'endpoint'>): boolean {
  return generates || endpoint === 'embeddings' || endpoint === 'rerank' || endpoint === 'audio';
}
