/**
 * A recording TCP proxy between warmlane and a real engine: passes every byte on at once, keeps it with its moment of
 * arrival, and shows what went to and fro as HTTP exchanges. It is the direct reading against which warmlane's bytes and
 * stamps are held. Closes are passed on as they come; it never keeps a side open that the other has left.
 */
import { createServer, connect, type AddressInfo, type Socket } from 'node:net';
import { parseMessages, type Message, type Read } from './http-message.ts';

export interface TapExchange {
  readonly request: Message;
  readonly response?: Message;
  /** monotonic ms at which warmlane closed the connection, if it did so first */
  readonly closedByProxyMs?: number;
}

export interface Tap {
  readonly url: string;
  /** The exchanges of one request, by the `X-Request-Id` that warmlane sent: one for each attempt. */
  find(requestId: string): TapExchange[];
  stop(): Promise<void>;
}

interface Connection {
  readonly fromProxy: Read[];
  readonly fromEngine: Read[];
  closed: boolean;
  closedByProxyMs?: number;
  closedByEngineMs?: number;
}

export async function startTap(engineUrl: string): Promise<Tap> {
  const engine = new URL(engineUrl);
  const connections: Connection[] = [];
  const open = new Set<Socket>();

  const server = createServer({ allowHalfOpen: true, noDelay: true }, (proxySide) => {
    const connection: Connection = { fromProxy: [], fromEngine: [], closed: false };
    connections.push(connection);
    const engineSide = connect({
      host: engine.hostname,
      port: Number(engine.port),
      allowHalfOpen: true,
      noDelay: true,
    });
    carry(proxySide, engineSide, connection.fromProxy, () => {
      if (connection.closedByEngineMs === undefined) connection.closedByProxyMs ??= performance.now();
    });
    carry(engineSide, proxySide, connection.fromEngine, () => {
      connection.closed = true;
      if (connection.closedByProxyMs === undefined) connection.closedByEngineMs ??= performance.now();
    });
    for (const socket of [proxySide, engineSide]) {
      open.add(socket);
      socket.once('close', () => open.delete(socket));
    }
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  // A listening TCP server's address is an AddressInfo; the other types are for pipes and closed servers.
  const { port } = server.address() as AddressInfo;

  return {
    url: `http://127.0.0.1:${port}`,
    find: (requestId) =>
      connections
        .filter(({ fromProxy }) => fromProxy.some(({ bytes }) => bytes.includes(requestId))) // parsing them all would take long
        .flatMap((connection) => exchangesOf(connection))
        .filter(({ request }) => request.headers.get('x-request-id') === requestId),
    async stop() {
      for (const socket of open) socket.destroy();
      await new Promise<void>((resolve) => server.close(() => resolve()));
    },
  };
}

function carry(from: Socket, to: Socket, reads: Read[], onClose: () => void): void {
  from.on('data', (bytes) => {
    reads.push({ atMs: performance.now(), bytes });
    to.write(bytes);
  });
  from.on('end', () => {
    onClose();
    to.end();
  });
  from.on('error', () => {
    onClose();
    to.destroy();
  });
  from.on('close', () => {
    onClose();
    to.destroySoon();
  });
}

function exchangesOf(connection: Connection): TapExchange[] {
  const responses = parseMessages(connection.fromEngine, connection.closed);
  return parseMessages(connection.fromProxy, true).map((request, index) => {
    const response = responses[index];
    return {
      request,
      ...(response === undefined ? {} : { response }),
      ...(connection.closedByProxyMs === undefined ? {} : { closedByProxyMs: connection.closedByProxyMs }),
    };
  });
}
