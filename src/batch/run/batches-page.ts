/** The admin page `/batches`: every tenant's batches, how far they are and how they come along; nothing of what is in them. Pure. */
import { endedStatuses, type StoredBatch } from '../batch.ts';
import type { BatchProgress } from './progress.ts';

export interface BatchesShown {
  /** newest first */
  readonly batches: readonly StoredBatch[];
  readonly hasMore: boolean;
  readonly progress: readonly BatchProgress[];
  readonly nowSeconds: number;
}

export function batchesPage({ batches, hasMore, progress, nowSeconds }: BatchesShown): object {
  const byId = new Map(progress.map((one) => [one.id, one]));
  return { batches: batches.map((batch) => shown(batch, byId.get(batch.id), nowSeconds)), hasMore };
}

function shown(batch: StoredBatch, progress: BatchProgress | undefined, nowSeconds: number): object {
  const { id, tenant, status, endpoint, model, counts, usage, createdAt, expiresAt, errors } = batch;
  const isOpen = !endedStatuses.has(status);
  const { total, completed } = counts;
  const unrun = batch.unrun ?? 0;
  const endedAt = batch.completedAt ?? batch.failedAt ?? batch.expiredAt ?? batch.cancelledAt;
  const left = Math.max(0, counts.total - counts.completed - counts.failed);
  return {
    id,
    tenant,
    status,
    endpoint,
    ...(model === undefined ? {} : { model }),
    // Those without a result of their own, since the batch was cancelled or expired, failed at nothing.
    lines: { total, completed, failed: counts.failed - unrun, ...(unrun === 0 ? {} : { unrun }), left },
    usage,
    createdAt,
    expiresAt,
    ...(endedAt === undefined ? {} : { endedAt }),
    ...(errors.length === 0 ? {} : { errors: errors.length }),
    ...(isOpen ? { ageSeconds: nowSeconds - createdAt, secondsToExpiry: expiresAt - nowSeconds } : {}),
    ...(progress === undefined ? {} : { here: here(progress) }),
  };
}

/** What only the process that has it knows. */
function here({
  inFlight,
  running,
  backingOff,
  retries,
  reclaimed,
  linesPerSecond,
  secondsLeft,
  isLate,
}: BatchProgress): object {
  return {
    inFlight,
    running,
    waiting: inFlight - running,
    backingOff,
    retries,
    reclaimed,
    ...(linesPerSecond === undefined ? {} : { linesPerSecond: Math.round(linesPerSecond * 100) / 100 }),
    ...(secondsLeft === undefined ? {} : { secondsLeft: Math.round(secondsLeft) }),
    ...(isLate === undefined ? {} : { isLate }),
  };
}
