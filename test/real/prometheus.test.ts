/** A real Prometheus scrapes warmlane: its page is clean, and quantiles taken from its buckets agree with the exact ones. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { newRequestId, streamedChat, withId } from './dialects.ts';
import { startLongAnswers, type LongAnswerServer } from './long-answer.ts';
import { checkMetrics, hasPrometheus, startPrometheus, type Prometheus } from './prometheus.ts';
import { ask, send } from './raw-client.ts';
import { gaps, known, sum } from './reading.ts';
import { startWarmlane, type Warmlane, type WireRecord } from './warmlane.ts';

const requests = 120;
const aborted = 5;

interface World {
  readonly backend: LongAnswerServer;
  readonly warmlane: Warmlane;
  readonly prometheus: Prometheus;
  /** Of the requests whose answers came whole. */
  readonly records: readonly WireRecord[];
}

/** Uneven lengths, so that the distributions have something to tell. */
async function serveRequests(): Promise<World> {
  const backend = await startLongAnswers(60, 2);
  const warmlane = await startWarmlane([backend.url]);
  const prometheus = await startPrometheus(new URL(warmlane.adminUrl).host);
  const ids = Array.from({ length: requests }, newRequestId);
  for (let at = 0; at < requests; at += 8) {
    await Promise.all(
      ids
        .slice(at, at + 8)
        .map((id, index) => ask(warmlane.url, withId(streamedChat('x '.repeat(index * 200), 60), id))),
    );
  }
  for (let i = 0; i < aborted; i += 1) {
    const id = newRequestId();
    const call = send(warmlane.url, withId(streamedChat('Hello.', 60), id));
    await call.untilEvents(10);
    call.abort();
    await warmlane.record(id);
  }
  const records = await Promise.all(ids.map((id) => warmlane.record(id)));
  await prometheus.scraped();
  return { backend, warmlane, prometheus, records };
}

/** The value at rank q·n, as Prometheus counts. */
function exact(values: readonly number[], q: number): number {
  const sorted = values.toSorted((a, b) => a - b);
  return known(sorted[Math.max(0, Math.ceil(q * sorted.length) - 1)], 'a value');
}

describe.runIf(hasPrometheus())('Prometheus', () => {
  let made: World | undefined;
  const world = () => known(made, 'the world');

  beforeAll(async () => {
    made = await serveRequests();
  }, 60_000);
  afterAll(async () => {
    await made?.prometheus.stop();
    await made?.warmlane.stop();
    await made?.backend.close();
  });

  it('finds nothing wrong with the page', async () => {
    const answer = await fetch(`${world().warmlane.adminUrl}/metrics`);
    expect(answer.headers.get('content-type')).toContain('text/plain');
    expect(await checkMetrics(await answer.text())).toBe('');
  });

  it('counts every request once, aborted ones under their outcome', async () => {
    const samples = await world().prometheus.query('sum by (outcome) (warmlane_requests_total)');
    const byOutcome: Record<string, number> = Object.fromEntries(
      samples.map(({ labels, value }) => [labels['outcome'] ?? '', value]),
    );
    expect(byOutcome).toEqual({ ok: requests, client_abort: aborted });
  });

  it.each([
    [
      'gen_ai_server_time_to_first_token_seconds',
      (record: WireRecord) => [known(record.figures.ttftMs, 'TTFT') / 1000],
    ],
    [
      'gen_ai_server_time_per_output_token_seconds',
      (record: WireRecord) => [known(record.figures.tpotMs, 'TPOT') / 1000],
    ],
    ['gen_ai_server_request_duration_seconds', (record: WireRecord) => [record.figures.durationMs / 1000]],
    ['warmlane_time_to_last_token_seconds', (record: WireRecord) => [known(record.figures.e2eMs, 'E2E') / 1000]],
    ['warmlane_inter_token_latency_seconds', (record: WireRecord) => itlSeconds(record)],
  ])('takes the quantiles of %s within one bucket', async (metric, valuesOf) => {
    const { prometheus, records } = world();
    const values = records.flatMap(valuesOf);
    const own = `${metric}_bucket{outcome="ok"}`;
    const buckets = await prometheus.query(`sum by (le) (${own})`);
    const bounds = buckets
      .map(({ labels }) => Number(labels['le']?.replace('+Inf', 'Infinity')))
      .toSorted((a, b) => a - b);
    const [count] = await prometheus.query(`sum(${metric}_count{outcome="ok"})`);
    expect(count?.value).toBe(values.length);
    const [total] = await prometheus.query(`sum(${metric}_sum{outcome="ok"})`);
    expect(known(total, 'a sum').value).toBeCloseTo(sum(values), 2);
    for (const q of [0.5, 0.9, 0.99]) {
      const [sample] = await prometheus.query(`histogram_quantile(${q}, sum by (le) (${own}))`);
      const truth = exact(values, q);
      // A value that close to a bound may count on either side of it.
      const upper = known(
        bounds.find((bound) => bound >= truth * 1.006),
        'an upper bound',
      );
      const lower = bounds.findLast((bound) => bound < truth * 0.994) ?? 0;
      const { value } = known(sample, 'a quantile');
      expect(value, `${metric} q${q}: exact ${truth}`).toBeGreaterThanOrEqual(lower);
      expect(value, `${metric} q${q}: exact ${truth}`).toBeLessThanOrEqual(upper);
    }
  });
});

function itlSeconds(record: WireRecord): number[] {
  return gaps(known(record.stamps, 'stamps').atMs).map((gapMs) => gapMs / 1000);
}
