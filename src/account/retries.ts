/**
 * Which requests are repetitions: the same one from the same client a short while after it failed, was left, or brought an
 * answer that could not be used. Pure state, bounded; holds fingerprints and moments, nothing of a request or its client.
 */
import type { RequestRecord } from '../domain/record.ts';
import { endOf } from './slo/time-spent.ts';

export interface Retries {
  /**
   * Books a finished request and says whether it repeated another.
   * @param fingerprint the same for the same request of the same client
   */
  add(fingerprint: string, record: RequestRecord): boolean;
  /** Failed requests that are remembered. */
  readonly size: number;
  /** Failed requests that were forgotten for want of room, repetition or not. */
  readonly forgotten: number;
}

export interface RetriesSettings {
  /** Counts from the end of the one to the arrival of the other. */
  readonly withinMs: number;
  readonly maxRemembered: number;
}

/**
 * A client that gives up opens its next request at once: that may arrive before the end of the first is noticed here.
 */
const graceMs = 2000;

export function createRetries({ withinMs, maxRemembered }: RetriesSettings): Retries {
  /** When the latest failed request with that fingerprint came and ended; the longest unchanged first. */
  const failed = new Map<string, { readonly receivedMs: number; readonly endMs: number }>();
  let forgotten = 0;

  function remember(fingerprint: string, receivedMs: number, endMs: number): void {
    failed.delete(fingerprint);
    failed.set(fingerprint, { receivedMs, endMs });
    if (failed.size <= maxRemembered) return;
    const [oldest] = failed.keys();
    if (oldest !== undefined) failed.delete(oldest);
    forgotten += 1;
  }

  return {
    add(fingerprint, record) {
      const receivedMs = record.timeline.received;
      const before = failed.get(fingerprint);
      const repeats =
        before !== undefined &&
        before.receivedMs < receivedMs &&
        receivedMs >= before.endMs - graceMs &&
        receivedMs <= before.endMs + withinMs;
      if (wentWrong(record)) remember(fingerprint, receivedMs, endOf(record));
      else if (before !== undefined && before.receivedMs < receivedMs) failed.delete(fingerprint);
      return repeats;
    },
    get size() {
      return failed.size;
    },
    get forgotten() {
      return forgotten;
    },
  };
}

function wentWrong({ outcome, assessment }: RequestRecord): boolean {
  // Sent again, a wrong request would be just as wrong.
  if (outcome === 'client_error') return false;
  return outcome !== 'ok' || (assessment?.useless?.length ?? 0) > 0;
}
