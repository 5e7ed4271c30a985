/** A collector that speaks OTLP over gRPC, on Node's own HTTP/2: one message in, an empty one and `grpc-status: 0` out. */
import { createServer, type ServerHttp2Session } from 'node:http2';
import type { AddressInfo } from 'node:net';

import { decode, type DecodedSpan } from './otlp-receiver.ts';

export interface OtlpGrpcReceiver {
  readonly url: string;
  readonly paths: ReadonlySet<string>;
  readonly spans: readonly DecodedSpan[];
  close(): Promise<void>;
}

/** Compressed or not, and the length (gRPC over HTTP/2, Length-Prefixed-Message). */
const prefixBytes = 5;

export async function startOtlpGrpcReceiver(): Promise<OtlpGrpcReceiver> {
  const spans: DecodedSpan[] = [];
  const paths = new Set<string>();
  const sessions = new Set<ServerHttp2Session>();
  const server = createServer();
  server.on('session', (session) => {
    sessions.add(session);
    session.on('close', () => sessions.delete(session));
  });
  server.on('stream', (stream, headers) => {
    const pieces: Buffer[] = [];
    stream.on('data', (piece: Buffer) => pieces.push(piece));
    stream.on('end', () => {
      paths.add(headers[':path'] ?? '');
      spans.push(...decode(Buffer.concat(pieces).subarray(prefixBytes)));
      stream.respond({ ':status': 200, 'content-type': 'application/grpc' }, { waitForTrailers: true });
      stream.on('wantTrailers', () => stream.sendTrailers({ 'grpc-status': '0' }));
      stream.end(Buffer.alloc(prefixBytes));
    });
  });
  await new Promise<void>((resolve) => void server.listen(0, '127.0.0.1', resolve));
  // It listens on TCP.
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${port}`,
    paths,
    spans,
    async close() {
      for (const session of sessions) session.destroy();
      await new Promise((resolve) => void server.close(resolve));
    },
  };
}
