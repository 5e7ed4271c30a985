/**
 * WebSocket and other upgrades (`/v1/realtime`): the handshake passes as it came, then bytes both ways, unread.
 * A tunnel takes a permit, so that load is seen, but no engine slot; either side's end ends both.
 * Must not open what the pipeline closes: the job comes from the same classification. What the backend says instead of
 * 101 is passed on and ends the connection, so that no second request can ride to the backend unseen.
 */
import { STATUS_CODES } from 'node:http';
import type { Socket } from 'node:net';
import type { Job } from '../domain/job.ts';
import type { Engine, Outcome, Phase } from '../domain/names.ts';
import type { TimelineMark } from '../domain/record.ts';
import { isRefusal, type Refusal } from '../domain/refusal.ts';
import type { RunningView } from '../domain/running-view.ts';
import type { TraceHeaders } from '../domain/trace.ts';
import type { ClientHead } from '../platform/client-port.ts';
import type { Clock } from '../platform/clock.ts';
import type { UpstreamFault, UpstreamTarget } from '../platform/upstream/port.ts';
import { errorBody, errorHeaders } from './error-shape.ts';
import { deadlineRefusal, faultRefusal } from './refusals.ts';
import { upstreamHeaders } from './request-head.ts';
import type { RelaySettings } from './settings.ts';
import { headText, passAnswer } from './tunnel-answer.ts';
import { shakeHands, type HandshakeEnd } from './tunnel-handshake.ts';

interface TunnelPermit {
  readonly backend: { readonly name: string; readonly engine: Engine };
  readonly reason: string;
  settle(): void;
}

/** Who asks, and what that one may. */
export interface TunnelEntry {
  /** Request headers that stay here, lower case. */
  readonly dropped?: ReadonlySet<string> | undefined;
  /** Puts lane and tenant on the job, which nobody else has yet. */
  place(job: Job): TunnelStay | Refusal;
}

export interface TunnelStay {
  /** For the head of warmlane's own answer, raw names and values in turn. */
  readonly headers: readonly string[];
  ended(tokens: object): void;
}

/** How one tunnel ended, in the record's words. */
interface Ending {
  readonly outcome: Outcome;
  readonly spokenBy: 'warmlane' | 'backend';
  readonly phase: Phase;
  readonly atMs: number;
  readonly status?: number;
  readonly reason?: string;
}

/** Takes what becomes the tunnel's record. */
export interface TunnelObserver {
  classified(job: Job): void;
  attempt(attempt: {
    readonly backend: string;
    readonly engine: Engine;
    readonly reason: string;
  }): TraceHeaders | undefined;
  attemptEnd(end: {
    readonly atMs: number;
    readonly status?: number;
    readonly outcome: Outcome;
    readonly reason: string | undefined;
  }): void;
  mark(name: TimelineMark, atMs: number): void;
  responseBytes(bytes: number): void;
  finish(ending: Ending): void;
}

export interface TunnelSettings {
  readonly deadlines: Pick<
    RelaySettings['deadlines'],
    'connectMs' | 'headMs' | 'contentStallMs' | 'clientStallMs' | 'totalMs'
  >;
  readonly passConversationId: boolean;
}

export interface TunnelDeps {
  readonly clock: Clock;
  /** Asked before anything is known of the request but its head; absent: everybody may do all. */
  readonly enter?: ((head: ClientHead) => TunnelEntry | Refusal) | undefined;
  readonly classify: (head: ClientHead) => Job | Refusal;
  /** Path with query as a backend gets it. */
  readonly targetOf: (job: Job) => string;
  readonly owner: {
    ask(
      ask: { readonly job: Job; readonly exclude: readonly string[]; readonly again: boolean },
      answer: (result: TunnelPermit | Refusal) => void,
    ): { leave(): void };
  };
  readonly link: (backend: string) => {
    readonly target: UpstreamTarget & { readonly pathPrefix: string };
    readonly apiKey?: string;
    /** Is told when no connection came about. */
    readonly witness: { faulted(fault: UpstreamFault): void };
  };
  /** Asked once for each tunnel. */
  readonly settings: () => TunnelSettings;
  readonly observe: (head: ClientHead) => TunnelObserver;
  /** Why no new tunnel may be opened; undefined: one may. */
  readonly closing: () => Refusal | undefined;
  /** Open at once, those that wait included; 1,000 unless said. */
  readonly maxTunnels?: number;
}

