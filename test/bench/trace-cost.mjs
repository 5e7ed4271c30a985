/**
 * What a trace costs per token, in one process and without sockets: making the spans of a finished request and encoding
 * them for OTLP, with every token's time as arrays and as events. Nothing of it happens while tokens flow; it is done
 * behind a request's end, in one go per span, so the longest such go is shown too: for so long nothing else runs.
 * Beside it the share of the CPU per token that the latest bench measured.
 * usage: node test/bench/trace-cost.mjs (after `npm run build`)
 */
import { existsSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';

import { median } from './goals.mjs';
import { latestCpuPerToken } from './latest-results.mjs';

const distFolder = join(import.meta.dirname, '../../dist');
const lengths = [200, 10_000, 100_000];
const forms = /** @type {const} */ (['arrays', 'events', 'off']);
const rounds = 15;
const warmUpTokens = 400_000;

/** @typedef {import('../../src/domain/record.ts').RequestRecord} RequestRecord */

/** A finished request with so many tokens, about 20 ms apart, one in eight sharing its read. @param {number} count @returns {RequestRecord} */
function makeRecord(count) {
  const atMs = Float64Array.from({ length: count }, (_, index) => 1050 + index * 20.1 + (index % 7) * 0.3);
  const coalesced = Uint8Array.from({ length: count }, (_, index) => (index % 8 === 7 ? 1 : 0));
  const last = atMs[count - 1] ?? 1050;
  return {
    requestId: '0f0f0f0f-0000-4000-8000-000000000000',
    startedAtEpochMs: 1_795_970_621_000,
    endpoint: 'chat',
    method: 'POST',
    path: '/v1/chat/completions',
    lane: 'online',
    model: 'bench',
    backend: 'gpu-1',
    engine: 'vllm',
    outcome: 'ok',
    status: 200,
    spokenBy: 'backend',
    attempts: 1,
    streamed: true,
    format: 'chat',
    requestBytes: 2000,
    responseBytes: count * 250,
    events: count,
    tokens: { prompt: { value: 500, source: 'usage' }, output: { value: count, source: 'usage' } },
    finishReasons: ['stop'],
    warmth: 'resident',
    timeline: {
      received: 1000,
      receivedLast: 1000,
      queued: 1000,
      admitted: 1000,
      connected: 1001,
      sent: 1001,
      head: 1040,
      firstToken: 1050,
      lastToken: last,
      end: last + 1,
    },
    figures: {
      ttftMs: 50,
      firstEventMs: 50,
      tpotMs: 20,
      tpotWindow: 'visible',
      e2eMs: last - 1000,
      durationMs: last - 999,
    },
    stamps: { atMs, coalesced },
    marks: ['coalesced'],
    routeReason: 'least_load',
    trace: { traceId: '0af7651916cd43dd8448eb211c80319c', spanId: 'b7ad6b7169203331', sampled: true },
    attemptLog: [
      {
        backend: 'gpu-1',
        engine: 'vllm',
        spanId: 'aaaaaaaaaaaaaaa1',
        startMs: 1000,
        connectedMs: 1001,
        sentMs: 1001,
        headMs: 1040,
        endMs: last + 1,
        status: 200,
      },
    ],
  };
}

/** @param {string} file @returns {Promise<any>} a built module; its source's type is named where it is used */
const built = (file) => import(pathToFileURL(join(distFolder, file)).href);

/** Of the exporter that warmlane loads. @returns {{ serializeRequest(spans: readonly unknown[]): Uint8Array }} */
function officialSerializer() {
  const exporter = createRequire(import.meta.url).resolve('@opentelemetry/exporter-trace-otlp-proto');
  return createRequire(exporter)('@opentelemetry/otlp-transformer').ProtobufTraceSerializer;
}

/**
 * @param {() => Iterable<readonly unknown[]>} makeParts
 * @param {ReturnType<typeof officialSerializer>} serializer
 */
function once(makeParts, serializer) {
  let bytes = 0;
  let longestMs = 0;
  const startMs = performance.now();
  let partMs = startMs;
  for (const spans of makeParts()) {
    bytes += serializer.serializeRequest(spans).length;
    const nowMs = performance.now();
    longestMs = Math.max(longestMs, nowMs - partMs);
    partMs = nowMs;
  }
  return { bytes, longestMs, tookMs: performance.now() - startMs };
}

async function main() {
  if (!existsSync(join(distFolder, 'export/trace/request-spans.js'))) {
    console.log('trace-cost: dist/export/trace/request-spans.js is absent: run `npm run build`');
    return 1;
  }
  /** @type {[typeof import('../../src/export/trace/request-spans.ts'), typeof import('../../src/export/trace/span-source.ts')]} */
  const [{ requestSpans, sizeOf }, { createSpanSource }] = await Promise.all([
    built('export/trace/request-spans.js'),
    built('export/trace/span-source.js'),
  ]);
  const source = await createSpanSource({ 'service.name': 'warmlane' }, 'bench');
  const serializer = officialSerializer();
  const latest = latestCpuPerToken();
  if (latest !== undefined) console.log(`share of ${latest.micros.toFixed(1)} µs CPU per token (${latest.name})`);
  for (const tokens of forms) {
    const view = { source, tokens, scheme: 'http', route: () => '/v1/chat/completions', backend: () => undefined };
    for (const length of lengths) {
      const record = makeRecord(length);
      const parts = () => requestSpans(record, 'head', view);
      for (let done = 0; done < warmUpTokens; done += length) once(parts, serializer);
      const runs = Array.from({ length: rounds }, () => once(parts, serializer));
      const tookMs = median(runs.map((run) => run.tookMs));
      const longestMs = median(runs.map((run) => run.longestMs));
      const bytes = runs[0]?.bytes ?? 0;
      const nanos = (tookMs * 1e6) / length;
      const share = latest === undefined ? '' : ` · ${(nanos / 10 / latest.micros).toFixed(1)} %`;
      console.log(
        `${tokens.padEnd(7)} ${String(length).padStart(7)} tokens ${nanos.toFixed(0).padStart(6)} ns/token${share} · ${tookMs.toFixed(2)} ms, at most ${longestMs.toFixed(2)} ms at a stretch · ${(bytes / length).toFixed(1)} bytes/token (estimate ${(sizeOf(record, tokens).bytes / length).toFixed(1)})`,
      );
    }
  }
  return 0;
}

process.exitCode = await main();
