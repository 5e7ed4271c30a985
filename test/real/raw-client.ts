/**
 * A client that does nothing behind one's back: one connection for one request, every read kept with its moment, and an
 * abort that closes the socket at once. Says whether the answer ended as its framing promised.
 */
import { connect } from 'node:net';
import { parseMessages, statusOf, type Message, type Read } from './http-message.ts';
import { parseEvents, type StreamEvent } from './stream-events.ts';

export interface Ask {
  readonly method?: string;
  readonly path: string;
  readonly body?: string | Record<string, unknown>;
  readonly headers?: Readonly<Record<string, string>>;
}

export interface Answer extends Message {
  readonly status: number;
  readonly text: string;
  readonly events: readonly StreamEvent[];
}

export interface Call {
  /** Ends when the answer is complete or the connection has gone; rejects only when there was no answer head at all. */
  readonly done: Promise<Answer>;
  /** What has come so far; undefined before the head. */
  sofar(): Answer | undefined;
  /** Ends when `count` events are there; rejects when the answer ended before. */
  untilEvents(count: number): Promise<void>;
  abort(): void;
}

export function send(url: string, request: Ask): Call {
  const { hostname, port, host } = new URL(url);
  const reads: Read[] = [];
  let closed = false;
  const watchers = new Set<() => void>();
  const notify = () => {
    for (const watcher of watchers) watcher();
  };

  const socket = connect({ host: hostname, port: Number(port), noDelay: true });
  socket.write(renderRequest(host, request));
  socket.on('data', (bytes) => {
    reads.push({ atMs: performance.now(), bytes });
    notify();
  });
  socket.on('error', () => socket.destroy());
  socket.on('close', () => {
    closed = true;
    notify();
  });

  const sofar = () => {
    const message = parseMessages(reads, closed)[0];
    return message && toAnswer(message);
  };
  const watch = <T>(look: () => T | undefined): Promise<T> =>
    new Promise((resolve, reject) => {
      const check = () => {
        const found = look();
        if (found === undefined && !closed) return;
        watchers.delete(check);
        if (found === undefined)
          reject(
            new Error(
              `the connection ended first, after: ${Buffer.concat(reads.map((read) => read.bytes))
                .toString()
                .slice(0, 500)}`,
            ),
          );
        else resolve(found);
      };
      watchers.add(check);
      check();
    });

  const done = watch(() => {
    const answer = sofar();
    return answer?.complete === true || closed ? answer : undefined;
  });
  // Whoever aborts a call need not look at its end.
  done.then(
    () => socket.destroy(),
    () => socket.destroy(),
  );
  return {
    done,
    sofar,
    untilEvents: (count) =>
      watch(() => ((sofar()?.events.length ?? 0) >= count ? true : undefined)).then(() => undefined),
    abort: () => socket.destroy(),
  };
}

/** Sends and waits for the whole answer. */
export function ask(url: string, request: Ask): Promise<Answer> {
  return send(url, request).done;
}

function renderRequest(host: string, { method, path, body, headers }: Ask): Buffer {
  const bytes = Buffer.from(body === undefined ? '' : typeof body === 'string' ? body : JSON.stringify(body));
  const lines = [
    `${method ?? (body === undefined ? 'GET' : 'POST')} ${path} HTTP/1.1`,
    `Host: ${host}`,
    ...(body === undefined ? [] : ['Content-Type: application/json', `Content-Length: ${bytes.length}`]),
    ...Object.entries(headers ?? {}).map(([name, value]) => `${name}: ${value}`),
  ];
  return Buffer.concat([Buffer.from(`${lines.join('\r\n')}\r\n\r\n`), bytes]);
}

function toAnswer(message: Message): Answer {
  const streamed = message.headers.get('content-type')?.startsWith('text/event-stream') === true;
  return {
    ...message,
    status: statusOf(message),
    text: message.payload.toString(),
    events: streamed ? parseEvents(message.payload) : [],
  };
}
