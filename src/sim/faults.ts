/**
 * A scripted backend on raw TCP: plays given bytes with pauses, resets, ends and hangs, and keeps every request byte and
 * every socket event with its monotonic time. Health and other probes get a plain answer of their own, so that a script sees
 * users' requests only. For tests of what a proxy does with a faulty backend; it thinks nothing by itself.
 */
import { createServer, type AddressInfo, type Server, type Socket } from 'node:net';
import { systemClock, type Clock } from '../platform/clock.ts';
import { playScript, type Script, type ScriptStep } from './fault-steps.ts';
import { answerProbe, isFromProber, type ProbeSettings } from './probe-answers.ts';
import { createRawRequestReader, type RawRequest } from './raw-request.ts';

export interface SocketEvent {
  readonly kind: 'open' | 'data' | 'wrote' | 'end' | 'error' | 'close';
  readonly atMs: number;
  /** For `data` and `wrote`. */
  readonly bytes?: number;
  /** For `error`: its code. */
  readonly detail?: string;
}

export interface ScriptedConnection {
  readonly id: number;
  readonly socket: Socket;
  readonly events: readonly SocketEvent[];
  /** Requests that came on it, probes too. */
  readonly requests: readonly RawRequest[];
  readonly open: boolean;
  /** Bytes handed to the socket so far. */
  readonly sentBytes: number;
  /** Resolves when the socket is closed. */
  readonly closed: Promise<void>;
  /** Resolves when the other side has ended its half or closed. */
  readonly peerGone: Promise<void>;
  /** Moment at which the other side was seen to be gone: its FIN, its reset, or the close; undefined while it is there. */
  readonly goneMs: number | undefined;
  /** Moment of the first event of this kind. */
  whenMs(kind: SocketEvent['kind']): number | undefined;
}

export interface ScriptedServerSettings {
  /** The answer to a user's request. Without it: 200 and an empty JSON object. */
  readonly onRequest?: (request: RawRequest, connection: ScriptedConnection) => Script;
  /** Played as soon as a connection opens, before any request is read for an answer. */
  readonly onConnection?: (connection: ScriptedConnection) => Script | undefined;
  /** When a script begins: with the whole request (default), or with its head already. */
  readonly answerAfter?: 'body' | 'head';
  /** True: a peer's FIN is only noted and the script plays on. By default it counts as gone, as the real engines take it. */
  readonly halfOpen?: boolean;
  /** How probes are answered; false hands them to `onRequest` like any request. */
  readonly probes?: ProbeSettings | false;
  readonly host?: string;
  readonly port?: number;
  readonly clock?: Clock;
}

export interface ScriptedServer {
  readonly url: string;
  readonly host: string;
  readonly port: number;
  /** Users' requests in the order of their heads. */
  readonly requests: readonly RawRequest[];
  readonly probes: readonly RawRequest[];
  readonly connections: readonly ScriptedConnection[];
  readonly openSockets: number;
  /** Errors thrown by scripts or met while reading requests; a test should find none. */
  readonly faults: readonly Error[];
  connectionOf(request: RawRequest): ScriptedConnection;
  /** Resolves with the first `count` users' requests. @throws when they don't come in time */
  waitForRequests(count: number, timeoutMs?: number): Promise<readonly RawRequest[]>;
  /** New connections are refused from now on; open ones live on. */
  refuse(): Promise<void>;
  /** Takes connections again, on the same port. */
  listenAgain(): Promise<void>;
  /** Closes the port and every socket. */
  close(): Promise<void>;
}

const maxEventsKept = 100_000;

export async function createScriptedServer(settings: ScriptedServerSettings = {}): Promise<ScriptedServer> {
  const clock = settings.clock ?? systemClock;
  const host = settings.host ?? '127.0.0.1';
  const connections: ScriptedConnection[] = [];
  const requests: RawRequest[] = [];
  const probes: RawRequest[] = [];
  const faults: Error[] = [];
  const waiters = new Set<() => void>();
  let numbers = 0;

  const onSocket = (socket: Socket) => {
    const connection = serveConnection(socket, {
      id: connections.length,
      clock,
      settings,
      nextNumber: () => numbers++,
      note,
      faults,
    });
    connections.push(connection);
  };
  function note(request: RawRequest, probe: boolean): void {
    (probe ? probes : requests).push(request);
    for (const wake of waiters) wake();
  }
  const listener: Server = createServer({ noDelay: true, allowHalfOpen: true }, onSocket);
  await listen(listener, settings.port ?? 0, host);
  // A server that listens on a TCP port has an address object.
  const port = (listener.address() as AddressInfo).port;

  return {
    url: `http://${host.includes(':') ? `[${host}]` : host}:${port}`,
    host,
    port,
    requests,
    probes,
    connections,
    faults,
    get openSockets() {
      return connections.filter((connection) => connection.open).length;
    },
    connectionOf(request) {
      const found = connections[request.connectionId];
      if (found === undefined) throw new Error(`no connection ${request.connectionId}`);
      return found;
    },
    async waitForRequests(count, timeoutMs = 5_000) {
      const deadlineMs = performance.now() + timeoutMs;
      while (requests.length < count) {
        const leftMs = deadlineMs - performance.now();
        if (leftMs <= 0) throw new Error(`${requests.length} of ${count} requests came within ${timeoutMs} ms`);
        await nextWake(waiters, leftMs);
      }
      return requests.slice(0, count);
    },
    refuse: () => new Promise((resolve) => stopListening(listener, resolve)),
    listenAgain: () => listen(listener, port, host),
    async close() {
      const closed = new Promise<void>((resolve) => stopListening(listener, resolve));
      for (const connection of connections) connection.socket.destroy();
      await closed;
      await Promise.all(connections.map((connection) => connection.closed));
    },
  };
}