export interface Tunnels {
  open(head: ClientHead, client: Socket, first: Buffer): void;
  /** Those that wait or shake hands included. */
  running(): readonly RunningView[];
  /** Ends all. */
  close(): void;
  /** Resolves when none is open. */
  idle(): Promise<void>;
}

/** Both ends are probed by the kernel, so that a vanished one is noticed. */
const keepAliveDelayMs = 60_000;
/** Kept of what a client sends before it has its answer, which no client of a WebSocket does. */
const maxFirstBytes = 64 * 1024;
const defaultMaxTunnels = 1000;

interface Tunnel {
  readonly head: ClientHead;
  readonly client: Socket;
  /** Hands over what the client has sent so far; from then on it is nobody's. */
  takeFirst(): Buffer;
  readonly observer: TunnelObserver;
  readonly settings: TunnelSettings;
  phase: Phase;
  job: Job | undefined;
  entry: TunnelEntry | undefined;
  stay: TunnelStay | undefined;
  /** Whose place it holds; the last one that was tried. */
  backend: string | undefined;
  attempts: number;
  /** What the backend said and the client was told, 101 where it switched. */
  status: number | undefined;
  /** It has its record. */
  over: boolean;
  /** Gives up the wait for a permit. */
  leave: () => void;
  /** Books the end; the first call counts. */
  finish(ending: Omit<Ending, 'atMs' | 'phase'>): void;
}

