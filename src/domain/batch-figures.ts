/** What the runner of batches tells of itself. Counts only rise; what the store told is absent until it has. */
export interface BatchFigures {
  /** lines by what became of them, in this process */
  readonly results: Readonly<Record<'completed' | 'failed' | 'expired' | 'cancelled', number>>;
  /** tries that were repeated */
  readonly retries: number;
  /** times that a line gave way to online work */
  readonly reclaimed: number;
  /** lines that are with a backend or wait for a place */
  readonly inFlight: number;
  /** lines that were sent before and wait here for another try */
  readonly backingOff: number;
  readonly store?: BatchStoreFigures;
}

/** Of all replicas. */
export interface BatchStoreFigures {
  readonly openBatches: number;
  readonly pendingLines: number;
  /** since the oldest batch that isn't over was created; s */
  readonly oldestSeconds?: number;
  readonly bytes?: number;
}

export const apiOffRemedy =
  'To turn it on, start warmlane with --batch-dir DIR (or WARMLANE_BATCH_DIR, or batch.directory in its file): files and results are kept there. See deploy/batch.md.';
