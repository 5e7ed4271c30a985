/**
 * The doctor's way to the endpoint: one request, everything that was seen of its answer and when. Uses the same client as
 * the relay, so that first bytes are stamped at the socket read and a reused connection shows. Judges nothing.
 */
import type { Engine } from '../../domain/names.ts';
import { EventFlag, type StreamError } from '../../domain/tap.ts';
import { createEventReader } from '../../measure/dialect/event-reader.ts';
import { isObject, objectAt, type EventFacts, type Timings, type Usage } from '../../measure/dialect/facts.ts';
import { readTimings, readUsage } from '../../measure/dialect/usage.ts';
import type { Clock } from '../../platform/clock.ts';
import { createH1Client } from '../../platform/upstream/h1-client.ts';
import type { BodyRead, FaultKind, UpstreamHead } from '../../platform/upstream/port.ts';
import { upstreamDefaults } from '../../platform/upstream/settings.ts';
import { parseTarget } from '../../platform/upstream/target.ts';
import { createSseScanner } from '../../relay/sse-scanner.ts';

/** Moments are of the clock; absent: it didn't come. */
export interface Seen {
  readonly status?: number;
  /** Names in lower case. */
  readonly headers: Readonly<Record<string, string>>;
  readonly framing?: UpstreamHead['framing'];
  readonly reused: boolean;
  readonly sentMs: number;
  readonly headMs?: number;
  readonly endMs: number;
  /** Moment of each token event. */
  readonly tokenMs: readonly number[];
  /** Moments of the socket reads that brought token events. */
  readonly tokenReadMs: readonly number[];
  readonly events: number;
  /** Events that carry usage. */
  readonly usageEvents: number;
  readonly usage?: Usage;
  readonly timings?: Timings & { readonly predictedMs?: number };
  /** Told before the first token: llama-server's progress. */
  readonly early?: EventFacts['early'];
  /** Told by the engine inside the stream. */
  readonly error?: StreamError;
  readonly finished: boolean;
  readonly done: boolean;
  /** What was no event stream, up to a bound. */
  readonly body: string;
  /** `timeout` and `endless`: we gave it up. */
  readonly fault?: { readonly kind: FaultKind | 'timeout' | 'endless'; readonly detail: string };
  /** Cut off by us, as the request asked. */
  readonly aborted: boolean;
}

export interface WireRequest {
  readonly method?: string;
  readonly path: string;
  readonly body?: object | string;
  readonly headers?: readonly string[];
  /** Default true: no pooled connection. */
  readonly fresh?: boolean;
  readonly timeoutMs: number;
  /** Goes away after so many token events. */
  readonly abortAfterTokens?: number;
  /** Goes away so long after the request was sent, if no token came. */
  readonly abortAfterMs?: number;
  /** A stream that brings more token events has no end: it is left. */
  readonly mostTokens?: number;
  readonly onToken?: (count: number) => void;
}

export interface Call {
  readonly done: Promise<Seen>;
  abort(): void;
}

export interface Wire {
  call(request: WireRequest): Call;
  ask(request: WireRequest): Promise<Seen>;
  close(): void;
}

const maxBodyBytes = 2 * 1024 * 1024;
const maxMoments = 20_000;
/** Tokens or not: progress on a very long prompt comes in some thousands. */
const maxEvents = 50_000;

export interface WireSettings {
  readonly url: string;
  readonly apiKey?: string;
  readonly engine?: Engine;
}

