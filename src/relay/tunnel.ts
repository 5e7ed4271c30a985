/**
 * WebSocket and other upgrades (`/v1/realtime`): the handshake passes as it came, then bytes both ways, unread.
 * A tunnel takes a permit, so that load is seen, but no engine slot; either side's end ends both.
 */
import { connect as connectTcp, type Socket } from 'node:net';
import { connect as connectTls } from 'node:tls';
import type { Job } from '../domain/job.ts';
import type { Engine } from '../domain/names.ts';
import { isRefusal, type Refusal } from '../domain/refusal.ts';
import type { ClientHead } from '../platform/client-port.ts';
import type { Log } from '../platform/log.ts';
import type { UpstreamTarget } from '../platform/upstream/port.ts';
import { errorBody, errorHeaders } from './error-shape.ts';
import { faultRefusal } from './refusals.ts';
import { upstreamHeaders } from './request-head.ts';

interface TunnelPermit {
  readonly backend: { readonly name: string; readonly engine: Engine };
  settle(): void;
}

export interface TunnelDeps {
  readonly owner: {
    ask(
      ask: { readonly job: Job; readonly exclude: readonly string[]; readonly again: boolean },
      answer: (result: TunnelPermit | Refusal) => void,
    ): { leave(): void };
  };
  readonly link: (backend: string) => {
    readonly target: UpstreamTarget & { readonly pathPrefix: string };
    readonly apiKey?: string;
  };
  readonly settings: { readonly deadlines: { readonly connectMs: number }; readonly passConversationId: boolean };
  readonly log: Log;
  /** Why no new tunnel may be opened; undefined: one may. */
  readonly closing: () => Refusal | undefined;
}

export interface Tunnels {
  open(head: ClientHead, client: Socket, first: Buffer): void;
  /** Destroys all. */
  close(): void;
  /** Resolves when none is open. */
  idle(): Promise<void>;
}

export function createTunnels(deps: TunnelDeps): Tunnels {
  const open = new Set<Socket>();
  const idlers: (() => void)[] = [];

  function ended(client: Socket): void {
    open.delete(client);
    if (open.size === 0) for (const idler of idlers.splice(0)) idler();
  }

  return {
    open(head, client, first) {
      const refusal = deps.closing();
      client.on('error', () => client.destroy());
      if (refusal !== undefined) return refuse(client, head, refusal);
      open.add(client);
      client.once('close', () => ended(client));
      deps.owner.ask({ job: tunnelJob(head), exclude: [], again: false }, (permit) => {
        if (isRefusal(permit)) return refuse(client, head, permit);
        if (client.destroyed) return permit.settle();
        join({ head, client, first, permit }, deps);
      });
    },
    close() {
      for (const client of open) client.destroy();
    },
    idle: () => (open.size === 0 ? Promise.resolve() : new Promise((resolve) => idlers.push(resolve))),
  };
}

function join(
  tunnel: { head: ClientHead; client: Socket; first: Buffer; permit: TunnelPermit },
  deps: TunnelDeps,
): void {
  const { head, client, first, permit } = tunnel;
  const { target, apiKey } = deps.link(permit.backend.name);
  const backend = dial(target);
  backend.setNoDelay(true);
  client.setNoDelay(true);
  let connected = false;
  const giveUp = setTimeout(() => backend.destroy(new Error('no connection in time')), deps.settings.deadlines.connectMs);
  backend.once(target.secure ? 'secureConnect' : 'connect', () => {
    connected = true;
    clearTimeout(giveUp);
    backend.write(handshake(head, target, { engine: permit.backend.engine, ...(apiKey === undefined ? {} : { apiKey }) }, deps));
    if (first.length > 0) backend.write(first);
    client.pipe(backend);
    backend.pipe(client);
  });
  backend.on('error', (error: Error) => {
    clearTimeout(giveUp);
    deps.log.info('tunnel failed', { requestId: head.requestId, backend: permit.backend.name, error: error.message });
    if (connected) return;
    const fault = { kind: 'refused', detail: error.message, nothingSent: true, reused: false, responseStarted: false } as const;
    refuse(client, head, faultRefusal(fault, permit.backend.name));
  });
  backend.once('close', () => {
    permit.settle();
    client.destroySoon();
  });
  client.once('close', () => backend.destroy());
}

function dial(target: UpstreamTarget): Socket {
  if (!target.secure) return connectTcp({ host: target.host, port: target.port, autoSelectFamily: true });
  const { tls } = target;
  return connectTls({
    host: target.host,
    port: target.port,
    servername: tls?.serverName ?? target.host,
    rejectUnauthorized: tls?.verify ?? true,
    ...(tls?.ca === undefined ? {} : { ca: tls.ca }),
  });
}

function handshake(
  head: ClientHead,
  target: UpstreamTarget & { readonly pathPrefix: string },
  options: { engine: Engine; apiKey?: string },
  deps: TunnelDeps,
): string {
  const headers = upstreamHeaders(head, { ...options, measured: false, passConversationId: deps.settings.passConversationId });
  let text = `${head.method} ${target.pathPrefix}${head.target} HTTP/1.1\r\nHost: ${target.authority}\r\n`;
  text += `Connection: Upgrade\r\nUpgrade: ${head.header('upgrade') ?? 'websocket'}\r\n`;
  for (let i = 0; i + 1 < headers.length; i += 2) text += `${headers[i]}: ${headers[i + 1]}\r\n`;
  return `${text}\r\n`;
}

function refuse(client: Socket, head: ClientHead, refusal: Refusal): void {
  if (client.destroyed) return;
  const body = errorBody(refusal, 'unknown');
  const headers = errorHeaders(refusal, head.requestId);
  let text = `HTTP/1.1 ${refusal.status} Refused\r\nContent-Length: ${Buffer.byteLength(body)}\r\n`;
  for (let i = 0; i + 1 < headers.length; i += 2) {
    if (headers[i] !== 'Connection') text += `${headers[i]}: ${headers[i + 1]}\r\n`;
  }
  client.end(`${text}Connection: close\r\n\r\n${body}`);
}

function tunnelJob(head: ClientHead): Job {
  return {
    requestId: head.requestId,
    endpoint: 'other',
    method: head.method,
    target: head.target,
    format: 'unknown',
    generates: false,
    stream: false,
    choices: 1,
    bodyBytes: 0,
    readable: false,
    lane: 'online',
    usage: { byClient: false },
    measured: false,
  };
}
