/**
 * The upgrade handshake with one backend, by Node's own HTTP client, since it happens once per tunnel and must be parsed
 * strictly: a connection of its own, two deadlines, and one of five ends. Writes nothing to the client.
 */
import http, { type ClientRequest, type IncomingMessage } from 'node:http';
import https from 'node:https';
import type { Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import type { Clock } from '../platform/clock.ts';
import type { UpstreamFault, UpstreamTarget } from '../platform/upstream/port.ts';
import { socketErrorText, socketFaultKind, type SocketStage } from '../platform/upstream/socket-errors.ts';

export type HandshakeEnd =
  /** 101. `early`: bytes that came right behind the head. */
  | { readonly kind: 'switched'; readonly response: IncomingMessage; readonly socket: Duplex; readonly early: Buffer }
  /** Any other answer; its body is still to be read. */
  | { readonly kind: 'answered'; readonly response: IncomingMessage }
  | { readonly kind: 'fault'; readonly fault: UpstreamFault }
  /** Connected, but silent past `headMs`. */
  | { readonly kind: 'late' }
  /** The client left. */
  | { readonly kind: 'gone' };

export interface HandshakeAsk {
  readonly path: string;
  readonly upgrade: string;
  /** Names and values in turn, without Host, Connection and Upgrade. */
  readonly headers: readonly string[];
}

export interface HandshakeDeps {
  readonly client: Socket;
  readonly clock: Clock;
  readonly deadlines: { readonly connectMs: number; readonly headMs: number };
  readonly connected: () => void;
}

/** @returns never rejects: every failure is an end */
export function shakeHands(target: UpstreamTarget, ask: HandshakeAsk, deps: HandshakeDeps): Promise<HandshakeEnd> {
  const { client, clock, deadlines } = deps;
  return new Promise((resolve) => {
    let stage: SocketStage = 'connecting';
    let over = false;
    const request = openRequest(target, ask);
    const settle = (end: HandshakeEnd) => {
      if (over) return;
      over = true;
      timer?.cancel();
      client.off('close', left);
      if (end.kind !== 'switched' && end.kind !== 'answered') request.destroy();
      resolve(end);
    };
    const left = () => settle({ kind: 'gone' });
    client.once('close', left);
    const fault = (kind: UpstreamFault['kind'], detail: string) =>
      settle({
        kind: 'fault',
        fault: { kind, detail, nothingSent: stage !== 'open', reused: false, responseStarted: false },
      });
    let timer =
      deadlines.connectMs > 0
        ? clock.timer(deadlines.connectMs, () =>
            fault('connect_timeout', `no connection to ${target.authority} within ${deadlines.connectMs} ms`),
          )
        : undefined;
    const opened = () => {
      stage = 'open';
      timer?.cancel();
      timer = deadlines.headMs > 0 ? clock.timer(deadlines.headMs, () => settle({ kind: 'late' })) : undefined;
      deps.connected();
    };
    request.once('socket', (socket) => {
      socket.once('connect', () => (target.secure ? (stage = 'handshake') : opened()));
      if (target.secure) socket.once('secureConnect', opened);
    });
    request.once('upgrade', (response, socket, early) => settle({ kind: 'switched', response, socket, early }));
    request.once('response', (response) => settle({ kind: 'answered', response }));
    // Stays attached after settling: a destroyed request may still report that, which changes nothing.
    request.on('error', (error) => fault(kindOf(error, stage), `${target.authority}: ${socketErrorText(error)}`));
    request.end();
  });
}

function kindOf(error: Error, stage: SocketStage): UpstreamFault['kind'] {
  return 'code' in error && typeof error.code === 'string' && error.code.startsWith('HPE_')
    ? 'bad_response'
    : socketFaultKind(error, stage);
}

function openRequest(target: UpstreamTarget, ask: HandshakeAsk): ClientRequest {
  const options = {
    host: target.host,
    port: target.port,
    path: ask.path,
    method: 'GET',
    headers: ['Host', target.authority, 'Connection', 'Upgrade', 'Upgrade', ask.upgrade, ...ask.headers],
    agent: false as const,
    autoSelectFamily: true,
  };
  if (!target.secure) return http.request(options);
  const { tls } = target;
  return https.request({
    ...options,
    rejectUnauthorized: tls?.verify ?? true,
    ...(tls?.ca === undefined ? {} : { ca: tls.ca }),
    ...(tls?.serverName === undefined ? {} : { servername: tls.serverName }),
  });
}