export function createWire(settings: WireSettings, clock: Clock): Wire {
  const target = parseTarget(settings.url);
  const client = createH1Client(upstreamDefaults, { clock });
  const call = (request: WireRequest): Call => {
    const headers = ['user-agent', 'warmlane-doctor', 'accept', '*/*', ...(request.headers ?? [])];
    if (!headers.includes('accept-encoding')) headers.push('accept-encoding', 'identity');
    if (settings.apiKey !== undefined) headers.push('authorization', `Bearer ${settings.apiKey}`);
    const { body } = request;
    const text = body === undefined || typeof body === 'string' ? body : JSON.stringify(body);
    if (text !== undefined) headers.push('content-type', 'application/json');
    const chunk = Buffer.from(text ?? '');
    const book = createBook(settings.engine, clock);
    let settle = (): void => {};
    const done = new Promise<Seen>((resolve) => {
      settle = () => {
        timer.cancel();
        away?.cancel();
        resolve(book.seen());
      };
    });
    const leave = (why: 'aborted' | 'timeout' | 'endless') => {
      if (book.over) return;
      exchange.abort();
      book.left(why, request.timeoutMs);
      settle();
    };
    const timer = clock.timer(request.timeoutMs, () => leave('timeout'));
    let away: { cancel(): void } | undefined;
    const exchange = client.open(
      target,
      {
        method: request.method ?? (text === undefined ? 'GET' : 'POST'),
        target: target.pathPrefix + request.path,
        headers,
        body: text === undefined ? { kind: 'none' } : { kind: 'held', chunks: [chunk], bytes: chunk.length },
        fresh: request.fresh ?? true,
        connectTimeoutMs: Math.min(request.timeoutMs, 10_000),
      },
      {
        connected: ({ reused }) => book.connected(reused),
        sent() {
          book.sent();
          const { abortAfterMs } = request;
          if (abortAfterMs !== undefined) away = clock.timer(abortAfterMs, () => leave('aborted'));
        },
        head: (head) => book.head(head),
        body(read) {
          const before = book.tokens;
          book.body(read);
          if (book.tokens > before) request.onToken?.(book.tokens);
          const most = request.abortAfterTokens;
          // Not within the read: the connection still handles it.
          if (most !== undefined && book.tokens >= most) queueMicrotask(() => leave('aborted'));
          else if (book.tokens > (request.mostTokens ?? maxMoments - 1) || book.events > maxEvents)
            queueMicrotask(() => leave('endless'));
        },
        end() {
          book.end();
          settle();
        },
        fault({ kind, detail }) {
          book.fault(kind, detail);
          settle();
        },
      },
    );
    return { done, abort: () => leave('aborted') };
  };
  return { call, ask: (request) => call(request).done, close: () => client.close() };
}

