import type { ReadableSpan } from '@opentelemetry/sdk-trace-base';
import { describe, expect, it } from 'vitest';

import {
  createSpanQueue,
  type SpanQueueSettings,
  type TraceExporter,
} from '../../../../src/export/trace/span-queue.ts';
import { createFakeClock, settle } from '../../../support/fake-clock.ts';

const settings: SpanQueueSettings = {
  maxBytes: 10_000,
  maxSpans: 100,
  maxBatchSpans: 10,
  maxBatchBytes: 1000,
  delayMs: 5000,
  exportTimeoutMs: 30_000,
};

/** An exporter whose exports a test ends by hand. */
function manual() {
  const under: { spans: ReadableSpan[]; done: (error?: unknown) => void }[] = [];
  const seen = { exports: 0, spans: 0, mostAtOnce: 0, aborts: 0 };
  const exporter: TraceExporter = {
    export(spans, done) {
      const each = {
        spans,
        done(error?: unknown) {
          under.splice(under.indexOf(each), 1);
          done(error);
        },
      };
      under.push(each);
      seen.exports += 1;
      seen.spans += spans.length;
      seen.mostAtOnce = Math.max(seen.mostAtOnce, under.length);
    },
    abort() {
      seen.aborts += 1;
    },
  };
  return { exporter, seen, under };
}

function rig(exporter: TraceExporter, over: Partial<SpanQueueSettings> = {}) {
  const clock = createFakeClock();
  const told: { spans: number; error: unknown }[] = [];
  const queue = createSpanQueue(
    { ...settings, ...over },
    { clock, exporter, onExport: (spans, error) => told.push({ spans, error }) },
  );
  return { clock, queue, told };
}

// Only how many there are matters here.
const spansOf = (count: number) => Array.from({ length: count }, () => ({}) as ReadableSpan);

function trace(spans: number, bytes: number, parts: readonly ReadableSpan[][] = [spansOf(spans)]) {
  return {
    spans,
    bytes,
    *parts() {
      for (const part of parts) yield part;
    },
  };
}

/** Lets the queue come to rest: it waits a turn of the event loop between two batches. */
async function rest(): Promise<void> {
  for (let turn = 0; turn < 20; turn += 1) await settle();
}

describe('what waits for export', () => {
  it('goes at once when it is enough for a batch, by spans or by bytes', async () => {
    const [bySpans, byBytes] = [manual(), manual()];
    rig(bySpans.exporter).queue.add(trace(10, 100));
    rig(byBytes.exporter).queue.add(trace(1, 1000));
    await rest();
    expect(bySpans.seen.exports).toBe(1);
    expect(byBytes.seen.exports).toBe(1);
  });

  it('waits for company else, for the delay and no longer', async () => {
    const { exporter, seen, under } = manual();
    const { queue, clock } = rig(exporter);
    queue.add(trace(2, 100));
    clock.advance(3000);
    queue.add(trace(3, 100));
    clock.advance(1999);
    await rest();
    expect(seen.exports).toBe(0);
    clock.advance(1);
    await rest();
    expect(under[0]?.spans).toHaveLength(5);
    expect(clock.pending()).toBe(1);
  });

  it('is sent one export after the other, in batches that keep their bounds', async () => {
    const { exporter, seen, under } = manual();
    const { queue } = rig(exporter);
    for (let count = 0; count < 12; count += 1) queue.add(trace(3, 200));
    const sizes: number[] = [];
    for (let round = 0; round < 12; round += 1) {
      await rest();
      sizes.push(under[0]?.spans.length ?? 0);
      under[0]?.done();
    }
    expect(seen.mostAtOnce).toBe(1);
    expect(seen.spans).toBe(36);
    expect(sizes.every((size) => size <= 10)).toBe(true);
    expect(queue.stats()).toMatchObject({ exported: 36, waitingSpans: 0, waitingBytes: 0 });
  });

  it('is bounded in bytes, those under way included; what comes past it is dropped and counted', async () => {
    const { exporter, under } = manual();
    const { queue } = rig(exporter);
    for (let count = 0; count < 30; count += 1) queue.add(trace(1, 1000));
    await rest();
    expect(queue.stats()).toMatchObject({ waitingBytes: 10_000, waitingSpans: 10, dropped: { queue_full: 20 } });
    under[0]?.done();
    await rest();
    expect(queue.stats()).toMatchObject({ waitingBytes: 9000, exported: 1 });
    queue.add(trace(1, 1000));
    expect(queue.stats()).toMatchObject({ waitingBytes: 10_000, dropped: { queue_full: 20 } });
  });

  it('is bounded in spans', () => {
    const { queue } = rig(manual().exporter, { maxBatchSpans: 1000 });
    for (let count = 0; count < 60; count += 1) queue.add(trace(3, 1));
    expect(queue.stats()).toMatchObject({ waitingSpans: 99, dropped: { queue_full: 81 } });
  });

  it('takes an answer that is larger than a batch, or than the whole queue, and sends it alone', async () => {
    const { exporter, under } = manual();
    const { queue } = rig(exporter);
    queue.add(trace(2, 50_000));
    queue.add(trace(1, 10));
    await rest();
    expect(under[0]?.spans).toHaveLength(2);
    expect(queue.stats().dropped.queue_full).toBe(1);
  });

  it('sends the later parts of a very long answer one by one', async () => {
    const { exporter, under } = manual();
    const { queue } = rig(exporter);
    queue.add(trace(7, 900, [spansOf(5), spansOf(1), spansOf(1)]));
    queue.add(trace(2, 100));
    const sizes: number[] = [];
    for (let round = 0; round < 3; round += 1) {
      await rest();
      sizes.push(under[0]?.spans.length ?? 0);
      under[0]?.done();
    }
    await rest();
    expect(sizes).toEqual([7, 1, 1]);
    expect(queue.stats()).toMatchObject({ exported: 9, waitingSpans: 0, waitingBytes: 0 });
  });
});

