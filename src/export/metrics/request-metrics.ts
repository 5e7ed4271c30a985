/**
 * What each finished request adds to the metrics. On the hot path once per request: the series of a label set are looked
 * up together and kept, so that a record costs one walk through a few small maps and some additions.
 */
import { isWarmUp, type RequestRecord } from '../../domain/record.ts';
import { methodLabel } from '../method-label.ts';
import type { RecordSink } from '../sinks.ts';
import { createLabelTree } from './label-tree.ts';
import type { Meter } from './meter.ts';
import { type ModelLabels, noLabel } from './model-labels.ts';
import { HttpSeries, RequestSeries } from './request-series.ts';

/** Label sets whose series are kept at hand; further ones are found by key each time. */
const maxKept = 4096;

export function createRequestMetrics(deps: { readonly meter: Meter; readonly models: ModelLabels }): RecordSink {
  const { meter, models } = deps;
  const requests = createLabelTree(maxKept, (words) => new RequestSeries(meter, words));
  const http = createLabelTree(maxKept, (words) => new HttpSeries(meter, words));

  return {
    add(record) {
      const { endpoint, lane, outcome, warmth } = record;
      const model = models.labelFinished(record.model ?? record.responseModel);
      const stream = record.streamed ? 'true' : 'false';
      requests
        .at([model, record.backend ?? noLabel, endpoint, outcome, warmth, lane, stream, record.engine ?? noLabel])
        .add(record);
      // No client's HTTP request.
      if (!isWarmUp(record)) http.at([methodLabel(record.method), statusLabel(record), endpoint, outcome]).add(record);
      for (const mark of record.marks) meter.count('warmlane.requests.marked', { mark });
    },
  };
}

/** A number with three digits, as HTTP has it; a backend may say anything. */
function statusLabel({ status }: RequestRecord): string {
  return status === undefined ? noLabel : String(status);
}
