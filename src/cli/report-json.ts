/** The account as one JSON object. Its shape is explained in deploy/report.md; `shape` grows when a field changes its meaning. */
import type { ReportResult } from '../account/report/report.ts';
import type { ReportRequest } from './report-args.ts';
import type { ReportInput } from './report-text.ts';

const shape = 1;

export function reportJson(result: ReportResult, input: ReportInput, request: ReportRequest): string {
  const iso = (atMs: number | undefined) => (atMs === undefined ? undefined : new Date(atMs).toISOString());
  const whole = {
    shape,
    input,
    filters: {
      since: iso(request.sinceMs),
      until: iso(request.untilMs),
      split: iso(request.splitMs),
      model: request.model,
      backend: request.backend,
      lane: request.lane,
    },
    ...result,
  };
  return `${JSON.stringify(whole, rounded)}\n`;
}

/** Six digits that count: the sketches don't know more. Whole numbers stay as they are. */
function rounded(_key: string, value: unknown): unknown {
  return typeof value === 'number' && !Number.isInteger(value) ? Number(value.toPrecision(6)) : value;
}
