/** One relay between a fake client, a fake backend and a fake clock, for what real sockets can't arrange to the millisecond. */
import { shuttingDown } from '../../src/admit/refusals.ts';
import type { BackendView } from '../../src/domain/fleet.ts';
import type { Job } from '../../src/domain/job.ts';
import type { ClientHead, ClientPort } from '../../src/platform/client-port.ts';
import type { Exchange, UpstreamClient, UpstreamHandler } from '../../src/platform/upstream/port.ts';
import type { RelayDeps, RelayEnd, RelayTap } from '../../src/relay/attempt.ts';
import { Relay } from '../../src/relay/relay.ts';
import type { RelaySettings } from '../../src/relay/settings.ts';
import { createTicker, type Ticker } from '../../src/relay/ticker.ts';
import { createFakeClock, type FakeClock } from './fake-clock.ts';

const job: Job = {
  requestId: 'r',
  endpoint: 'chat',
  method: 'POST',
  target: '/v1/chat/completions',
  format: 'chat',
  generates: true,
  stream: true,
  choices: 1,
  bodyBytes: 0,
  readable: true,
  lane: 'online',
  usage: { byClient: false },
  measured: true,
};
const backend: BackendView = {
  name: 'b',
  url: 'http://b',
  engine: 'openai',
  engineKnown: false,
  health: 'up',
  healthSinceMs: 1,
  models: [],
  ghostSlots: 0,
  advice: [],
};
const head: ClientHead = {
  requestId: 'r',
  method: 'POST',
  target: '/',
  httpVersion: '1.1',
  rawHeaders: [],
  header: () => undefined,
  remoteAddress: '',
  secure: false,
  receivedMs: 1,
};

export const streamHead = {
  status: 200,
  reason: 'OK',
  rawHeaders: ['Content-Type', 'text/event-stream'],
  httpVersion: '1.1',
  framing: 'chunked',
} as const;

/** No deadline, no limit that a test doesn't set. */
const noDeadlines: RelaySettings['deadlines'] = {
  connectMs: 0,
  headMs: 0,
  firstTokenMs: 0,
  perBodyKibMs: 0,
  contentStallMs: 0,
  refusedStallMs: 0,
  totalMs: 0,
  clientStallMs: 0,
};

export interface RelayWorldOptions {
  /** Called with the name of each call out of the relay; may throw. */
  readonly onCall?: (call: string) => void;
  /** Flags of every event. */
  readonly eventFlags?: number;
  readonly deadlines?: Partial<RelaySettings['deadlines']>;
  readonly shared?: SharedTime;
  /** What is called when an answer that isn't streamed is to be ended; absent: it is at once. */
  readonly takeEnd?: (end: () => void) => void;
  /** What is done to it before it begins, and by whom the client is listened to then: no exchange is begun. */
  readonly before?: (relay: Relay, client: ClientPort) => void;
}

export interface SharedTime {
  readonly clock: FakeClock;
  readonly ticker: Ticker;
}

export interface RelayWorld {
  readonly clock: FakeClock;
  readonly ends: readonly RelayEnd[];
  /** What was written to the client, as text. */
  readonly written: readonly string[];
  readonly exchange: { readonly aborts: number; readonly pauses: number; readonly resumes: number };
  readonly handler: UpstreamHandler;
  /** Bytes that the client has not taken. */
  bufferedBytes: number;
  cuts: number;
  leave(): void;
  drain(): void;
  /** The drain deadline is over. */
  shutdown(): void;
}

export function createSharedTime(): SharedTime {
  const clock = createFakeClock();
  return { clock, ticker: createTicker(clock) };
}

export function createRelayWorld(options: RelayWorldOptions = {}): RelayWorld {
  const { onCall = () => undefined, eventFlags = 0 } = options;
  const { clock, ticker } = options.shared ?? createSharedTime();
  const ends: RelayEnd[] = [];
  const written: string[] = [];
  const exchange = { aborts: 0, pauses: 0, resumes: 0 };
  const listeners = { gone: () => {}, drain: () => {} };
  let handler: UpstreamHandler | undefined;
  const write = (bytes: Buffer) => {
    written.push(bytes.toString());
    return true;
  };
  const client: ClientPort = {
    takesChunks: false,
    gone: false,
    get bufferedBytes() {
      return world.bufferedBytes;
    },
    onGone(listener) {
      listeners.gone = listener;
    },
    onDrain(listener) {
      listeners.drain = listener;
    },
    head() {},
    cork() {},
    uncork() {},
    writeChunks: write,
    write,
    end: () => onCall('client end'),
    cut() {
      world.cuts += 1;
    },
  };
  const upstream: UpstreamClient = {
    open(_target, _request, given): Exchange {
      handler = given;
      return {
        pause() {
          exchange.pauses += 1;
        },
        resume() {
          exchange.resumes += 1;
        },
        abort() {
          exchange.aborts += 1;
        },
      };
    },
    stats: () => ({ idle: 0, busy: 0 }),
    close() {},
  };
  const tap: RelayTap = {
    mark: (name) => onCall(`mark ${name}`),
    responseBytes: () => onCall('responseBytes'),
    ownTime: () => onCall('ownTime'),
    headTimes: () => ({}),
    beginRead() {},
    event: () => eventFlags,
    endRead() {},
    gaveUp() {},
    answer() {},
    answerEnd: () => onCall('answerEnd'),
    failed() {},
    error: undefined,
  };
  const deps: RelayDeps = {
    clock,
    client,
    upstream,
    tap,
    ticker,
    maxEventBytes: 1000,
    settings: {
      deadlines: { ...noDeadlines, ...options.deadlines },
      heartbeatMs: 0,
      headHoldMs: 0,
      maxBufferedBytes: 1000,
      usage: 'passive',
      retryAfterCrash: false,
      passConversationId: false,
      responseHeaders: { routing: false, serverTiming: false },
    },
    bodyDone: () => onCall('bodyDone'),
    ends: { take: options.takeEnd ?? ((end) => end()) },
    witness: {
      faulted: () => onCall('faulted'),
      answered() {
        onCall('answered');
        return false;
      },
      streamError: () => false,
      quiet() {
        onCall('quiet');
        return () => {};
      },
    },
  };
  const relay = new Relay(
    {
      job,
      head,
      backend,
      target: { secure: false, host: 'b', port: 1, authority: 'b:1' },
      path: '/',
      headers: [],
      body: { kind: 'none' },
      fresh: false,
      afterStale: false,
      strip: false,
      route: { backend: 'b', reason: 'only_backend' },
      elsewhere: false,
    },
    deps,
    (end) => ends.push(end),
  );
  const world = {
    clock,
    ends,
    written,
    exchange,
    bufferedBytes: 0,
    cuts: 0,
    leave: () => listeners.gone(),
    drain: () => listeners.drain(),
    shutdown: () => relay.shutdown(shuttingDown()),
    get handler() {
      if (handler === undefined) throw new Error('no exchange was begun');
      return handler;
    },
  };
  options.before?.(relay, client);
  relay.start();
  return world;
}
