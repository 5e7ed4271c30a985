/**
 * A collector for tests: takes OTLP over HTTP on a port of its own, decodes protobuf with the official definitions (those
 * that an older @opentelemetry/otlp-transformer ships), and behaves as badly as a test wants.
 */
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo, Socket } from 'node:net';
import { gunzipSync } from 'node:zlib';
import root from 'otlp-proto-definitions/build/src/generated/root.js';

import { eventually } from './stage.ts';

interface RawSpan {
  readonly traceId: Uint8Array;
  readonly spanId: Uint8Array;
  readonly parentSpanId?: Uint8Array | null;
  readonly traceState?: string | null;
  readonly name: string;
  readonly kind?: number | null;
  readonly startTimeUnixNano: unknown;
  readonly endTimeUnixNano: unknown;
  readonly attributes: KeyValues;
  readonly events: readonly { readonly name: string; readonly timeUnixNano: unknown; readonly attributes: KeyValues }[];
  readonly droppedEventsCount?: number | null;
  readonly status?: { readonly code?: number | null; readonly message?: string | null } | null;
  readonly flags?: number | null;
}

interface RawRequest {
  readonly resourceSpans: readonly {
    readonly resource?: { readonly attributes: KeyValues } | null;
    readonly scopeSpans: readonly {
      readonly scope?: { readonly name: string } | null;
      readonly spans: readonly RawSpan[];
    }[];
  }[];
}

interface Definitions {
  readonly ExportTraceServiceRequest: { decode(bytes: Uint8Array): RawRequest };
  readonly ExportTraceServiceResponse: { encode(value: object): { finish(): Uint8Array } };
}

// The generated module declares no types of its messages.
const { ExportTraceServiceRequest, ExportTraceServiceResponse } = (
  root as unknown as { opentelemetry: { proto: { collector: { trace: { v1: Definitions } } } } }
).opentelemetry.proto.collector.trace.v1;

export interface DecodedEvent {
  readonly name: string;
  readonly timeNs: bigint;
  readonly attributes: Readonly<Record<string, unknown>>;
}

export interface DecodedSpan {
  readonly traceId: string;
  readonly spanId: string;
  /** Empty at the root. */
  readonly parentSpanId: string;
  readonly traceState: string;
  readonly name: string;
  /** As the API numbers them plus one: 1 internal, 2 server, 3 client. */
  readonly kind: number;
  readonly startNs: bigint;
  readonly endNs: bigint;
  readonly attributes: Readonly<Record<string, unknown>>;
  readonly events: readonly DecodedEvent[];
  readonly droppedEvents: number;
  /** 0 unset, 1 ok, 2 error. */
  readonly status: number;
  readonly statusMessage: string;
  readonly flags: number;
  readonly resource: Readonly<Record<string, unknown>>;
  readonly scope: string;
}

export type Behaviour =
  | { readonly kind: 'take' }
  /** Takes the bytes and never answers. */
  | { readonly kind: 'hang' }
  | { readonly kind: 'slow'; readonly ms: number }
  | { readonly kind: 'status'; readonly status: number }
  | { readonly kind: 'reset' }
  | { readonly kind: 'partial'; readonly rejected: number };

export interface OtlpReceiver {
  /** For `OTEL_EXPORTER_OTLP_ENDPOINT`. */
  readonly url: string;
  /** For `OTEL_EXPORTER_OTLP_TRACES_ENDPOINT`: nothing but traces comes. */
  readonly tracesUrl: string;
  readonly port: number;
  readonly spans: readonly DecodedSpan[];
  readonly requests: readonly { readonly headers: IncomingMessage['headers']; readonly bytes: number }[];
  /** Connections open now, and the most at one time. */
  readonly sockets: { readonly open: number; readonly most: number };
  behave(how: Behaviour): void;
  /** Waits for so many spans of this name, or of any; gives them. */
  got(count: number, name?: string, timeoutMs?: number): Promise<readonly DecodedSpan[]>;
  close(): Promise<void>;
}

const tracesPath = '/v1/traces';

