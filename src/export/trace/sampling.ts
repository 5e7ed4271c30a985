/**
 * Which traces are exported: the head decision, which also goes upstream as the flag, and the second look at the end of a
 * request, which keeps what was slow, failed or aborted. Pure.
 */
import { failedOutcomes } from '../../domain/names.ts';
import type { RequestRecord } from '../../domain/record.ts';
import type { KeepReason } from './trace-settings.ts';

export interface SamplerChoice {
  /** The caller's flag decides where there is a caller. */
  readonly parentBased: boolean;
  /** Share of the traces that begin here, or of all without `parentBased`: 0 to 1. */
  readonly ratio: number;
}

/** @param parent the caller's flag; undefined when the trace begins here */
export function isSampled(
  { parentBased, ratio }: SamplerChoice,
  traceId: string,
  parent: boolean | undefined,
): boolean {
  if (parentBased && parent !== undefined) return parent;
  if (ratio >= 1) return true;
  if (ratio <= 0) return false;
  // The last 56 bits are the random ones (W3C Trace Context level 2), and all samplers by ratio look at the same
  // (OpenTelemetry's probability sampling): whoever samples more keeps what others keep.
  return Number.parseInt(traceId.slice(18), 16) >= (1 - ratio) * 2 ** 56;
}

/** Why a finished request is exported; undefined: it isn't. */
export function keptBecause(record: RequestRecord, keep: readonly KeepReason[]): 'head' | KeepReason | undefined {
  if (record.trace?.sampled === true) return 'head';
  if (keep.includes('failed') && failedOutcomes.has(record.outcome)) return 'failed';
  if (keep.includes('aborted') && record.outcome === 'client_abort') return 'aborted';
  if (keep.includes('slow') && record.assessment?.slo?.met === false) return 'slow';
  return undefined;
}
