/**
 * Feeds bytes to the response reader, cut where a test wants, and tells what came out. Checks on the way what must hold for
 * every read: segments inside the wire range, and verbatim reads that are whole plain chunks by an independent decoder.
 */
import { ReusedBodyRead } from '../../../../src/platform/upstream/body-read.ts';
import { ResponseReader } from '../../../../src/platform/upstream/h1-reader.ts';
import type { BodyRead, UpstreamHead } from '../../../../src/platform/upstream/port.ts';

interface ReadResponse {
  readonly head: UpstreamHead | undefined;
  readonly body: Buffer;
  readonly outcome: 'more' | 'ended' | 'bad';
  readonly problem: string;
  readonly trailers: readonly string[];
  /** Bytes taken in all. */
  readonly taken: number;
  readonly persistent: boolean;
  readonly verbatim: readonly boolean[];
  /** Of each read of the body: nothing comes behind it. */
  readonly lasts: readonly boolean[];
  readonly keepAliveMs: number | undefined;
  readonly keepAliveMax: number | undefined;
  /** Order of calls: `head`, `body`. */
  readonly calls: readonly string[];
}

interface ReadOptions {
  readonly method?: string;
  /** Offsets at which a new read begins. */
  readonly cuts?: readonly number[];
  /** The connection ends after the bytes. */
  readonly fin?: boolean;
}

export function readResponse(bytes: Buffer, options: ReadOptions = {}): ReadResponse {
  const body: Buffer[] = [];
  const verbatim: boolean[] = [];
  const lasts: boolean[] = [];
  const calls: string[] = [];
  let head: UpstreamHead | undefined;
  const reader = new ResponseReader(
    {
      head(given) {
        if (head !== undefined) throw new Error('two heads');
        head = given;
        calls.push('head');
      },
      body(read) {
        calls.push('body');
        verbatim.push(read.verbatim);
        lasts.push(read.last);
        body.push(payloadOf(read));
        checkRead(read);
      },
    },
    new ReusedBodyRead(),
  );
  reader.begin(options.method ?? 'GET');
  let taken = 0;
  for (const [from, to] of pieces(bytes.length, options.cuts ?? [])) {
    // Each read comes in the middle of a dirty buffer, as from a socket's own.
    const buffer = Buffer.alloc(to - from + 11, '\n0a;\r');
    bytes.copy(buffer, 5, from, to);
    taken += reader.feed(buffer, 5, 5 + to - from) - 5;
    if (reader.outcome !== 'more') break;
  }
  if (options.fin === true && reader.outcome === 'more') reader.finish();
  return {
    head,
    body: Buffer.concat(body),
    outcome: reader.outcome,
    problem: reader.problem,
    trailers: reader.trailers,
    taken,
    persistent: reader.persistent,
    verbatim,
    lasts,
    keepAliveMs: reader.keepAliveMs,
    keepAliveMax: reader.keepAliveMax,
    calls,
  };
}

function pieces(length: number, cuts: readonly number[]): [number, number][] {
  const bounds = [...new Set([0, ...cuts.filter((cut) => cut > 0 && cut < length), length])].toSorted((a, b) => a - b);
  return bounds.slice(1).map((to, i) => [bounds[i] ?? 0, to]);
}

export function payloadOf(read: BodyRead): Buffer {
  const segments: Buffer[] = [];
  for (let i = 0; i < read.count; i += 1) segments.push(Buffer.from(read.wire.subarray(read.starts[i], read.ends[i])));
  return Buffer.concat(segments);
}

function checkRead(read: BodyRead): void {
  const payload = payloadOf(read);
  if (payload.length !== read.payloadBytes || read.count === 0) throw new Error('payloadBytes is wrong');
  let at = read.wireStart;
  for (let i = 0; i < read.count; i += 1) {
    const from = read.starts[i] ?? -1;
    const to = read.ends[i] ?? -1;
    if (from < at || to <= from || to > read.wireEnd) throw new Error('segment outside the wire range');
    at = to;
  }
  if (!read.verbatim) return;
  const decoded = decodePlainChunks(read.wire.toString('latin1', read.wireStart, read.wireEnd));
  if (decoded !== payload.toString('latin1')) throw new Error('a verbatim read is not whole plain chunks');
}

/** Undefined unless the text is whole plain chunks, none of them the last. */
function decodePlainChunks(text: string): string | undefined {
  let decoded = '';
  let rest = text;
  while (rest !== '') {
    const line = /^([0-9a-f]{1,8})\r\n/i.exec(rest);
    const size = Number.parseInt(line?.[1] ?? '0', 16);
    if (line === null || size === 0) return undefined;
    const from = line[0].length;
    if (rest.slice(from + size, from + size + 2) !== '\r\n') return undefined;
    decoded += rest.slice(from, from + size);
    rest = rest.slice(from + size + 2);
  }
  return decoded;
}