interface ConnectionDeps {
  readonly id: number;
  readonly clock: Clock;
  readonly settings: ScriptedServerSettings;
  readonly faults: Error[];
  nextNumber(): number;
  note(request: RawRequest, probe: boolean): void;
}

/** Reads requests from one socket and plays their scripts one after another. */
function serveConnection(socket: Socket, deps: ConnectionDeps): ScriptedConnection {
  const { clock, settings } = deps;
  const events: SocketEvent[] = [];
  const seen: RawRequest[] = [];
  let sentBytes = 0;
  const peerGone = new Promise<void>((resolve) => socket.once('end', resolve).once('close', () => resolve()));
  const closed = new Promise<void>((resolve) => socket.once('close', () => resolve()));
  const log = (event: Omit<SocketEvent, 'atMs'>) => {
    if (events.length < maxEventsKept) events.push({ ...event, atMs: clock.nowMs() });
  };
  const connection: ScriptedConnection = {
    id: deps.id,
    socket,
    events,
    requests: seen,
    closed,
    peerGone,
    get open() {
      return !socket.destroyed;
    },
    get sentBytes() {
      return sentBytes;
    },
    get goneMs() {
      return events.find((event) => event.kind === 'end' || event.kind === 'error' || event.kind === 'close')?.atMs;
    },
    whenMs: (kind) => events.find((event) => event.kind === kind)?.atMs,
  };
  const target = {
    socket,
    clock,
    peerGone,
    closed,
    wrote(bytes: number) {
      sentBytes += bytes;
      log({ kind: 'wrote', bytes });
    },
  };
  /** The line of scripts of this connection: one at a time, in the order of their requests. */
  let playing: Promise<'done' | 'over'> = Promise.resolve('done');
  const enqueue = (script: () => Script) => {
    playing = playing
      .then((state) => (state === 'over' ? state : playScript(script(), target)))
      .catch((error: unknown) => {
        deps.faults.push(error instanceof Error ? error : new Error(String(error)));
        socket.destroy();
        return 'over' as const;
      });
  };
  const answer = (request: RawRequest) => enqueue(() => scriptFor(request, connection, settings));
  const afterHead = settings.answerAfter === 'head';
  const reader = createRawRequestReader(deps.id, {
    nextNumber: () => deps.nextNumber(),
    head(request) {
      seen.push(request);
      deps.note(request, isProbe(request, settings));
      if (afterHead) answer(request);
    },
    complete(request) {
      if (!afterHead) answer(request);
    },
  });

  log({ kind: 'open' });
  socket.on('data', (bytes: Buffer) => {
    log({ kind: 'data', bytes: bytes.length });
    try {
      reader.push(bytes, clock.nowMs());
    } catch (error) {
      deps.faults.push(error instanceof Error ? error : new Error(String(error)));
      socket.destroy();
    }
  });
  socket.on('end', () => {
    log({ kind: 'end' });
    if (settings.halfOpen === true) void playing.then(() => socket.end());
    else socket.destroy();
  });
  socket.on('error', (error: NodeJS.ErrnoException) => log({ kind: 'error', detail: error.code ?? error.message }));
  socket.on('close', () => log({ kind: 'close' }));
  const opening = settings.onConnection?.(connection);
  if (opening !== undefined) enqueue(() => opening);
  return connection;
}

function scriptFor(request: RawRequest, connection: ScriptedConnection, settings: ScriptedServerSettings): Script {
  if (isProbe(request, settings) && settings.probes !== false) return answerProbe(request, settings.probes ?? {});
  return settings.onRequest?.(request, connection) ?? emptyAnswer;
}

const emptyAnswer: readonly ScriptStep[] = [
  'HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}',
];

function isProbe(request: RawRequest, settings: ScriptedServerSettings): boolean {
  return settings.probes !== false && isFromProber(request);
}

function listen(server: Server, port: number, host: string): Promise<void> {
  return new Promise((resolve, reject) => {
    server.once('error', reject);
    server.listen(port, host, () => {
      server.removeListener('error', reject);
      resolve();
    });
  });
}

/** Stops taking connections; does not wait for open ones, unlike `server.close`'s own callback. */
function stopListening(server: Server, stopped: () => void): void {
  if (server.listening) server.close();
  setImmediate(stopped);
}

function nextWake(waiters: Set<() => void>, timeoutMs: number): Promise<void> {
  return new Promise((resolve) => {
    const wake = () => {
      clearTimeout(timer);
      waiters.delete(wake);
      resolve();
    };
    const timer = setTimeout(wake, timeoutMs);
    waiters.add(wake);
  });
}
