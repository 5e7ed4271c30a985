/**
 * Whether batch may have a place on a backend, whoever else wants it: its cap, the slots kept for online, and the gate that
 * lets prompts in one at a time. What the minimum share guarantees goes before all of these but the room itself. Pure.
 */
import type { BackendView } from '../domain/fleet.ts';
import type { Job } from '../domain/job.ts';
import type { BatchRule } from '../domain/lanes.ts';
import type { LaneSettings } from './lane-settings.ts';
import { hasRoom, type Held, slotsOf } from './load.ts';
import type { Ask, LoadView } from './owner.ts';
import { isWork } from './waiter.ts';

/** What batch may use of one backend, and what of that it uses. */
export interface BatchStand {
  readonly rule: BatchRule;
  /** batch jobs that may run there whatever online wants */
  readonly share: number;
  readonly held: Held | undefined;
  readonly load: LoadView;
  readonly nowMs: number;
}

/** As much as online. */
export const openRule: BatchRule = { cap: Infinity, reserveSlots: 0, gate: false };

/** Batch jobs that a backend runs whatever online wants. */
export function shareOf(backend: BackendView, { batch, control }: LaneSettings): number {
  if (batch.minShare === 0) return 0;
  const places = backend.slots === undefined ? control.maxPerBackend : Math.max(1, backend.slots);
  return Math.ceil(batch.minShare * places);
}

/** Batch has less there than its guaranteed share: its next job goes before online ones. */
export function isShort({ share, held }: BatchStand): boolean {
  return share > 0 && (held === undefined || held.batchJobs - held.leavingJobs < share);
}

/** What of a job decides where it may start. */
export type Demand = Pick<Job, 'generates' | 'endpoint' | 'choices'>;

/** Nothing but a free place is wanting: neither cap nor reserve nor gate keeps the job from it. */
export function isAllowed(job: Demand, backend: BackendView, stand: BatchStand): boolean {
  const { rule, share, held } = stand;
  if (!isWork(job)) return true;
  if ((held?.batchJobs ?? 0) >= Math.max(rule.cap, share)) return false;
  if (!job.generates) return true;
  const slots = allowedSlots(backend, stand);
  if (held === undefined) return slots > 0;
  if (rule.gate && held.batchPrompts > 0) return false;
  if (rule.gate && (held.onlinePrompts > 0 || settlesIn(stand) > 0) && !isShort(stand)) return false;
  // What needs more than batch may have at all would never start: it may have all of that, if nothing else does.
  return held.batchSlots + slotsOf(job, backend) <= slots || (held.batchSlots === 0 && slots > 0);
}

/**
 * Ms until the online stream that began there last has a few tokens: a pause among its first ones weighs most on its pace, and an
 * answer of twenty tokens has no others to make up for it.
 */
export function settlesIn({ rule, held, nowMs }: BatchStand): number {
  if (!rule.gate || rule.settleMs === undefined || held === undefined) return 0;
  return Math.max(0, held.onlineFirstMs + rule.settleMs - nowMs);
}

/** After the first time that a prompt was taken back; each further time doubles it. */
export const firstQuietMs = 250;
/** Online users who come more often than that leave no room for a prompt that never got through between them. */
const longestQuietMs = 10_000;

/** What a batch job wants to have passed since online was last at work on prompts where it starts; ms. */
export function quietMsOf({ promptsTaken = 0 }: Pick<Ask, 'promptsTaken'>): number {
  return promptsTaken === 0 ? 0 : Math.min(longestQuietMs, firstQuietMs * 2 ** (promptsTaken - 1));
}

/**
 * Ms until it is quiet enough there for a job whose prompt was taken back before: however often online traffic takes it, what that
 * costs is one beginning in ever longer times. What the minimum share guarantees doesn't wait for quiet.
 */
export function quietsIn(ask: Pick<Ask, 'promptsTaken'>, stand: BatchStand): number {
  const { held, nowMs } = stand;
  const quietMs = quietMsOf(ask);
  if (quietMs === 0 || held === undefined || isShort(stand)) return 0;
  return Math.max(0, held.disturbedMs + quietMs - nowMs);
}

export function mayStart(job: Demand, backend: BackendView, stand: BatchStand): boolean {
  return isAllowed(job, backend, stand) && (!job.generates || hasRoom(backend, stand.load, job));
}

function allowedSlots({ slots }: BackendView, { rule, share }: BatchStand): number {
  if (slots === undefined) return Infinity;
  return Math.max(Math.max(1, slots) - rule.reserveSlots, share);
}