/** Gathers one answer. */
function createBook(engine: Engine | undefined, clock: Clock) {
  const reader = createEventReader('chat', engine);
  const tokenMs: number[] = [];
  const tokenReadMs: number[] = [];
  const pieces: Buffer[] = [];
  let bytes = 0;
  let readMs = clock.nowMs();
  let sentMs = readMs;
  const state: { -readonly [K in keyof Seen]?: Seen[K] } = {};
  let events = 0;
  let usageEvents = 0;
  let predicted: { readonly predictedMs?: number } = {};
  let isStream = false;
  let over = false;

  const scanner = createSseScanner(
    { maxEventBytes: maxBodyBytes },
    (data, start, end, name) => {
      events += 1;
      // The engine's own decode time, which no other reader of timings wants.
      const ms = /"predicted_ms":([\d.]+)/.exec(data.toString('latin1', start, end))?.[1];
      predicted = ms === undefined ? {} : { predictedMs: Number(ms) };
      for (let facts: EventFacts | undefined = reader.read(data, start, end, name); facts; facts = facts.next)
        take(facts);
    },
    () => {},
  );

  function take(facts: EventFacts): void {
    if ((facts.flags & EventFlag.token) !== 0 && tokenMs.length < maxMoments) tokenMs.push(readMs);
    if (facts.usage !== undefined) {
      usageEvents += 1;
      state.usage = facts.usage;
    }
    if (facts.timings !== undefined) state.timings = { ...facts.timings, ...predicted };
    if (facts.early !== undefined) state.early ??= facts.early;
    if (facts.error !== undefined) state.error = facts.error;
    if (facts.finishes.length > 0) state.finished = true;
    if ((facts.flags & EventFlag.done) !== 0) state.done = true;
  }

  return {
    get tokens() {
      return tokenMs.length;
    },
    get events() {
      return events;
    },
    get over() {
      return over;
    },
    connected(reused: boolean) {
      state.reused = reused;
    },
    sent() {
      sentMs = clock.nowMs();
    },
    head(head: UpstreamHead) {
      state.status = head.status;
      state.framing = head.framing;
      state.headMs = clock.nowMs();
      state.headers = headersOf(head.rawHeaders);
      isStream = state.headers['content-type']?.includes('text/event-stream') === true;
    },
    body(read: BodyRead) {
      readMs = clock.nowMs();
      const before = tokenMs.length;
      for (let index = 0; index < read.count; index += 1) {
        const [from = 0, to = 0] = [read.starts[index], read.ends[index]];
        if (isStream) scanner.push(read.wire, from, to);
        else if (bytes < maxBodyBytes) pieces.push(Buffer.from(read.wire.subarray(from, to)));
        bytes += to - from;
      }
      if (tokenMs.length > before) tokenReadMs.push(readMs);
    },
    end() {
      over = true;
      readMs = clock.nowMs();
      if (isStream) scanner.end();
      else if (state.status === 200) Object.assign(state, wholeFacts(Buffer.concat(pieces).toString()));
    },
    fault(kind: FaultKind, detail: string) {
      over = true;
      state.fault = { kind, detail };
    },
    left(why: 'aborted' | 'timeout' | 'endless', timeoutMs: number) {
      over = true;
      if (why === 'aborted') state.aborted = true;
      else if (why === 'endless')
        state.fault = { kind: why, detail: `no end after ${tokenMs.length} token events of ${events} events` };
      else state.fault = { kind: 'timeout', detail: `no end within ${Math.round(timeoutMs)} ms` };
    },
    seen: (): Seen => ({
      headers: {},
      reused: false,
      finished: false,
      done: false,
      aborted: false,
      ...state,
      sentMs,
      endMs: clock.nowMs(),
      tokenMs,
      tokenReadMs,
      events,
      usageEvents,
      body: Buffer.concat(pieces).toString(),
    }),
  };
}

/** Usage and timings of an answer that is not streamed. */
function wholeFacts(text: string): Pick<Partial<Seen>, 'usage' | 'timings'> {
  const json = jsonIn(text);
  const usage = isObject(json) ? objectAt(json, 'usage') : undefined;
  const timings = isObject(json) ? objectAt(json, 'timings') : undefined;
  return {
    ...(usage === undefined ? {} : { usage: readUsage(usage) }),
    ...(timings === undefined ? {} : { timings: readTimings(timings) }),
  };
}

/** HTML with 200: a page for people, of whatever stands at that address. */
export function isWebPage({ status, headers, body }: Seen): boolean {
  return (
    status === 200 && (headers['content-type']?.includes('text/html') === true || /^\s*<(!doctype|html)/i.test(body))
  );
}

/** A stream without a token, as far as it can be read: a compressed one can't. */
export function isSilent({ headers, tokenMs }: Seen): boolean {
  const readable = (headers['content-encoding'] ?? 'identity') === 'identity';
  return readable && tokenMs.length === 0 && headers['content-type']?.includes('text/event-stream') === true;
}

/** undefined when it is no JSON. */
export function jsonIn(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    // An answer that is no JSON is an ordinary answer here.
    return undefined;
  }
}

function headersOf(raw: readonly string[]): Record<string, string> {
  const headers: Record<string, string> = {};
  for (let index = 0; index + 1 < raw.length; index += 2) {
    const name = (raw[index] ?? '').toLowerCase();
    const value = raw[index + 1] ?? '';
    headers[name] = headers[name] === undefined ? value : `${headers[name]}, ${value}`;
  }
  return headers;
}

/** From sent to the first token event. */
export function ttftOf(seen: Seen): number | undefined {
  const [first] = seen.tokenMs;
  return first === undefined ? undefined : first - seen.sentMs;
}