export function createTunnels(deps: TunnelDeps): Tunnels {
  const open = new Map<Tunnel, Socket>();
  const idlers: (() => void)[] = [];

  function begin(head: ClientHead, client: Socket, first: Buffer): Tunnel {
    const observer = deps.observe(head);
    const tunnel: Tunnel = {
      head,
      client,
      takeFirst: holdFirst(client, first),
      observer,
      settings: deps.settings(),
      phase: 'receiving',
      job: undefined,
      entry: undefined,
      stay: undefined,
      backend: undefined,
      attempts: 0,
      status: undefined,
      over: false,
      leave() {},
      finish(ending) {
        if (tunnel.over) return;
        tunnel.over = true;
        tunnel.stay?.ended({});
        const atMs = deps.clock.nowMs();
        const { status, phase } = tunnel;
        const { outcome, reason } = ending;
        if (status !== undefined) observer.attemptEnd({ atMs, status, outcome, reason });
        observer.finish({ ...(status === undefined ? {} : { status }), ...ending, phase, atMs });
      },
    };
    open.set(tunnel, client);
    client.on('error', () => client.destroy());
    client.once('close', () => {
      tunnel.leave();
      tunnel.finish({ outcome: 'client_abort', spokenBy: 'warmlane', reason: 'client_left' });
      open.delete(tunnel);
      if (open.size === 0) for (const idler of idlers.splice(0)) idler();
    });
    return tunnel;
  }

  function admit(tunnel: Tunnel, job: Job, failed: { exclude: readonly string[]; refusal?: Refusal }): void {
    const { client, observer } = tunnel;
    const { phase } = tunnel;
    const askedMs = deps.clock.nowMs();
    let isSettled = false;
    let waits = false;
    tunnel.phase = 'queued';
    const ask = { job, exclude: failed.exclude, again: failed.exclude.length > 0 };
    const ticket = deps.owner.ask(ask, (permit) => {
      isSettled = true;
      if (isRefusal(permit)) {
        // Refused at once, and not for want of a place: the queue had no part in it.
        if (!waits && permit.outcome !== 'rejected') tunnel.phase = phase;
        return refuse(tunnel, failed.refusal ?? permit);
      }
      observer.mark('queued', askedMs);
      observer.mark('admitted', deps.clock.nowMs());
      if (client.destroyed) return permit.settle();
      return void connect(tunnel, { job, permit, exclude: failed.exclude });
    });
    if (isSettled) return;
    waits = true;
    observer.mark('queued', askedMs);
    tunnel.leave = () => ticket.leave();
  }

  async function connect(
    tunnel: Tunnel,
    attempt: { job: Job; permit: TunnelPermit; exclude: readonly string[] },
  ): Promise<void> {
    const { head, client, observer } = tunnel;
    const { job, permit, exclude } = attempt;
    const { backend } = permit;
    const { target, apiKey, witness } = deps.link(backend.name);
    tunnel.phase = 'connecting';
    tunnel.backend = backend.name;
    tunnel.attempts += 1;
    const trace = observer.attempt({ backend: backend.name, engine: backend.engine, reason: permit.reason });
    const headers = upstreamHeaders(head, {
      engine: backend.engine,
      measured: false,
      passConversationId: tunnel.settings.passConversationId,
      dropped: tunnel.entry?.dropped,
      trace,
      ...(apiKey === undefined ? {} : { apiKey }),
    });
    const asked = {
      path: target.pathPrefix + deps.targetOf(job),
      upgrade: head.header('upgrade') ?? 'websocket',
      headers,
    };
    const end = await shakeHands(target, asked, {
      client,
      clock: deps.clock,
      deadlines: tunnel.settings.deadlines,
      connected() {
        tunnel.phase = 'waiting_head';
        observer.mark('connected', deps.clock.nowMs());
      },
    });
    if (end.kind === 'switched' || end.kind === 'answered') observer.mark('head', deps.clock.nowMs());
    // Who was asked, and not who has the name by now.
    if (end.kind === 'fault' && end.fault.nothingSent) witness.faulted(end.fault);
    proceed(tunnel, { job, permit, exclude }, end);
  }

  function proceed(
    tunnel: Tunnel,
    attempt: { job: Job; permit: TunnelPermit; exclude: readonly string[] },
    end: HandshakeEnd,
  ): void {
    const { permit, job, exclude } = attempt;
    const { name } = permit.backend;
    switch (end.kind) {
      case 'switched':
        return join(tunnel, permit, end);
      case 'answered':
        tunnel.phase = 'reading_answer';
        tunnel.status = end.response.statusCode ?? 502;
        return passAnswer(tunnel, end.response, {
          clock: deps.clock,
          deadlines: tunnel.settings.deadlines,
          settle: () => permit.settle(),
        });
      case 'late':
        permit.settle();
        return refuse(tunnel, deadlineRefusal('headMs', tunnel.settings.deadlines.headMs, name));
      case 'gone':
        return permit.settle();
      case 'fault': {
        permit.settle();
        const refusal = faultRefusal(end.fault, name);
        if (!end.fault.nothingSent) return refuse(tunnel, refusal);
        tunnel.observer.attemptEnd({ atMs: deps.clock.nowMs(), outcome: refusal.outcome, reason: refusal.code });
        return admit(tunnel, job, { exclude: [...exclude, name], refusal });
      }
    }
  }

  return {
    open(head, client, first) {
      const full = open.size >= (deps.maxTunnels ?? defaultMaxTunnels);
      const tunnel = begin(head, client, first);
      const closing = deps.closing();
      if (closing !== undefined) return refuse(tunnel, closing);
      if (full) return refuse(tunnel, tooManyTunnels());
      const entry = deps.enter?.(head);
      if (entry !== undefined && isRefusal(entry)) return refuse(tunnel, entry);
      tunnel.entry = entry;
      const job = deps.classify(head);
      if (isRefusal(job)) return refuse(tunnel, job);
      tunnel.job = job;
      const stay = entry?.place(job);
      tunnel.observer.classified(job);
      if (stay !== undefined && isRefusal(stay)) return refuse(tunnel, stay);
      tunnel.stay = stay;
      admit(tunnel, job, { exclude: [] });
    },
    running() {
      const nowMs = deps.clock.nowMs();
      return [...open.keys()].filter(({ over }) => !over).map((tunnel) => viewOf(tunnel, nowMs));
    },
    close() {
      for (const [tunnel, client] of open) {
        tunnel.finish({ outcome: 'shutdown', spokenBy: 'warmlane', reason: 'drain_deadline' });
        client.destroy();
      }
    },
    idle: () => (open.size === 0 ? Promise.resolve() : new Promise((resolve) => idlers.push(resolve))),
  };
}

