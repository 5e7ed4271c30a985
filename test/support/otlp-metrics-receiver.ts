/**
 * A collector of metrics for tests: takes OTLP over HTTP, protobuf (decoded by the official definitions) or JSON, and gives
 * each metric's points as plain values. Keeps what the last export said of a series.
 */
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { gunzipSync } from 'node:zlib';
import root from 'otlp-proto-definitions/build/src/generated/root.js';
import { eventually } from './stage.ts';

export interface DecodedPoint {
  readonly attributes: Readonly<Record<string, unknown>>;
  readonly startNs: bigint;
  readonly timeNs: bigint;
  /** of sums and gauges */
  readonly value?: number;
  /** of exponential histograms */
  readonly histogram?: {
    readonly count: number;
    readonly sum: number;
    readonly min: number;
    readonly max: number;
    readonly scale: number;
    readonly zeroCount: number;
    readonly offset: number;
    readonly counts: readonly number[];
  };
}

export interface DecodedMetric {
  readonly name: string;
  readonly unit: string;
  readonly description: string;
  readonly kind: 'sum' | 'gauge' | 'exponentialHistogram' | 'other';
  readonly isMonotonic: boolean;
  /** 1 delta, 2 cumulative */
  readonly temporality: number;
  readonly points: readonly DecodedPoint[];
}

export interface OtlpMetricsReceiver {
  /** For `OTEL_EXPORTER_OTLP_METRICS_ENDPOINT`. */
  readonly url: string;
  readonly contentTypes: readonly string[];
  readonly resource: Readonly<Record<string, unknown>>;
  /** Metrics of the last export. */
  readonly metrics: ReadonlyMap<string, DecodedMetric>;
  readonly exports: number;
  answerWith(status: number | 'hang'): void;
  /** Waits for the export after this many more. */
  next(timeoutMs?: number): Promise<ReadonlyMap<string, DecodedMetric>>;
  close(): Promise<void>;
}

type Plain = Readonly<Record<string, unknown>>;
interface Type {
  decode(bytes: Uint8Array): object;
  toObject(message: object, options: object): Plain;
}

// The generated module declares no types of its messages.
const { ExportMetricsServiceRequest } = (
  root as unknown as {
    opentelemetry: { proto: { collector: { metrics: { v1: { ExportMetricsServiceRequest: Type } } } } };
  }
).opentelemetry.proto.collector.metrics.v1;

export async function startOtlpMetricsReceiver(): Promise<OtlpMetricsReceiver> {
  const contentTypes: string[] = [];
  let metrics: ReadonlyMap<string, DecodedMetric> = new Map();
  let resource: Plain = {};
  let exports = 0;
  let status: number | 'hang' = 200;

  function answer(incoming: IncomingMessage, outgoing: ServerResponse, body: Buffer): void {
    if (status === 'hang') return;
    if (status === 200) {
      const type = incoming.headers['content-type'] ?? '';
      contentTypes.push(type);
      const bytes = incoming.headers['content-encoding'] === 'gzip' ? gunzipSync(body) : body;
      ({ metrics, resource } = read(type.includes('json') ? (JSON.parse(bytes.toString()) as Plain) : decoded(bytes)));
      exports += 1;
    }
    outgoing.writeHead(status).end();
  }

  const server = createServer((incoming, outgoing) => {
    const pieces: Buffer[] = [];
    incoming.on('data', (piece: Buffer) => pieces.push(piece));
    incoming.on('end', () => answer(incoming, outgoing, Buffer.concat(pieces)));
    incoming.on('error', () => {});
  });
  await new Promise<void>((resolve) => void server.listen(0, '127.0.0.1', resolve));
  // It listens on TCP.
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${port}/v1/metrics`,
    contentTypes,
    get resource() {
      return resource;
    },
    get metrics() {
      return metrics;
    },
    get exports() {
      return exports;
    },
    answerWith(how) {
      status = how;
    },
    async next(timeoutMs = 5000) {
      // One that begins after this moment: the export under way may have been read before.
      const wanted = exports + 2;
      await eventually(() => exports >= wanted, 'another export of metrics', timeoutMs);
      return metrics;
    },
    async close() {
      server.closeAllConnections();
      await new Promise((resolve) => void server.close(resolve));
    },
  };
}

function decoded(bytes: Uint8Array): Plain {
  return ExportMetricsServiceRequest.toObject(ExportMetricsServiceRequest.decode(bytes), {
    longs: String,
    defaults: true,
    arrays: true,
  });
}

function read(request: Plain): { metrics: ReadonlyMap<string, DecodedMetric>; resource: Plain } {
  const [of] = list(request['resourceMetrics']);
  const all = list(of?.['scopeMetrics']).flatMap((scope) => list(scope['metrics']));
  return {
    resource: attributesOf(object(of?.['resource'])['attributes']),
    metrics: new Map(all.map((metric) => [String(metric['name']), metricOf(metric)])),
  };
}

function metricOf(metric: Plain): DecodedMetric {
  const kind = (['sum', 'gauge', 'exponentialHistogram'] as const).find((name) => isObject(metric[name])) ?? 'other';
  const data = object(metric[kind]);
  return {
    name: String(metric['name']),
    unit: String(metric['unit']),
    description: String(metric['description']),
    kind,
    isMonotonic: data['isMonotonic'] === true,
    temporality: Number(data['aggregationTemporality'] ?? 0),
    points: list(data['dataPoints']).map(pointOf),
  };
}

function pointOf(point: Plain): DecodedPoint {
  const positive = object(point['positive']);
  const common = {
    attributes: attributesOf(point['attributes']),
    startNs: BigInt(String(point['startTimeUnixNano'])),
    timeNs: BigInt(String(point['timeUnixNano'])),
  };
  if (!('zeroCount' in point)) return { ...common, value: Number(point['asDouble'] ?? point['asInt']) };
  return {
    ...common,
    histogram: {
      count: Number(point['count']),
      sum: Number(point['sum']),
      min: Number(point['min']),
      max: Number(point['max']),
      scale: Number(point['scale']),
      zeroCount: Number(point['zeroCount']),
      offset: Number(positive['offset'] ?? 0),
      counts: ((positive['bucketCounts'] ?? []) as unknown[]).map(Number),
    },
  };
}

function attributesOf(value: unknown): Record<string, unknown> {
  return Object.fromEntries(
    list(value).map((pair) => {
      const { stringValue, intValue, boolValue, doubleValue } = object(pair['value']);
      const number = intValue ?? doubleValue;
      return [String(pair['key']), number === undefined ? (stringValue ?? boolValue) : Number(number)];
    }),
  );
}

function isObject(value: unknown): value is Plain {
  return typeof value === 'object' && value !== null;
}

function object(value: unknown): Plain {
  return isObject(value) ? value : {};
}

function list(value: unknown): readonly Plain[] {
  return Array.isArray(value) ? (value as Plain[]) : [];
}

/** The sum of the points whose attributes agree. */
export function total(
  metrics: ReadonlyMap<string, DecodedMetric>,
  name: string,
  of: (point: DecodedPoint) => number,
  attributes: Readonly<Record<string, unknown>> = {},
): number {
  return (metrics.get(name)?.points ?? [])
    .filter((point) => Object.entries(attributes).every(([key, value]) => point.attributes[key] === value))
    .reduce((sum, point) => sum + of(point), 0);
}