export async function startOtlpReceiver(): Promise<OtlpReceiver> {
  const spans: DecodedSpan[] = [];
  const requests: { headers: IncomingMessage['headers']; bytes: number }[] = [];
  const open = new Set<Socket>();
  const sockets = { open: 0, most: 0 };
  let behaviour: Behaviour = { kind: 'take' };

  function answer(incoming: IncomingMessage, outgoing: ServerResponse, body: Buffer): void {
    const how = behaviour;
    // The common endpoint gets metrics too; they are somebody else's business.
    if (incoming.url !== tracesPath) return void outgoing.writeHead(200).end();
    requests.push({ headers: incoming.headers, bytes: body.length });
    if (how.kind === 'hang') return;
    if (how.kind === 'reset') return void incoming.socket.resetAndDestroy();
    if (how.kind === 'status') return void outgoing.writeHead(how.status).end();
    const decoded = decode(incoming.headers['content-encoding'] === 'gzip' ? gunzipSync(body) : body);
    const reply =
      how.kind === 'partial' ? { partialSuccess: { rejectedSpans: how.rejected, errorMessage: 'too many' } } : {};
    const send = () => {
      spans.push(...decoded);
      outgoing.writeHead(200, { 'Content-Type': 'application/x-protobuf' });
      outgoing.end(ExportTraceServiceResponse.encode(reply).finish());
    };
    if (how.kind === 'slow') setTimeout(send, how.ms).unref();
    else send();
  }

  const server = createServer((incoming, outgoing) => {
    const pieces: Buffer[] = [];
    incoming.on('data', (piece: Buffer) => pieces.push(piece));
    incoming.on('end', () => answer(incoming, outgoing, Buffer.concat(pieces)));
    incoming.on('error', () => {});
  });
  server.on('connection', (socket) => {
    open.add(socket);
    sockets.open = open.size;
    sockets.most = Math.max(sockets.most, open.size);
    socket.on('error', () => {});
    socket.on('close', () => {
      open.delete(socket);
      sockets.open = open.size;
    });
  });
  await new Promise<void>((resolve) => void server.listen(0, '127.0.0.1', resolve));
  // It listens on TCP.
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${port}`,
    tracesUrl: `http://127.0.0.1:${port}${tracesPath}`,
    port,
    spans,
    requests,
    sockets,
    behave(how) {
      behaviour = how;
    },
    async got(count, name, timeoutMs = 5000) {
      const wanted = () => spans.filter((span) => name === undefined || span.name === name);
      await eventually(
        () => wanted().length >= count,
        `${count} spans ${name ?? ''} (${spans.length} in all)`,
        timeoutMs,
      );
      return wanted();
    },
    async close() {
      for (const socket of open) socket.destroy();
      await new Promise((resolve) => void server.close(resolve));
    },
  };
}

export function decode(bytes: Uint8Array): readonly DecodedSpan[] {
  return ExportTraceServiceRequest.decode(bytes).resourceSpans.flatMap(({ resource, scopeSpans }) =>
    scopeSpans.flatMap(({ scope, spans }) =>
      spans.map((span): DecodedSpan => ({
        traceId: hex(span.traceId),
        spanId: hex(span.spanId),
        parentSpanId: hex(span.parentSpanId),
        traceState: span.traceState ?? '',
        name: span.name,
        kind: span.kind ?? 0,
        startNs: wide(span.startTimeUnixNano),
        endNs: wide(span.endTimeUnixNano),
        attributes: attributesOf(span.attributes),
        events: span.events.map((event) => ({
          name: event.name,
          timeNs: wide(event.timeUnixNano),
          attributes: attributesOf(event.attributes),
        })),
        droppedEvents: span.droppedEventsCount ?? 0,
        status: span.status?.code ?? 0,
        statusMessage: span.status?.message ?? '',
        flags: span.flags ?? 0,
        resource: attributesOf(resource?.attributes),
        scope: scope?.name ?? '',
      })),
    ),
  );
}

function hex(bytes: Uint8Array | null | undefined): string {
  return bytes === undefined || bytes === null ? '' : Buffer.from(bytes).toString('hex');
}

/** 64-bit numbers come as objects of a library of their own. */
function wide(value: unknown): bigint {
  return BigInt(String(value));
}

type KeyValues = readonly { readonly key?: string | null; readonly value?: AnyValue | null }[];
interface AnyValue {
  readonly stringValue?: string | null;
  readonly boolValue?: boolean | null;
  readonly intValue?: unknown;
  readonly doubleValue?: number | null;
  readonly arrayValue?: { readonly values?: readonly AnyValue[] | null } | null;
}

function attributesOf(list: KeyValues | null | undefined): Record<string, unknown> {
  return Object.fromEntries((list ?? []).map(({ key, value }) => [key ?? '', valueOf(value ?? {})]));
}

function valueOf(value: AnyValue): unknown {
  if (value.arrayValue !== null && value.arrayValue !== undefined) return (value.arrayValue.values ?? []).map(valueOf);
  if (value.intValue !== null && value.intValue !== undefined) return Number(wide(value.intValue));
  return value.stringValue ?? value.boolValue ?? value.doubleValue ?? undefined;
}
