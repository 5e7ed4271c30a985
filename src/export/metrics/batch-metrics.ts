/** Registers the figures of the Batch API with the meter. Holds nothing: all is read at each collection. */
import type { BatchFigures, BatchStoreFigures } from '../../domain/batch-figures.ts';
import type { Meter } from './meter.ts';

const results = ['completed', 'failed', 'expired', 'cancelled'] as const;

export function registerBatchMetrics(meter: Pick<Meter, 'counterFrom' | 'gauge'>, figures: () => BatchFigures): void {
  const one = (value: number | undefined) => (value === undefined ? [] : [{ labels: {}, value }]);
  const ofStore = (value: (store: BatchStoreFigures) => number | undefined) => () => {
    const { store } = figures();
    return store === undefined ? [] : one(value(store));
  };
  meter.counterFrom('warmlane.batch.lines', () => {
    const { results: counts } = figures();
    return results.map((result) => ({ labels: { result }, value: counts[result] }));
  });
  meter.counterFrom('warmlane.batch.line.retries', () => one(figures().retries));
  meter.counterFrom('warmlane.batch.line.reclaimed', () => one(figures().reclaimed));
  meter.gauge('warmlane.batch.lines.in_flight', () => one(figures().inFlight));
  meter.gauge('warmlane.batch.lines.backing_off', () => one(figures().backingOff));
  meter.gauge(
    'warmlane.batch.lines.pending',
    ofStore(({ pendingLines }) => pendingLines),
  );
  meter.gauge(
    'warmlane.batch.open',
    ofStore(({ openBatches }) => openBatches),
  );
  meter.gauge(
    'warmlane.batch.oldest',
    ofStore(({ oldestSeconds }) => oldestSeconds ?? 0),
  );
  meter.gauge(
    'warmlane.batch.store.size',
    ofStore(({ bytes }) => bytes),
  );
}