function viewOf({ head, job, backend, phase, attempts }: Tunnel, nowMs: number): RunningView {
  return {
    requestId: head.requestId,
    method: head.method,
    endpoint: job?.endpoint ?? 'other',
    path: head.target.split('?', 1)[0] ?? '',
    phase,
    ageMs: nowMs - head.receivedMs,
    attempts,
    ...(job?.model === undefined ? {} : { model: job.model }),
    ...(backend === undefined ? {} : { backend }),
  };
}

/** Reads on until the backend has switched: only a socket that is read shows that its client has gone. */
function holdFirst(client: Socket, first: Buffer): () => Buffer {
  const pieces = [first];
  let bytes = first.length;
  const hold = (piece: Buffer) => {
    pieces.push(piece);
    bytes += piece.length;
    if (bytes > maxFirstBytes) client.pause();
  };
  const left = () => client.destroy();
  client.on('data', hold).on('end', left);
  return () => {
    client.off('data', hold).off('end', left);
    return Buffer.concat(pieces);
  };
}

/** The backend has switched: its head and every byte go on as they are, until either side ends. */
function join(tunnel: Tunnel, permit: TunnelPermit, end: HandshakeEnd & { kind: 'switched' }): void {
  const { client, observer } = tunnel;
  const { response, early } = end;
  // What http.request connects is a TCP or TLS socket, whatever its types say.
  const backend = end.socket as Socket;
  tunnel.phase = 'tunnel';
  tunnel.status = response.statusCode ?? 101;
  observer.responseBytes(early.length);
  backend.on('data', (bytes: Buffer) => observer.responseBytes(bytes.length));
  for (const socket of [client, backend]) {
    socket.setNoDelay(true);
    socket.setKeepAlive(true, keepAliveDelayMs);
    socket.setTimeout(0);
  }
  client.write(Buffer.concat([Buffer.from(headText(response, response.rawHeaders), 'latin1'), early]));
  backend.write(tunnel.takeFirst());
  client.pipe(backend, { end: false });
  backend.pipe(client, { end: false });
  const ended = (outcome: Outcome, reason: string) => {
    tunnel.finish({ outcome, spokenBy: 'backend', reason });
    client.destroySoon();
    // Full close, never half (R11).
    backend.destroySoon();
  };
  client.once('end', () => ended('ok', 'client_closed'));
  client.once('close', () => ended('ok', 'client_closed'));
  backend.once('end', () => ended('ok', 'backend_closed'));
  backend.on('error', () => ended('upstream_truncated', 'reset'));
  backend.once('close', () => {
    permit.settle();
    ended('ok', 'backend_closed');
  });
}

function tooManyTunnels(): Refusal {
  return {
    refused: true,
    code: 'queue_full',
    status: 503,
    type: 'rate_limit_error',
    message: 'Too many upgraded connections are open. Close some, or try again later.',
    retryAfterSeconds: 1,
    spokenBy: 'warmlane',
    outcome: 'rejected',
  };
}

function refuse(tunnel: Tunnel, refusal: Refusal): void {
  const { client, head } = tunnel;
  if (client.destroyed) return;
  const { status, code, outcome, spokenBy } = refusal;
  const body = errorBody(refusal, 'unknown');
  tunnel.observer.responseBytes(Buffer.byteLength(body));
  tunnel.finish({ outcome, status, reason: code, spokenBy });
  const headers = [...errorHeaders(refusal, head.requestId), ...(tunnel.stay?.headers ?? [])];
  let text = `HTTP/1.1 ${status} ${STATUS_CODES[status] ?? 'Refused'}\r\nContent-Length: ${Buffer.byteLength(body)}\r\n`;
  for (let i = 0; i + 1 < headers.length; i += 2) {
    if (headers[i] !== 'Connection') text += `${headers[i]}: ${headers[i + 1]}\r\n`;
  }
  client.end(`${text}Connection: close\r\n\r\n${body}`, () => client.destroySoon());
}
