/**
 * What a backend says instead of 101: its answer goes on to the client, and the connection ends with it. Bounded in time on
 * both sides, since nothing else watches a tunnel's sockets. Must not pass on a second answer.
 */
import type { IncomingMessage } from 'node:http';
import type { Socket } from 'node:net';
import type { Outcome } from '../domain/names.ts';
import type { ClientHead } from '../platform/client-port.ts';
import type { Clock } from '../platform/clock.ts';
import { clientHeaders } from './response-head.ts';
import type { RelaySettings } from './settings.ts';

interface Receiver {
  readonly client: Socket;
  readonly head: ClientHead;
  readonly observer: { responseBytes(bytes: number): void };
  /** Books the end; the first call counts. */
  finish(ending: { outcome: Outcome; spokenBy: 'warmlane' | 'backend'; status: number; reason?: string }): void;
}

export interface PassingDeps {
  readonly clock: Clock;
  /** Milliseconds; 0: no limit. */
  readonly deadlines: Pick<RelaySettings['deadlines'], 'contentStallMs' | 'clientStallMs' | 'totalMs'>;
  /** The backend is free. */
  readonly settle: () => void;
}

/** How often the silences are looked at. */
const watchEveryMs = 100;

/** The client's socket is closed in the end, whatever either side does. */
export function passAnswer(to: Receiver, response: IncomingMessage, deps: PassingDeps): void {
  const { client, head, observer } = to;
  const status = response.statusCode ?? 502;
  const upstream = {
    status,
    rawHeaders: response.rawHeaders,
    httpVersion: '1.1',
    reason: '',
    framing: 'close',
  } as const;
  const headers = clientHeaders(upstream, false, head.requestId);
  const length = response.headers['content-length'];
  if (length !== undefined) headers.push('Content-Length', length);
  client.write(headText(response, [...headers, 'Connection', 'close']), 'latin1');
  response.on('data', (bytes: Buffer) => observer.responseBytes(bytes.length));
  response.pipe(client, { end: false });
  const done = (whole: boolean) => {
    deps.settle();
    to.finish({ outcome: whole ? outcomeOf(status) : 'upstream_truncated', spokenBy: 'backend', status });
    if (whole) client.end(() => client.destroySoon());
    else client.destroy();
  };
  response.once('end', () => done(true));
  response.once('close', () => {
    if (!response.complete) done(false);
  });
  const stopWatching = watchSilence(client, response, {
    ...deps,
    expired(ending) {
      deps.settle();
      to.finish({ ...ending, status });
      response.destroy();
      client.destroy();
    },
  });
  const left = () => {
    stopWatching();
    deps.settle();
    response.destroy();
  };
  if (client.destroyed) left();
  else client.once('close', left);
}

type Expired = Pick<Parameters<Receiver['finish']>[0], 'outcome' | 'spokenBy' | 'reason'>;

/** A client that takes nothing, or else a backend that brings nothing, or all of it for too long. */
function watchSilence(
  client: Socket,
  response: IncomingMessage,
  { clock, deadlines, expired }: PassingDeps & { readonly expired: (ending: Expired) => void },
): () => void {
  const fromMs = clock.nowMs();
  let byteMs = fromMs;
  let tookMs = fromMs;
  let tookBytes = 0;
  response.on('data', () => (byteMs = clock.nowMs()));
  const look = (): Expired | undefined => {
    const nowMs = clock.nowMs();
    const taken = client.bytesWritten - client.writableLength;
    if (taken !== tookBytes || client.writableLength === 0) {
      // While the client kept the backend waiting, the backend could not speak.
      if (client.writableLength > 0) byteMs = nowMs;
      tookMs = nowMs;
      tookBytes = taken;
    }
    if (isOver(nowMs - fromMs, deadlines.totalMs))
      return { outcome: 'timeout', spokenBy: 'backend', reason: 'total_timeout' };
    if (client.writableLength > 0) {
      const stalled = isOver(nowMs - tookMs, deadlines.clientStallMs);
      return stalled ? { outcome: 'client_abort', spokenBy: 'warmlane', reason: 'client_stalled' } : undefined;
    }
    return !response.complete && isOver(nowMs - byteMs, deadlines.contentStallMs)
      ? { outcome: 'timeout', spokenBy: 'backend', reason: 'content_stall' }
      : undefined;
  };
  const watch = () => {
    const ending = look();
    if (ending === undefined) timer = clock.timer(watchEveryMs, watch);
    else expired(ending);
  };
  let timer = clock.timer(watchEveryMs, watch);
  return () => timer.cancel();
}

function isOver(elapsedMs: number, limitMs: number): boolean {
  return limitMs > 0 && elapsedMs > limitMs;
}

function outcomeOf(status: number): Outcome {
  if (status === 429 || status === 503) return 'rejected';
  if (status >= 500) return 'upstream_error';
  return status >= 400 ? 'client_error' : 'ok';
}

export function headText(response: IncomingMessage, headers: readonly string[]): string {
  let text = `HTTP/1.1 ${response.statusCode} ${response.statusMessage}\r\n`;
  for (let i = 0; i + 1 < headers.length; i += 2) text += `${headers[i]}: ${headers[i + 1]}\r\n`;
  return `${text}\r\n`;
}
