/**
 * Runs one exchange through an upstream client and keeps all that its handler was told, in order; checks the port's promises.
 */
import type {
  Exchange,
  RequestBody,
  UpstreamClient,
  UpstreamFault,
  UpstreamHandler,
  UpstreamHead,
  UpstreamRequest,
  UpstreamTarget,
} from '../../../../src/platform/upstream/port.ts';
import { payloadOf } from './read-response.ts';

interface ExchangeLog {
  readonly calls: string[];
  reused: boolean | undefined;
  address: string | undefined;
  head: UpstreamHead | undefined;
  readonly reads: Buffer[];
  readonly verbatim: boolean[];
  trailers: readonly string[] | undefined;
  fault: UpstreamFault | undefined;
  /** Calls that the port forbids. */
  readonly broken: string[];
}

interface RunningExchange {
  readonly exchange: Exchange;
  readonly log: ExchangeLog;
  /** Resolves at the end or the fault. Never when aborted. */
  readonly done: Promise<ExchangeLog>;
}

type Hooks = Partial<UpstreamHandler>;

export function get(path: string, overrides: Partial<UpstreamRequest> = {}): UpstreamRequest {
  return {
    method: 'GET',
    target: path,
    headers: ['X-Test', '1'],
    body: { kind: 'none' },
    fresh: false,
    connectTimeoutMs: 2000,
    ...overrides,
  };
}

export function post(path: string, body: RequestBody, overrides: Partial<UpstreamRequest> = {}): UpstreamRequest {
  return get(path, { method: 'POST', body, ...overrides });
}

export function held(...texts: string[]): RequestBody {
  const chunks = texts.map((text) => Buffer.from(text));
  return { kind: 'held', chunks, bytes: chunks.reduce((sum, chunk) => sum + chunk.length, 0) };
}

export function start(
  client: UpstreamClient,
  target: UpstreamTarget,
  request: UpstreamRequest,
  hooks: Hooks = {},
): RunningExchange {
  const log: ExchangeLog = {
    calls: [],
    reused: undefined,
    address: undefined,
    head: undefined,
    reads: [],
    verbatim: [],
    trailers: undefined,
    fault: undefined,
    broken: [],
  };
  let opened = false;
  let over = false;
  const note = (call: string) => {
    if (!opened) log.broken.push(`${call} before open returned`);
    if (over) log.broken.push(`${call} after the end`);
    if (call === 'connected' && log.calls.length > 0) log.broken.push('connected is not first or not once');
    if ((call === 'head' || call === 'sent') && log.calls.includes(call)) log.broken.push(`${call} twice`);
    if (call === 'body' && log.head === undefined) log.broken.push('body before head');
    log.calls.push(call);
  };
  let finish: (log: ExchangeLog) => void = () => {};
  const done = new Promise<ExchangeLog>((resolve) => {
    finish = resolve;
  });
  const exchange = client.open(target, request, {
    connected(info) {
      note('connected');
      log.reused = info.reused;
      log.address = info.address;
      hooks.connected?.(info);
    },
    sent() {
      note('sent');
      hooks.sent?.();
    },
    head(head) {
      note('head');
      log.head = head;
      hooks.head?.(head);
    },
    body(read) {
      note('body');
      log.reads.push(payloadOf(read));
      log.verbatim.push(read.verbatim);
      hooks.body?.(read);
    },
    end(trailers) {
      note('end');
      over = true;
      log.trailers = trailers;
      hooks.end?.(trailers);
      finish(log);
    },
    fault(fault) {
      note('fault');
      over = true;
      log.fault = fault;
      hooks.fault?.(fault);
      finish(log);
    },
  });
  opened = true;
  return {
    exchange: {
      pause: () => exchange.pause(),
      resume: () => exchange.resume(),
      abort() {
        exchange.abort();
        over = true;
      },
    },
    log,
    done,
  };
}

export function run(
  client: UpstreamClient,
  target: UpstreamTarget,
  request: UpstreamRequest,
  hooks: Hooks = {},
): Promise<ExchangeLog> {
  return start(client, target, request, hooks).done;
}

export function bodyText(log: ExchangeLog): string {
  return Buffer.concat(log.reads).toString('latin1');
}

/** Resolves once the condition holds; for events on the other side of a socket. */
export async function until(condition: () => boolean, what: string): Promise<void> {
  const endMs = performance.now() + 5000;
  while (!condition()) {
    if (performance.now() > endMs) throw new Error(`never happened: ${what}`);
    await new Promise((resolve) => void setTimeout(resolve, 2));
  }
}

/** Some turns of the event loop: by then a released connection can be taken again. */
export async function settled(): Promise<void> {
  for (let turn = 0; turn < 5; turn += 1) await new Promise((resolve) => void setImmediate(resolve));
}
