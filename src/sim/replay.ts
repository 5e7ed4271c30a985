/**
 * Plays a recorded exchange (request.http, response.http, meta.json with its reads) through a scripted server:
 * with its own timing, all at once, or cut into the smallest writes. Reads the files; sends the response's bytes unchanged.
 */
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { at, fin, hang, send, trickle, waitForClose, type ScriptStep } from './fault-steps.ts';

export interface RecordedExchange {
  readonly name: string;
  /** The request's bytes as recorded. */
  readonly request: Buffer;
  /** The response's bytes: status line, headers, framing, all. */
  readonly response: Buffer;
  /** Each socket read in turn: ms since the request was sent, and its length. The lengths add up to the response. */
  readonly reads: readonly { readonly atMs: number; readonly bytes: number }[];
  readonly end: RecordedEnd;
  /** ms from the last byte to the server's closing the socket, where it was waited for and happened. */
  readonly closedAfterMs?: number;
  /** The engine's own counters before and after. */
  readonly countersMoved: Readonly<Record<string, readonly [before: number, after: number]>>;
  readonly meta: Readonly<Record<string, unknown>>;
}

export type RecordedEnd =
  /** whole by its framing */
  | 'complete'
  | 'closed_by_server'
  /** the recording client closed first */
  | 'closed_by_client'
  /** fell silent with the socket open */
  | 'silent';

export type ReplayPace =
  /** the recorded gaps, divided by `speed` (default 1) */
  | { readonly kind: 'recorded'; readonly speed?: number }
  /** one write */
  | { readonly kind: 'whole' }
  /** each recorded read a write, no gaps but a turn of the event loop */
  | { readonly kind: 'reads' }
  /** so many bytes a write (default 1), each in its own turn of the event loop */
  | { readonly kind: 'cut'; readonly bytesPerWrite?: number };

/** @throws when a file is missing or meta.json isn't a recording's */
export async function loadExchange(folder: string): Promise<RecordedExchange> {
  const [request, response, metaText] = await Promise.all([
    readFile(join(folder, 'request.http')),
    readFile(join(folder, 'response.http')),
    readFile(join(folder, 'meta.json'), 'utf8'),
  ]);
  const meta: unknown = JSON.parse(metaText);
  if (!isRecord(meta) || !isReads(meta['reads'])) throw new Error(`${folder}: meta.json has no reads`);
  const reads = meta['reads'].map(([micros, bytes]) => ({ atMs: micros / 1000, bytes }));
  const total = reads.reduce((sum, read) => sum + read.bytes, 0);
  if (total !== response.length)
    throw new Error(`${folder}: reads hold ${total} bytes, the response ${response.length}`);
  const closedAfterMicros = meta['closedAfterMicros'];
  return {
    name:
      folder
        .split(/[\\/]/)
        .filter((part) => part !== '')
        .at(-1) ?? folder,
    request,
    response,
    reads,
    end: recordedEnd(String(meta['end'])),
    ...(typeof closedAfterMicros === 'number' ? { closedAfterMs: closedAfterMicros / 1000 } : {}),
    countersMoved: isCounters(meta['countersMoved']) ? meta['countersMoved'] : {},
    meta,
  };
}

/**
 * The script of one exchange. A stream of llama-server is closed by the server as soon as it is over; the other answers leave
 * the connection open, as recorded.
 */
export function exchangeScript(exchange: RecordedExchange, pace: ReplayPace): ScriptStep[] {
  return [...payloadSteps(exchange, pace), ...endSteps(exchange)];
}

function payloadSteps(exchange: RecordedExchange, pace: ReplayPace): ScriptStep[] {
  if (pace.kind === 'whole') return [send(exchange.response)];
  if (pace.kind === 'cut') return [trickle(exchange.response, pace.bytesPerWrite ?? 1)];
  const steps: ScriptStep[] = [];
  let from = 0;
  for (const read of exchange.reads) {
    const bytes = exchange.response.subarray(from, from + read.bytes);
    from += read.bytes;
    if (pace.kind === 'recorded') steps.push(at(read.atMs / (pace.speed ?? 1)), send(bytes));
    else steps.push(trickle(bytes, bytes.length));
  }
  return steps;
}

function endSteps(exchange: RecordedExchange): ScriptStep[] {
  switch (exchange.end) {
    case 'complete':
      return closesByItself(exchange) ? [fin()] : [];
    case 'closed_by_server':
      return [fin()];
    case 'closed_by_client':
      return [waitForClose()];
    case 'silent':
      return [hang()];
  }
}

/** Says so in its head, or is a chunked answer of llama-server, which announces keep-alive and closes all the same. */
function closesByItself(exchange: RecordedExchange): boolean {
  const head = exchange.response.toString('latin1', 0, exchange.response.indexOf('\r\n\r\n'));
  return (
    /^connection: close/im.test(head) ||
    (/^server: llama\.cpp/im.test(head) && /^transfer-encoding: chunked/im.test(head))
  );
}

function recordedEnd(text: string): RecordedEnd {
  if (text === 'complete') return 'complete';
  if (text === 'closed by server') return 'closed_by_server';
  if (text.startsWith('aborted by us')) return 'closed_by_client';
  if (text === 'timeout') return 'silent';
  throw new Error(`unknown end of a recording: ${text}`);
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function isReads(value: unknown): value is (readonly [number, number])[] {
  return (
    Array.isArray(value) &&
    value.every((read) => Array.isArray(read) && read.length === 2 && read.every((part) => typeof part === 'number'))
  );
}

function isCounters(value: unknown): value is Record<string, readonly [number, number]> {
  return isRecord(value) && Object.values(value).every((pair) => Array.isArray(pair) && pair.length === 2);
}
