/** Spans on their way to a collector: all tokens of a long answer arrive, and a collector that misbehaves costs spans alone. */
import { readFileSync } from 'node:fs';
import { createServer } from 'node:net';
import type { AddressInfo } from 'node:net';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';

import type { ScriptStep } from '../../src/sim/fault-steps.ts';
import { chunk, DONE, FIN, lastChunk, ROLE, sseHead, T, wholeStream } from '../../src/sim/sse-script.ts';
import { serveBuilt, type Served } from '../support/built.ts';
import { chatBody, R0 } from '../support/raw-http.ts';
import { startOtlpGrpcReceiver } from '../support/otlp-grpc-receiver.ts';
import { type Behaviour, type OtlpReceiver, startOtlpReceiver } from '../support/otlp-receiver.ts';
import { createStage, eventually, sleep, type Stage } from '../support/stage.ts';
import { closeReceivers, misplaced, tracedProxy } from '../support/traced.ts';

let stage: Stage;
let opened: { end(): Promise<void> }[];
beforeEach(() => {
  stage = createStage();
  opened = [];
});
afterEach(async () => {
  for (const each of opened) await each.end();
  await stage.close();
  await closeReceivers();
});

const server = 'POST /v1/chat/completions';
const short = wholeStream(ROLE, T('a'), FIN('stop'), DONE);
const full = process.env['WARMLANE_TEST_FULL'] === '1';

/** Written in lumps, as a fast engine's tokens come; each lump is at least one read. */
function* longAnswer(tokens: number): Generator<ScriptStep> {
  yield sseHead();
  yield chunk(ROLE);
  for (let sent = 0; sent < tokens; sent += 40) {
    yield chunk(...Array.from({ length: 40 }, () => T('x ')));
    yield 1;
  }
  yield chunk(FIN('stop'), DONE);
  yield lastChunk;
}

describe('a 10,000-token answer', () => {
  it.each(['arrays', 'events'] as const)('is in its trace token by token, as %s, over real sockets', async (tokens) => {
    const { send, receiver } = await tracedProxy(stage, () => longAnswer(10_000), { change: { traces: { tokens } } });
    const { record } = await send();
    expect(record.events).toBe(10_000);
    const [decode] = await receiver.got(1, 'decode');
    if (decode === undefined) throw new Error('no span');
    const atMs = Object.values(record.stamps?.atMs ?? {});
    expect(atMs).toHaveLength(10_000);
    const firstMs = atMs[0] ?? 0;
    let sum = 0;
    const micros =
      tokens === 'arrays'
        ? (decode.attributes['warmlane.token.deltas_us'] as number[]).map((delta) => (sum += delta))
        : decode.events.map(({ timeNs }) => Number(timeNs - decode.startNs) / 1000);
    expect(micros).toHaveLength(10_000);
    // The admin listener rounds to the microsecond as well.
    const farthest = micros.reduce(
      (most, at, index) => Math.max(most, Math.abs(at - ((atMs[index] ?? 0) - firstMs) * 1000)),
      0,
    );
    expect(farthest).toBeLessThan(1.6);
    expect(decode.droppedEvents).toBe(0);
    const coalesced = record.stamps?.coalesced;
    const marked = Object.values(coalesced ?? {}).filter((mark) => mark === 1).length;
    const told =
      tokens === 'arrays'
        ? (decode.attributes['warmlane.token.coalesced'] as number[]).length
        : decode.events.filter(({ attributes }) => attributes['warmlane.token.coalesced'] === true).length;
    expect(marked).toBeGreaterThan(0);
    expect(told).toBe(marked);
    expect(misplaced(receiver.spans)).toEqual([]);
  });
});

