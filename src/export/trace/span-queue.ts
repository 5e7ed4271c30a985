/**
 * What waits for export: finished requests in order, bounded in bytes and in spans, handed to the exporter in batches, one
 * export at a time. Whatever goes wrong there costs a count of dropped spans and nothing else (rule 10).
 * Spans are made just before they are sent: what waits is no more than the request's record.
 */
import type { ReadableSpan } from '@opentelemetry/sdk-trace-base';
import type { Clock, Timer } from '../../platform/clock.ts';

export interface SpanQueueSettings {
  readonly maxBytes: number;
  readonly maxSpans: number;
  readonly maxBatchSpans: number;
  readonly maxBatchBytes: number;
  /** Longest wait before a batch that isn't full is sent. */
  readonly delayMs: number;
  /** Longest time for one export. */
  readonly exportTimeoutMs: number;
}

export interface TraceExporter {
  /** Calls `done` once, with what went wrong if something did. May throw. */
  export(spans: ReadableSpan[], done: (error?: unknown) => void): void;
  /** Lets go of whatever is under way. */
  abort(): void;
}

export interface QueuedTrace {
  readonly spans: number;
  readonly bytes: number;
  /** Parts that are encoded one by one; the first is sent together with those of other traces. */
  parts(): Iterator<ReadableSpan[], void>;
}

export type DropReason = 'queue_full' | 'export_failed' | 'shutdown';

export interface SpanQueueStats {
  readonly exported: number;
  readonly dropped: Readonly<Record<DropReason, number>>;
  /** Those under way included. */
  readonly waitingSpans: number;
  readonly waitingBytes: number;
}

export interface SpanQueue {
  add(trace: QueuedTrace): void;
  stats(): SpanQueueStats;
  /** Sends what waits, for so long; what is left then is dropped. Afterwards nothing is taken any more. */
  close(limitMs: number): Promise<void>;
}

export interface SpanQueueDeps {
  readonly clock: Clock;
  readonly exporter: TraceExporter;
  /** Told of each export: how many spans, and what went wrong if something did. */
  readonly onExport: (spans: number, error: unknown) => void;
}

/** A trace on its way out. */
interface Parting {
  readonly trace: QueuedTrace;
  readonly next: Iterator<ReadableSpan[], void>;
  /** Spans that were made so far: how each of them fared is counted with its export. */
  made: number;
  /** There are no more. */
  over: boolean;
}

/** Spans that will not be made any more; at least none, since how many a trace has is an estimate. */
function leftOf({ trace, made }: Parting): number {
  return Math.max(0, trace.spans - made);
}

