/**
 * When a backend's next round of probes is due (decision 10, R13). Pure.
 */
import type { HealthState } from './health.ts';
import type { FleetSettings } from './settings.ts';

/** A stream is silent, or a slot may be a ghost's: asked sooner than usual, but at most so often. */
const quietIntervalMs = 1000;
const ghostIntervalMs = 2000;
/** A round that comes sooner than this after a ghost, for another reason, leaves `/slots` alone. */
export const slotsSettleMs = 1500;
/** Traffic raised a doubt: asked at once, but not more often than this. */
const doubtIntervalMs = 250;
/** A pending abort postpones a round at most so long: aborts that follow one another must not blind the fleet. */
export const maxHoldMs = 10_000;

export interface ScheduleInput {
  /** When the last round ended. */
  readonly lastEndMs: number;
  readonly health: HealthState;
  readonly quiet: boolean;
  readonly doubted: boolean;
  readonly held: boolean;
  /** When the youngest ghost was added; undefined without ghosts. */
  readonly youngestGhostMs: number | undefined;
}

/** Monotonic ms of the next round. */
export function nextRoundMs(settings: Omit<FleetSettings, 'backends'>, input: ScheduleInput): number {
  const { lastEndMs, youngestGhostMs } = input;
  let dueMs = lastEndMs + usualPauseMs(settings, input.health);
  if (input.quiet) dueMs = Math.min(dueMs, lastEndMs + Math.max(quietIntervalMs, settings.probeDownIntervalMs));
  // Counted from the youngest, since each question restarts llama-server's own second of looking for closed clients.
  if (youngestGhostMs !== undefined) dueMs = Math.min(dueMs, Math.max(lastEndMs, youngestGhostMs) + ghostIntervalMs);
  if (input.doubted) dueMs = Math.min(dueMs, lastEndMs + doubtIntervalMs);
  return input.held ? dueMs + maxHoldMs : dueMs;
}

/** `auth` needs a person, so it isn't hurried. */
function usualPauseMs(settings: Omit<FleetSettings, 'backends'>, health: HealthState): number {
  const calm =
    (health.health === 'up' || health.health === 'auth' || health.health === 'draining') && health.misses === 0;
  return calm ? settings.probeIntervalMs : settings.probeDownIntervalMs;
}