describe('the standard variables', () => {
  it('say headers, compression and the resource', async () => {
    const env = {
      OTEL_EXPORTER_OTLP_HEADERS: 'x-key=a%20b',
      OTEL_EXPORTER_OTLP_COMPRESSION: 'gzip',
      OTEL_SERVICE_NAME: 'edge',
      OTEL_RESOURCE_ATTRIBUTES: 'deployment.environment.name=test',
    };
    const { send, receiver } = await tracedProxy(stage, () => [short], { env });
    await send();
    await receiver.got(5);
    expect(receiver.requests[0]).toMatchObject({
      headers: { 'x-key': 'a b', 'content-encoding': 'gzip', 'content-type': 'application/x-protobuf' },
    });
    expect(receiver.spans[0]?.resource).toMatchObject({
      'service.name': 'edge',
      'deployment.environment.name': 'test',
    });
  });

  it('send to the common endpoint, under the signal’s path', async () => {
    const receiver = await openReceiver();
    const backend = await stage.backend({ onRequest: () => [short] });
    const env = { OTEL_EXPORTER_OTLP_ENDPOINT: receiver.url, OTEL_BSP_SCHEDULE_DELAY: '20' };
    const proxy = await stage.proxy(backend, { env });
    const client = await stage.client(proxy);
    client.send(R0);
    await client.answer();
    expect(await receiver.got(5)).toHaveLength(5);
  });

  it('choose JSON, sent by the official exporter for it', async () => {
    const env = { OTEL_EXPORTER_OTLP_PROTOCOL: 'http/json' };
    const { send, receiver } = await tracedProxy(stage, () => [short], { env });
    receiver.behave({ kind: 'status', status: 400 });
    await send();
    await eventually(() => receiver.requests.length > 0, 'an export');
    expect(receiver.requests[0]?.headers['content-type']).toBe('application/json');
  });

  it('choose gRPC, by the official exporter for it', async () => {
    const grpc = await startOtlpGrpcReceiver();
    opened.push({ end: () => grpc.close() });
    const env = { OTEL_EXPORTER_OTLP_TRACES_PROTOCOL: 'grpc', OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: grpc.url };
    const { send } = await tracedProxy(stage, () => [short], { env });
    await send();
    await eventually(() => grpc.spans.length === 5, 'the spans');
    expect(misplaced(grpc.spans)).toEqual([]);
    expect([...grpc.paths]).toEqual(['/opentelemetry.proto.collector.trace.v1.TraceService/Export']);
  });

  it('that can’t be followed are told in the log, and the rest goes on', async () => {
    const env = { OTEL_TRACES_SAMPLER: 'xray', OTEL_BSP_MAX_QUEUE_SIZE: 'large' };
    const { send, receiver, proxy } = await tracedProxy(stage, () => [short], { env });
    await send();
    await receiver.got(5);
    const warned = proxy.logged.filter(({ level }) => level === 'warn').map(({ msg }) => String(msg));
    expect(warned.filter((text) => text.startsWith('OTEL_'))).toHaveLength(2);
  });
});

describe('a collector that misbehaves costs spans and nothing else', () => {
  const ways: readonly (readonly [string, Behaviour])[] = [
    ['400', { kind: 'status', status: 400 }],
    ['500', { kind: 'status', status: 500 }],
    ['503, which the library tries again', { kind: 'status', status: 503 }],
    ['resets', { kind: 'reset' }],
    ['takes and refuses a part', { kind: 'partial', rejected: 3 }],
    ['is slow', { kind: 'slow', ms: 300 }],
    ['never answers', { kind: 'hang' }],
  ];
  it.each(ways)('%s', async (_, how) => {
    const env = { OTEL_EXPORTER_OTLP_TIMEOUT: '400' };
    const { send, receiver, proxy } = await tracedProxy(stage, () => [short], { env });
    receiver.behave(how);
    for (let round = 0; round < 6; round += 1) {
      const { answer, record } = await send();
      expect([answer.status, answer.complete, record.outcome]).toEqual([200, true, 'ok']);
      await sleep(30);
    }
    await eventually(() => receiver.requests.length > 0, 'an export');
    const said = () => proxy.logged.map(({ msg }) => msg);
    if (how.kind === 'partial') await eventually(() => said().includes('the collector refused spans'), 'it is told');
    else if (how.kind === 'slow') await receiver.got(30);
    else {
      await eventually(
        () => said().some((text) => String(text).startsWith('spans could not be exported')),
        'it is told',
      );
      receiver.behave({ kind: 'take' });
      await send();
      await receiver.got(5);
      expect(said().filter((text) => String(text).startsWith('spans could not be exported'))).toHaveLength(1);
      await eventually(() => said().includes('spans are exported again'), 'its end is told');
    }
    expect(receiver.sockets.most).toBeLessThanOrEqual(2);
    expect(proxy.logged.filter(({ level }) => level === 'error')).toEqual([]);
  });
});

async function started(
  env: Readonly<Record<string, string>>,
  { answer = short, traces = {} }: { readonly answer?: ScriptStep; readonly traces?: object } = {},
): Promise<Served> {
  const backend = await stage.backend({ onRequest: () => [answer] });
  const served = await serveBuilt({
    config: {
      backends: [{ url: backend.url, engine: 'openai' }],
      telemetry: { traces },
      // What is kept for the admin listener would blur what waits for export.
      records: { maxRecords: 1 },
      log: { format: 'json', requests: false },
    },
    env,
  });
  opened.push(served);
  return served;
}

/** @returns how long each took, ms, in order of length */
async function many(served: Served, count: number): Promise<readonly number[]> {
  const took: number[] = [];
  const one = async () => {
    for (let round = 0; round < count / 8; round += 1) {
      const fromMs = performance.now();
      const answer = await fetch(`http://127.0.0.1:${served.port}/v1/chat/completions`, {
        method: 'POST',
        body: JSON.stringify(chatBody),
        headers: { 'Content-Type': 'application/json' },
      });
      expect(await answer.text()).toContain('[DONE]');
      took.push(performance.now() - fromMs);
    }
  };
  await Promise.all(Array.from({ length: 8 }, one));
  return took.toSorted((a, b) => a - b);
}

