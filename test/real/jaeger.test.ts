/** Spans in a real Jaeger: warmlane's and vLLM's in one tree, and every token of a long answer. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { freshPrompt, newRequestId, streamedChat, withId } from './dialects.ts';
import { installed } from './installed.ts';
import { parentOf, startJaeger, tagOf, type Jaeger, type JaegerTrace } from './jaeger.ts';
import { startLongAnswers } from './long-answer.ts';
import { ask } from './raw-client.ts';
import { known, only, sum } from './reading.ts';
import { startVllm, vllmFlags } from './vllm.ts';
import { startWarmlane, type Warmlane } from './warmlane.ts';

const newTraceId = () => newRequestId().slice('real-'.length).padStart(32, '7');

/** Sends a request as a caller who traces would. */
async function traced(warmlane: Warmlane, request: Parameters<typeof withId>[0]) {
  const traceId = newTraceId();
  const requestId = newRequestId();
  const answer = await ask(warmlane.url, {
    ...withId(request, requestId),
    headers: { 'X-Request-Id': requestId, traceparent: `00-${traceId}-00f067aa0ba902b7-01` },
  });
  expect(answer.status).toBe(200);
  return { traceId, record: await warmlane.record(requestId), answer };
}

function spanNamed(trace: JaegerTrace, test: (name: string) => boolean) {
  return only(trace.spans.filter(({ operationName }) => test(operationName)));
}

describe.runIf(installed('jaeger'))('Jaeger', () => {
  let running: Jaeger | undefined;
  const jaeger = () => known(running, 'Jaeger');
  const otlp = () => ({ OTEL_EXPORTER_OTLP_ENDPOINT: jaeger().httpUrl, OTEL_BSP_SCHEDULE_DELAY: '200' });

  beforeAll(async () => {
    running = await startJaeger();
  });
  afterAll(() => running?.stop());

  it.each(['http/protobuf', 'http/json', 'grpc'])(
    'gives back all 10,000 tokens of a long answer, sent by %s',
    async (protocol) => {
      const tokens = 10_000;
      const backend = await startLongAnswers(tokens);
      const env = {
        ...otlp(),
        OTEL_EXPORTER_OTLP_PROTOCOL: protocol,
        ...(protocol === 'grpc' ? { OTEL_EXPORTER_OTLP_ENDPOINT: jaeger().grpcUrl } : {}),
      };
      const warmlane = await startWarmlane([backend.url], [], env);
      try {
        const { traceId, record } = await traced(warmlane, streamedChat('Count.', tokens));
        const trace = await jaeger().trace(traceId, 5);
        const decode = spanNamed(trace, (name) => name === 'decode');
        const deltas = JSON.parse(String(tagOf(decode, 'warmlane.token.deltas_us'))) as number[];
        expect(deltas).toHaveLength(tokens);
        const stamps = known(record.stamps, 'stamps').atMs;
        const spreadMs = known(stamps.at(-1), 'a last stamp') - known(stamps[0], 'a first stamp');
        expect(sum(deltas.slice(1)) / 1000).toBeCloseTo(spreadMs, 1);
        // Jaeger takes a minus and a plus from rounding of start and end, a microsecond each.
        expect(Math.abs(decode.duration - sum(deltas.slice(1)))).toBeLessThanOrEqual(2);
      } finally {
        await warmlane.stop();
        await backend.close();
      }
    },
  );

  it.runIf(installed('vllm'))("hangs vLLM's own span below the attempt that reached it", async () => {
    const engine = await startVllm([...vllmFlags, '--otlp-traces-endpoint', jaeger().grpcUrl], {
      OTEL_SERVICE_NAME: 'vllm',
      OTEL_EXPORTER_OTLP_TRACES_INSECURE: 'true',
      OTEL_BSP_SCHEDULE_DELAY: '200',
    });
    const warmlane = await startWarmlane([engine.url], [], otlp());
    try {
      const { traceId, record } = await traced(warmlane, streamedChat(freshPrompt(), 12));
      const trace = await jaeger().trace(traceId, 6);
      const engineSpan = spanNamed(trace, (name) => name === 'llm_request');
      expect(trace.processes[engineSpan.processID]?.serviceName).toBe('vllm');
      const attempt = known(parentOf(trace, engineSpan), "the engine span's parent");
      expect(tagOf(attempt, 'span.kind')).toBe('client');
      const server = known(parentOf(trace, attempt), "the attempt's parent");
      expect(tagOf(server, 'span.kind')).toBe('server');
      expect(server.references).toMatchObject([{ refType: 'CHILD_OF', spanID: '00f067aa0ba902b7' }]);
      for (const name of ['prefill', 'decode']) {
        expect(
          parentOf(
            trace,
            spanNamed(trace, (each) => each === name),
          )?.spanID,
        ).toBe(attempt.spanID);
      }
      expect(
        parentOf(
          trace,
          spanNamed(trace, (name) => name === 'queue'),
        )?.spanID,
      ).toBe(server.spanID);
      expect(tagOf(engineSpan, 'gen_ai.usage.completion_tokens')).toBe(12);
      expect(record.tokens.output?.value).toBe(12);
      // The engine's work lies within the attempt; both clocks are this machine's.
      expect(engineSpan.startTime).toBeGreaterThanOrEqual(attempt.startTime - 1_000);
      expect(engineSpan.startTime + engineSpan.duration).toBeLessThanOrEqual(
        attempt.startTime + attempt.duration + 50_000,
      );
    } finally {
      await warmlane.stop();
      await engine.stop();
    }
  });
});
