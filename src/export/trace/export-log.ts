/**
 * What the log says of exports of spans. Also hears the OpenTelemetry library's own warnings, among them the only sign that
 * a collector refused a part of what it took.
 */
import type { Clock } from '../../platform/clock.ts';
import type { Log } from '../../platform/log.ts';
import { createFailureLog, shortText } from '../otlp/failure-log.ts';

export interface ExportLog {
  /** @param error what went wrong; undefined: nothing */
  note(spans: number, error: unknown): void;
  /** Spans that a collector took and refused (OTLP partial success); never more than it was sent. */
  rejected(): number;
  /** A line of the library's. */
  heard(message: string, details: readonly unknown[]): void;
}

const repeatMs = 60_000;
const words = {
  failed: 'spans could not be exported; requests are served all the same',
  again: 'spans are exported again',
};

export function createExportLog(deps: { readonly log: Log; readonly clock: Clock }): ExportLog {
  const { log, clock } = deps;
  const failures = createFailureLog(words, deps);
  let heardMs: number | undefined;
  let rejected = 0;
  /** Told by the answer to the export under way, whose end is noted next. */
  let told = 0;

  return {
    rejected: () => rejected,
    note(spans, error) {
      const refused = told;
      told = 0;
      if (error === undefined) rejected += Math.min(spans, refused);
      failures.note(spans, error);
    },
    heard(message, details) {
      if (toldByMetrics(message)) return;
      const partial = partialSuccess(message, details);
      told += partial?.spans ?? 0;
      if (heardMs !== undefined && clock.nowMs() - heardMs < repeatMs) return;
      heardMs = clock.nowMs();
      if (partial === undefined) log.warn('OpenTelemetry', { message: textOf(message, details) });
      else if (partial.spans > 0)
        log.warn('the collector refused spans', { spans: partial.spans, message: partial.message });
      else if (partial.points > 0)
        log.warn('the collector refused metrics', { points: partial.points, message: partial.message });
      else log.warn('the collector warns', { message: partial.message });
    },
  };
}

/** Without the credentials of an endpoint that the library repeats. */
function textOf(message: string, details: readonly unknown[]): string {
  const text = [message, ...details].map(shortText).join(' ');
  return text.replaceAll(/(:\/\/)[^/\s'"]*@/g, '$1');
}

/** The metrics' own log has said so already, in fewer words; the library adds a stack. */
function toldByMetrics(message: string): boolean {
  return message.includes('PeriodicExportingMetricReader: metrics export ');
}

interface PartialSuccess {
  readonly spans: number;
  /** of metrics */
  readonly points: number;
  readonly message: string;
}

/** The library tells of a partial success in its log alone. */
function partialSuccess(message: string, [json]: readonly unknown[]): PartialSuccess | undefined {
  if (!message.startsWith('Received Partial Success response') || typeof json !== 'string') return undefined;
  try {
    const said = JSON.parse(json) as { rejectedSpans?: unknown; rejectedDataPoints?: unknown; errorMessage?: unknown };
    return {
      spans: countOf(said.rejectedSpans),
      points: countOf(said.rejectedDataPoints),
      message: shortText(said.errorMessage ?? ''),
    };
  } catch {
    return undefined;
  }
}

/** 64-bit numbers are texts in OTLP's JSON. */
function countOf(value: unknown): number {
  const count = Number(value ?? 0);
  return count > 0 ? count : 0;
}

/** Sends the library's warnings there. Its log is one for the whole process: the last to ask has it. */
export async function hearLibrary(exportLog: ExportLog): Promise<void> {
  const { diag, DiagLogLevel } = await import('@opentelemetry/api');
  const hear = (message: string, ...details: unknown[]) => exportLog.heard(message, details);
  const quiet = () => {};
  diag.setLogger(
    { error: hear, warn: hear, info: quiet, debug: quiet, verbose: quiet },
    { logLevel: DiagLogLevel.WARN, suppressOverrideMessage: true },
  );
}
