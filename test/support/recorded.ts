/**
 * Loads a recorded exchange of test/fixtures/recorded: the bytes of a real server with the moment of each read.
 * Parses head and chunk framing on its own, so that it can judge the code under test.
 */
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';

const root = join(import.meta.dirname, '../fixtures/recorded');

export type RecordedServer = 'llama-server' | 'vllm';

export interface RecordedMeta {
  readonly server: RecordedServer;
  readonly serverVersion: string;
  readonly flags: string;
  readonly note: string;
  /** How it ended: `complete`, `closed by server`, `aborted by us after N reads`, `timeout`. */
  readonly end: string;
  /** Microseconds since the request was sent, and bytes, of each read. */
  readonly reads: readonly (readonly [number, number])[];
  /** The engine's own counters before and after, labels included in the name. */
  readonly countersMoved: Readonly<Record<string, readonly [number, number]>>;
}

export interface RecordedRead {
  readonly atMicros: number;
  /** The body's share of this read, chunk framing taken out; empty for a read that held only head or framing. */
  readonly segments: readonly Buffer[];
}

export interface Recorded {
  readonly server: RecordedServer;
  readonly name: string;
  readonly meta: RecordedMeta;
  readonly request: { readonly method: string; readonly path: string; readonly body: Buffer };
  readonly status: number;
  /** Lower-cased names. */
  readonly headers: ReadonlyMap<string, string>;
  /** Moment at which the last byte of the head had come. */
  readonly headMicros: number;
  /** Body without chunk framing. */
  readonly body: Buffer;
  readonly reads: readonly RecordedRead[];
  readonly endMicros: number;
  /** The whole response as it came, framing and all. */
  readonly raw: Buffer;
}

export function listRecorded(): readonly { readonly server: RecordedServer; readonly name: string }[] {
  return (['llama-server', 'vllm'] as const).flatMap((server) =>
    readdirSync(join(root, server))
      .filter((name) => existsSync(join(root, server, name, 'meta.json')))
      .map((name) => ({ server, name })),
  );
}

export function loadRecorded(server: RecordedServer, name: string): Recorded {
  const folder = join(root, server, name);
  const meta = JSON.parse(readFileSync(join(folder, 'meta.json'), 'utf8')) as RecordedMeta;
  const raw = readFileSync(join(folder, 'response.http'));
  const requestBytes = readFileSync(join(folder, 'request.http'));
  const [method = '', path = ''] = requestBytes.toString('latin1').split(' ', 2);
  const bodyStart = raw.indexOf('\r\n\r\n') + 4;
  const [statusLine = '', ...lines] = raw.toString('latin1', 0, bodyStart - 4).split('\r\n');
  const headers = new Map(lines.map((line) => [line.replace(/:.*/, '').toLowerCase(), line.replace(/^[^:]*:\s*/, '')]));
  const spans = headers.get('transfer-encoding') === 'chunked' ? chunkSpans(raw, bodyStart) : [[bodyStart, raw.length]];
  let offset = 0;
  let headMicros = 0;
  const reads = meta.reads.map(([atMicros, bytes]) => {
    const from = offset;
    offset += bytes;
    if (from < bodyStart) headMicros = atMicros;
    const segments = spans.flatMap(([start = 0, end = 0]) => {
      const [a, b] = [Math.max(start, from), Math.min(end, offset)];
      return a < b ? [raw.subarray(a, b)] : [];
    });
    return { atMicros, segments };
  });
  return {
    server,
    name,
    meta,
    request: { method, path, body: requestBytes.subarray(requestBytes.indexOf('\r\n\r\n') + 4) },
    status: Number(statusLine.split(' ')[1]),
    headers,
    headMicros,
    body: Buffer.concat(reads.flatMap((read) => read.segments)),
    reads,
    endMicros: meta.reads.at(-1)?.[0] ?? 0,
    raw,
  };
}

/** By how much one of the engine's counters moved, all label sets together; absent when it didn't move. */
export function counterMoved(recorded: Recorded, name: string): number | undefined {
  const moved = Object.entries(recorded.meta.countersMoved).filter(([key]) => key.split('{')[0] === name);
  return moved.length === 0 ? undefined : moved.reduce((sum, [, [before, after]]) => sum + after - before, 0);
}

/** Several requests ran together here, so the engine's counters don't speak of one. */
const together =
  /^(stall-|chat-queued|error-in-stream|error-busy|beside-|queued-|chat-sigterm|sigterm-mid|engine-died)/;

/** An answer that was generated, by an engine that had nothing else to do: its counters speak of it. */
export function ranAlone({ status, request, name }: Recorded): boolean {
  return status === 200 && request.method === 'POST' && !together.test(name);
}

/** By the engine's own counters, for a request that ran alone. */
export interface EngineCounts {
  readonly prompt: number | undefined;
  readonly output: number | undefined;
  readonly cached: number | undefined;
}

export function engineCounts(recorded: Recorded): EngineCounts {
  if (recorded.server === 'llama-server') {
    const computed = counterMoved(recorded, 'llamacpp:prompt_tokens_total');
    const cached = counterMoved(recorded, 'llamacpp:prompt_tokens_cached_total') ?? 0;
    return {
      prompt: computed === undefined ? undefined : computed + cached,
      cached,
      output: counterMoved(recorded, 'llamacpp:tokens_predicted_total'),
    };
  }
  return {
    prompt: counterMoved(recorded, 'vllm:prompt_tokens_total'),
    cached: counterMoved(recorded, 'vllm:prompt_tokens_cached_total') ?? 0,
    output: counterMoved(recorded, 'vllm:generation_tokens_total'),
  };
}

function chunkSpans(raw: Buffer, bodyStart: number): readonly (readonly [number, number])[] {
  const spans: [number, number][] = [];
  for (let pos = bodyStart; pos < raw.length;) {
    const eol = raw.indexOf('\r\n', pos);
    if (eol === -1) break;
    const size = Number.parseInt(raw.toString('latin1', pos, eol), 16);
    if (!(size > 0)) break;
    spans.push([eol + 2, Math.min(eol + 2 + size, raw.length)]);
    pos = eol + 2 + size + 2;
  }
  return spans;
}