describe('an exporter', () => {
  it('that fails costs its batch and a count; the next batch goes', async () => {
    const { exporter, under } = manual();
    const { queue, told } = rig(exporter);
    queue.add(trace(10, 10));
    await rest();
    queue.add(trace(10, 10));
    under[0]?.done(new Error('500'));
    await rest();
    under[0]?.done();
    await rest();
    expect(queue.stats()).toMatchObject({ exported: 10, dropped: { export_failed: 10 }, waitingSpans: 0 });
    expect(told).toEqual([
      { spans: 10, error: new Error('500') },
      { spans: 10, error: undefined },
    ]);
  });

  it('that throws does too', async () => {
    const { queue } = rig({
      export() {
        throw new Error('no');
      },
      abort() {},
    });
    for (let count = 0; count < 5; count += 1) queue.add(trace(10, 10));
    await rest();
    expect(queue.stats()).toMatchObject({ exported: 0, dropped: { export_failed: 50 }, waitingSpans: 0 });
  });

  it('C198 that never answers is let go of after its time, and its late word counts no more', async () => {
    const { exporter, seen, under } = manual();
    const { queue, clock } = rig(exporter);
    queue.add(trace(10, 10));
    await rest();
    clock.advance(29_999);
    await rest();
    expect(seen.aborts).toBe(0);
    clock.advance(1);
    await rest();
    expect(seen.aborts).toBe(1);
    expect(queue.stats()).toMatchObject({ dropped: { export_failed: 10 }, waitingSpans: 0 });
    under[0]?.done();
    expect(queue.stats()).toMatchObject({ exported: 0, dropped: { export_failed: 10 } });
  });

  it('that calls back twice is heard once', async () => {
    const { queue } = rig({
      export(_, done) {
        done();
        done(new Error('late'));
      },
      abort() {},
    });
    queue.add(trace(10, 10));
    await rest();
    expect(queue.stats()).toMatchObject({ exported: 10, dropped: { export_failed: 0 } });
  });

  it('loses nothing of others when the spans of one trace can’t be made', async () => {
    const { exporter, under } = manual();
    const { queue } = rig(exporter);
    queue.add(trace(4, 10));
    queue.add({
      spans: 3,
      bytes: 10,
      *parts(): Generator<ReadableSpan[], void> {
        yield* [];
        throw new Error('a bug');
      },
    });
    queue.add(trace(4, 10));
    await rest();
    expect(under[0]?.spans).toHaveLength(4);
    under[0]?.done();
    await rest();
    under[0]?.done();
    await rest();
    expect(queue.stats()).toMatchObject({ exported: 8, dropped: { export_failed: 3 }, waitingSpans: 0 });
  });

  it('whose later part can’t be made loses that and what would follow, not what arrived already', async () => {
    const { exporter, under } = manual();
    const { queue, told } = rig(exporter);
    queue.add({
      spans: 10,
      bytes: 2000,
      *parts(): Generator<ReadableSpan[], void> {
        yield spansOf(4);
        yield spansOf(1);
        throw new Error('a bug');
      },
    });
    for (let part = 0; part < 2; part += 1) {
      await rest();
      under[0]?.done();
    }
    await rest();
    expect(queue.stats()).toMatchObject({ exported: 5, dropped: { export_failed: 5 }, waitingSpans: 0 });
    expect(told.map(({ spans, error }) => [spans, error === undefined])).toEqual([
      [4, true],
      [1, true],
      [5, false],
    ]);
  });
});

describe('the end', () => {
  it('counts the later parts of a long trace that it cuts off as dropped', async () => {
    const { exporter, under } = manual();
    const { queue, clock } = rig(exporter);
    queue.add(trace(6, 2000, [spansOf(3), spansOf(1), spansOf(1), spansOf(1)]));
    await rest();
    under[0]?.done();
    await rest();
    const closed = queue.close(100);
    clock.advance(100);
    await closed;
    await rest();
    expect(queue.stats()).toMatchObject({ exported: 3, dropped: { shutdown: 3 } });
  });

  it('sends what waits without the delay, then takes nothing any more', async () => {
    const { exporter, under } = manual();
    const { queue } = rig(exporter);
    queue.add(trace(2, 10));
    const closed = queue.close(1500);
    await rest();
    under[0]?.done();
    await closed;
    queue.add(trace(3, 10));
    expect(queue.stats()).toMatchObject({ exported: 2, waitingSpans: 0, dropped: { shutdown: 3 } });
  });

  it('C199 does not wait longer than it may: what is left is dropped and counted', async () => {
    const { exporter, seen } = manual();
    const { queue, clock } = rig(exporter);
    for (let count = 0; count < 3; count += 1) queue.add(trace(10, 10));
    await rest();
    const closed = queue.close(1500);
    let over = false;
    void closed.then(() => (over = true));
    clock.advance(1499);
    await rest();
    expect(over).toBe(false);
    clock.advance(1);
    await rest();
    expect(over).toBe(true);
    expect(seen.aborts).toBeGreaterThan(0);
    expect(queue.stats().dropped).toEqual({ queue_full: 0, export_failed: 0, shutdown: 30 });
    expect(clock.pending()).toBe(0);
  });

  it('is there at once when nothing waits', async () => {
    const { queue, clock } = rig(manual().exporter);
    await queue.close(1500);
    expect(clock.pending()).toBe(0);
  });
});