export function createSpanQueue(settings: SpanQueueSettings, deps: SpanQueueDeps): SpanQueue {
  const { clock, exporter } = deps;
  const queue: QueuedTrace[] = [];
  const dropped: Record<DropReason, number> = { queue_full: 0, export_failed: 0, shutdown: 0 };
  let exported = 0;
  let waitingSpans = 0;
  let waitingBytes = 0;
  let underway = 0;
  let sending = false;
  let closing = false;
  let closed = false;
  let timer: Timer | undefined;
  let onEmpty = () => {};

  /** Enough for a batch goes at once; less waits a while for company. */
  function schedule(): void {
    if (sending || queue.length === 0) return;
    if (closing || waitingSpans >= settings.maxBatchSpans || waitingBytes >= settings.maxBatchBytes) void sendAll();
    else timer ??= clock.timer(settings.delayMs, () => void sendAll());
  }

  /** Everything that waits now; what comes meanwhile is scheduled anew. */
  async function sendAll(): Promise<void> {
    if (sending) return;
    timer?.cancel();
    timer = undefined;
    sending = true;
    let left = queue.length;
    while (left > 0 && !closed) {
      const batch = takeBatch();
      left -= batch.length;
      await sendBatch(batch);
      // An exporter that answers at once must not keep the streams waiting.
      await new Promise((resolve) => void setImmediate(resolve));
    }
    sending = false;
    if (queue.length === 0) onEmpty();
    else if (!closed) schedule();
  }

  function takeBatch(): QueuedTrace[] {
    let spans = 0;
    let bytes = 0;
    let count = 0;
    for (const trace of queue) {
      spans += trace.spans;
      bytes += trace.bytes;
      // One alone may be larger than a batch: a very long answer.
      if (count > 0 && (spans > settings.maxBatchSpans || bytes > settings.maxBatchBytes)) break;
      count += 1;
    }
    return queue.splice(0, count);
  }

  async function sendBatch(batch: readonly QueuedTrace[]): Promise<void> {
    underway = batch.length;
    const parts = batch.map((trace): Parting => ({ trace, next: trace.parts(), made: 0, over: false }));
    await send(parts.flatMap(makeNext));
    for (const each of parts) {
      // The later parts of a very long answer, one after the other.
      while (!closed) {
        const spans = makeNext(each);
        if (spans.length === 0) break;
        await send(spans);
      }
      if (!each.over) dropped.shutdown += leftOf(each);
    }
    underway = 0;
    for (const { spans, bytes } of batch) {
      waitingSpans -= spans;
      waitingBytes -= bytes;
    }
  }

  /** One trace whose spans can't be made must not cost the others theirs. @returns none when there are no more */
  function makeNext(parting: Parting): ReadableSpan[] {
    try {
      const step = parting.next.next();
      parting.over = step.done === true;
      const spans = step.value ?? [];
      parting.made += spans.length;
      return spans;
    } catch (error) {
      const lost = leftOf(parting);
      parting.over = true;
      dropped.export_failed += lost;
      deps.onExport(lost, error);
      return [];
    }
  }

  async function send(spans: ReadableSpan[]): Promise<void> {
    if (spans.length === 0) return;
    const error = await exportOnce(spans);
    if (error === undefined) exported += spans.length;
    else dropped[closed ? 'shutdown' : 'export_failed'] += spans.length;
    deps.onExport(spans.length, error);
  }

  /** @returns what went wrong; undefined: nothing */
  function exportOnce(spans: ReadableSpan[]): Promise<unknown> {
    return new Promise((resolve) => {
      let open = true;
      const settle = (error?: unknown) => {
        if (!open) return;
        open = false;
        deadline.cancel();
        giveUp = () => {};
        resolve(error);
      };
      const abandon = (why: string) => {
        exporter.abort();
        settle(new Error(why));
      };
      const deadline = clock.timer(settings.exportTimeoutMs, () =>
        abandon(`no answer within ${settings.exportTimeoutMs} ms`),
      );
      giveUp = () => abandon('the process ends');
      try {
        exporter.export(spans, settle);
      } catch (error) {
        settle(error ?? new Error('the exporter threw'));
      }
    });
  }
  /** Ends the export that is under way. */
  let giveUp = () => {};

  return {
    add(trace) {
      const full = waitingSpans + trace.spans > settings.maxSpans || waitingBytes + trace.bytes > settings.maxBytes;
      // Larger than the whole queue: alone it may go, else the longest answers would never be seen.
      const alone = waitingSpans === 0 && trace.bytes > settings.maxBytes;
      if (closing || (full && !alone)) {
        dropped[closing ? 'shutdown' : 'queue_full'] += trace.spans;
        return;
      }
      waitingSpans += trace.spans;
      waitingBytes += trace.bytes;
      queue.push(trace);
      schedule();
    },
    stats: () => ({ exported, dropped: { ...dropped }, waitingSpans, waitingBytes }),
    async close(limitMs) {
      if (closing) return;
      closing = true;
      timer?.cancel();
      if (queue.length > 0 || underway > 0 || sending) {
        await new Promise<void>((resolve) => {
          const limit = clock.timer(limitMs, resolve);
          onEmpty = () => {
            limit.cancel();
            resolve();
          };
          schedule();
        });
      }
      closed = true;
      for (const { spans } of queue.splice(0)) dropped.shutdown += spans;
      giveUp();
      exporter.abort();
    },
  };
}