/** Resident memory, MiB. */
function residentMib({ pid }: Served): number {
  return Number(/^VmRSS:\s+(\d+) kB/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1] ?? 0) / 1024;
}

describe('C198 a collector that accepts connections and never answers', () => {
  it('leaves memory, sockets and latency as they are', { timeout: 300_000 }, async () => {
    const receiver = await openReceiver();
    const traces = { maxQueueBytes: 1024 * 1024 };
    const served = await started(
      { OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: receiver.tracesUrl, OTEL_BSP_SCHEDULE_DELAY: '50' },
      { answer: wholeStream(ROLE, ...Array.from({ length: 2000 }, () => T('a')), FIN('stop'), DONE), traces },
    );
    const round = full ? 2000 : 800;
    const well = await many(served, round);
    receiver.behave({ kind: 'hang' });
    await many(served, round);
    const beforeMib = residentMib(served);
    const hanging = await many(served, round);
    const grownMib = residentMib(served) - beforeMib;
    const metrics = await (await fetch(`${served.adminUrl}/metrics`)).text();
    const metric = (name: string) => Number(new RegExp(`^${name} (\\S+)$`, 'm').exec(metrics)?.[1]);
    expect(metric('warmlane_spans_queued_bytes')).toBeGreaterThan(900_000);
    expect(metric('warmlane_spans_queued_bytes')).toBeLessThanOrEqual(1024 * 1024);
    expect(metric('warmlane_spans_dropped_total{dropped="queue_full"}')).toBeGreaterThan(1000);
    expect(receiver.sockets.most).toBeLessThanOrEqual(2);
    // Each record has the times of 2,000 tokens: with no bound in force a round keeps twice this and more (2.5 MiB for every 100 seen).
    expect(grownMib).toBeLessThan(full ? 20 : 10);
    const median = (list: readonly number[]) => list[Math.floor(list.length / 2)] ?? 0;
    expect(median(hanging)).toBeLessThan(3 * median(well) + 5);
    expect(served.logged.filter(({ level }) => level === 'error')).toEqual([]);
  });
});

async function openReceiver(): Promise<OtlpReceiver> {
  const receiver = await startOtlpReceiver();
  opened.push({ end: () => receiver.close() });
  return receiver;
}

/** A port where nothing listens. */
async function closedPort(): Promise<number> {
  const probe = createServer();
  await new Promise<void>((resolve) => void probe.listen(0, '127.0.0.1', resolve));
  // It listens on TCP.
  const { port } = probe.address() as AddressInfo;
  await new Promise((resolve) => void probe.close(resolve));
  return port;
}

describe('C199 the end of the process', () => {
  /** Ends it by SIGTERM. @returns its exit code, and how long that took */
  async function ended(served: Served) {
    await sleep(200);
    const fromMs = performance.now();
    served.child.kill('SIGTERM');
    const { code, atMs } = await served.exited;
    return { code, tookMs: atMs - fromMs };
  }

  function expectInTime({ code, tookMs }: Awaited<ReturnType<typeof ended>>): void {
    expect(code).toBe(0);
    expect(tookMs).toBeLessThan(2000);
  }

  it('does not wait for a collector whose port is closed', async () => {
    const served = await started({
      OTEL_EXPORTER_OTLP_ENDPOINT: `http://127.0.0.1:${await closedPort()}`,
      OTEL_BSP_SCHEDULE_DELAY: '50',
    });
    await many(served, 16);
    expectInTime(await ended(served));
  });

  it.each([
    ['never answers', { kind: 'hang' }],
    ['says 503', { kind: 'status', status: 503 }],
  ] as const)('nor for one that %s', async (_, how) => {
    const receiver = await openReceiver();
    receiver.behave(how);
    const served = await started({
      OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: receiver.tracesUrl,
      OTEL_BSP_SCHEDULE_DELAY: '50',
    });
    await many(served, 16);
    expectInTime(await ended(served));
  });

  it('sends what waits to one that is well', async () => {
    const receiver = await openReceiver();
    const served = await started({
      OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: receiver.tracesUrl,
      OTEL_BSP_SCHEDULE_DELAY: '60000',
    });
    // Fewer spans than a batch has, which would go at once.
    await many(served, 8);
    expect(receiver.spans).toEqual([]);
    expectInTime(await ended(served));
    expect(receiver.spans.filter(({ name }) => name === server)).toHaveLength(8);
  });

  it('nor does grpc keep it', async () => {
    const served = await started({
      OTEL_EXPORTER_OTLP_PROTOCOL: 'grpc',
      OTEL_EXPORTER_OTLP_ENDPOINT: `http://127.0.0.1:${await closedPort()}`,
      OTEL_BSP_SCHEDULE_DELAY: '50',
    });
    await many(served, 16);
    expectInTime(await ended(served));
  });
});
