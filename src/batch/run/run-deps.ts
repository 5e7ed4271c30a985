/** What the runner is given, and what it counts. Types only. */
import type { Clock } from '../../platform/clock.ts';
import type { Log } from '../../platform/log.ts';
import type { PromptKeys } from '../input/prompt-keys.ts';
import type { LineSender } from '../line-port.ts';
import type { BatchSettings } from '../settings.ts';
import type { Shelf } from '../shelf/port.ts';
import type { BatchStore } from '../store/port.ts';

export type RunSettings = Pick<
  BatchSettings,
  'maxLines' | 'maxFileBytes' | 'maxLineBytes' | 'maxLinesInFlight' | 'maxAttempts' | 'fileLifeSeconds' | 'leaseMs'
>;

export interface RunDeps {
  readonly store: BatchStore;
  readonly shelf: Shelf;
  readonly sender: LineSender;
  readonly clock: Clock;
  readonly log: Log;
  /** Tells which lines begin alike; absent: by their raw text. */
  readonly prompts?: PromptKeys;
  /** from 0 to below 1 */
  readonly random: () => number;
}

export const lineResults = ['completed', 'failed', 'expired', 'cancelled'] as const;
export type LineResultName = (typeof lineResults)[number];

/** Since the process began; only rise. */
export interface RunCounts {
  readonly results: { [Name in LineResultName]: number };
  retries: number;
  reclaimed: number;
}

export function createRunCounts(): RunCounts {
  return { results: { completed: 0, failed: 0, expired: 0, cancelled: 0 }, retries: 0, reclaimed: 0 };
}
