/**
 * What the log says of exports: the first failure of a row, one line a minute while it lasts, and its end. Also hears the
 * OpenTelemetry library's own warnings, among them the only sign that a collector refused a part of what it took.
 */
import type { Clock } from '../../platform/clock.ts';
import type { Log } from '../../platform/log.ts';

export interface ExportLog {
  /** @param error what went wrong; undefined: nothing */
  note(spans: number, error: unknown): void;
  /** Spans that a collector took and refused (OTLP partial success). */
  rejected(): number;
  /** A line of the library's. */
  heard(message: string, details: readonly unknown[]): void;
}

const repeatMs = 60_000;
const longestText = 300;

export function createExportLog(deps: { readonly log: Log; readonly clock: Clock }): ExportLog {
  const { log, clock } = deps;
  let lost = 0;
  let toldMs: number | undefined;
  let heardMs: number | undefined;
  let rejected = 0;

  return {
    rejected: () => rejected,
    note(spans, error) {
      if (error === undefined) {
        if (toldMs !== undefined) log.info('spans are exported again', { lost });
        toldMs = undefined;
        lost = 0;
        return;
      }
      lost += spans;
      if (toldMs !== undefined && clock.nowMs() - toldMs < repeatMs) return;
      toldMs = clock.nowMs();
      log.warn('spans could not be exported; requests are served all the same', { error: textOf(error), lost });
    },
    heard(message, details) {
      const refused = refusedSpans(message, details);
      rejected += refused?.spans ?? 0;
      if (heardMs !== undefined && clock.nowMs() - heardMs < repeatMs) return;
      heardMs = clock.nowMs();
      if (refused === undefined) log.warn('OpenTelemetry', { message: [message, ...details].map(textOf).join(' ') });
      else log.warn('the collector refused spans', { spans: refused.spans, message: refused.message });
    },
  };
}

/** The library tells of a partial success in its log alone. */
function refusedSpans(
  message: string,
  [json]: readonly unknown[],
): { readonly spans: number; readonly message: string } | undefined {
  if (!message.startsWith('Received Partial Success response') || typeof json !== 'string') return undefined;
  try {
    const told = JSON.parse(json) as { rejectedSpans?: unknown; errorMessage?: unknown };
    // 64-bit numbers are texts in OTLP's JSON.
    const spans = Number(told.rejectedSpans ?? 0);
    return { spans: Number.isFinite(spans) ? spans : 0, message: textOf(told.errorMessage ?? '') };
  } catch {
    return undefined;
  }
}

function textOf(value: unknown): string {
  const text = value instanceof Error ? value.message || value.name : String(value);
  return text.slice(0, longestText);
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
