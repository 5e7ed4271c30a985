/** What tracing says of itself, as metrics: counts are kept where they arise, and read when somebody collects. */
import type { Meter } from '../metrics/meter.ts';

export interface TracingStats {
  readonly exported: number;
  /** Spans lost, by why; `rejected`: the collector took them and refused them. */
  readonly dropped: Readonly<Record<'queue_full' | 'export_failed' | 'shutdown' | 'rejected', number>>;
  readonly waitingSpans: number;
  readonly waitingBytes: number;
}

export function registerTraceMetrics(meter: Pick<Meter, 'counterFrom' | 'gauge'>, stats: () => TracingStats): void {
  meter.counterFrom('warmlane.spans.exported', () => [{ labels: {}, value: stats().exported }]);
  meter.counterFrom('warmlane.spans.dropped', () =>
    Object.entries(stats().dropped).map(([dropped, value]) => ({ labels: { dropped }, value })),
  );
  meter.gauge('warmlane.spans.queued', () => [{ labels: {}, value: stats().waitingSpans }]);
  meter.gauge('warmlane.spans.queued_bytes', () => [{ labels: {}, value: stats().waitingBytes }]);
}
