/**
 * The bytes of HTTP/1.1 responses in, events out: resumable at every byte, no sockets, no timers, no copies of the body.
 * Stricter than Node's parser wherever they differ; what it refuses once it never reads on.
 * A class with fields, since one lives in every connection and `feed` runs once per token.
 */
import type { ReusedBodyRead } from './body-read.ts';
import { ChunkReader } from './chunk-reader.ts';
import { mayBeStatusLine, parseFieldLine, parseStatusLine, type StatusLine } from './head-lines.ts';
import { LineReader, type LineSink } from './line-reader.ts';
import type { BodyRead, UpstreamHead } from './port.ts';
import { frameResponse } from './response-framing.ts';

/** What a reader tells while it is fed. The response's end and its refusal are read from `outcome` after each `feed`. */
export interface ReaderSink {
  head(head: UpstreamHead): void;
  /** At most once per `feed`. */
  body(read: BodyRead): void;
}

/** Head of one response, interim ones each for themselves; trailers have a bound of their own. */
export const maxHeadBytes = 64 * 1024;
const maxHeadFields = 256;
export const maxTrailerBytes = 16 * 1024;
const maxTrailerFields = 64;
export const maxInterimResponses = 16;

type Phase = 'head' | 'chunks' | 'length' | 'close' | 'trailers' | 'ended' | 'bad';

const noTrailers: readonly string[] = Object.freeze([]);
const notHttp = 'something that is not an HTTP/1.0 or HTTP/1.1 status line';

export class ResponseReader implements LineSink {
  /** Why the bytes were refused. */
  problem = '';
  /** At least one byte of the response was fed. */
  responseStarted = false;
  trailers: readonly string[] = noTrailers;
  /** Of the final response, once its head is read. */
  status = 0;
  chunked = false;
  /** By its head and framing another response may follow on this connection. */
  persistent = false;
  /** What its Keep-Alive header said. */
  keepAliveMs: number | undefined;
  keepAliveMax: number | undefined;
  readonly #sink: ReaderSink;
  readonly #read: ReusedBodyRead;
  readonly #lines = new LineReader();
  #chunks: ChunkReader | undefined;
  #phase: Phase = 'head';
  #method = '';
  #statusLine: StatusLine | undefined;
  #fields: string[] = [];
  #interim = 0;
  /** Bytes still to come of a body by length. */
  #remaining = 0;

  constructor(sink: ReaderSink, read: ReusedBodyRead) {
    this.#sink = sink;
    this.#read = read;
  }

  /** Makes ready for the response to one request. */
  begin(method: string): void {
    this.#method = method;
    this.#interim = 0;
    this.responseStarted = false;
    this.persistent = false;
    this.trailers = noTrailers;
    this.#beginLines('head');
  }

  /** `ended` and `bad` are final until `begin`. */
  get outcome(): 'more' | 'ended' | 'bad' {
    return this.#phase === 'ended' || this.#phase === 'bad' ? this.#phase : 'more';
  }

  /**
   * Reads `buffer[start, end)`; the sink is called before this returns. Not to be called again once `outcome` is final.
   * @returns the index of the first byte that was not taken: less than `end` only when `outcome` is final
   */
  feed(buffer: Buffer, start: number, end: number): number {
    if (start >= end) return start;
    this.responseStarted = true;
    let at = start;
    if (this.#phase === 'head') at = this.#feedLines(buffer, at, end);
    if (at === end) return at;
    if (this.#phase === 'chunks') at = this.#feedChunks(buffer, at, end);
    else if (this.#phase === 'length') at = this.#feedLength(buffer, at, end);
    else if (this.#phase === 'close') {
      this.#segment(buffer, at, end, false);
      at = end;
    }
    if (this.#phase === 'trailers') at = this.#feedLines(buffer, at, end);
    return at;
  }

  /**
   * The connection has ended. A body that runs to the close is complete by that.
   * @returns where it stands otherwise, for a message; undefined when the response is complete
   */
  finish(): string | undefined {
    if (this.#phase === 'close') this.#phase = 'ended';
    switch (this.#phase) {
      case 'ended':
        return undefined;
      case 'head':
        return this.responseStarted ? 'inside the response head' : 'before any byte of a response';
      case 'length':
        return `${this.#remaining} bytes short of its Content-Length`;
      default:
        return 'before the last chunk';
    }
  }

  /** One line of the head or the trailers. */
  line(bytes: Buffer, start: number, end: number): boolean {
    if (this.#phase === 'trailers') this.#trailerLine(bytes, start, end);
    else if (this.#statusLine === undefined) {
      this.#statusLine = parseStatusLine(bytes, start, end);
      if (this.#statusLine === undefined) this.#bad(notHttp);
    } else if (end === start) {
      this.#headDone(this.#statusLine);
      // Each interim response has the whole bound for itself.
      return false;
    } else if (this.#fields.length >= 2 * maxHeadFields) this.#bad(`more than ${maxHeadFields} header fields`);
    else if (!parseFieldLine(bytes, start, end, this.#fields)) this.#bad('an invalid header field');
    return this.#phase === 'head' || this.#phase === 'trailers';
  }

  #bad(problem: string): void {
    this.#phase = 'bad';
    this.problem = problem;
  }

  #beginLines(phase: 'head' | 'trailers'): void {
    this.#phase = phase;
    this.#statusLine = undefined;
    this.#fields = [];
    this.#lines.begin(phase === 'head' ? maxHeadBytes : maxTrailerBytes);
  }

  #feedLines(buffer: Buffer, start: number, end: number): number {
    const phase = this.#phase;
    const lines = this.#lines;
    let at = start;
    while (at < end && this.#phase === phase) {
      at = lines.feed(buffer, at, end, this);
      if (lines.problem !== undefined) this.#bad(this.#lineProblem(phase, lines.problem));
    }
    if (this.#phase === 'head' && this.#statusLine === undefined) {
      const { partial } = lines;
      if (partial !== undefined && !mayBeStatusLine(partial, 0, partial.length)) this.#bad(notHttp);
    }
    return at;
  }

  #lineProblem(phase: Phase, problem: 'too_long' | 'no_crlf'): string {
    if (phase === 'head' && problem === 'too_long') return `a response head of more than ${maxHeadBytes} bytes`;
    if (phase === 'head' && this.#statusLine === undefined) return notHttp;
    return problem === 'too_long' ? `trailers of more than ${maxTrailerBytes} bytes` : 'a line that ends without CR';
  }

  #headDone(line: StatusLine): void {
    const framed = frameResponse(line, this.#fields, this.#method);
    if (typeof framed === 'string') {
      this.#bad(framed);
      return;
    }
    this.#beginLines('head');
    const { head } = framed;
    if (head.status < 200) {
      this.#interim += 1;
      if (this.#interim > maxInterimResponses) this.#bad(`more than ${maxInterimResponses} interim responses`);
      return;
    }
    this.status = head.status;
    this.chunked = head.framing === 'chunked';
    this.persistent = framed.persistent;
    this.keepAliveMs = framed.keepAliveMs;
    this.keepAliveMax = framed.keepAliveMax;
    this.#remaining = head.contentLength ?? 0;
    if (head.framing === 'chunked') {
      this.#chunks ??= new ChunkReader();
      this.#chunks.begin();
      this.#phase = 'chunks';
    } else if (head.framing === 'close') this.#phase = 'close';
    else this.#phase = this.#remaining > 0 ? 'length' : 'ended';
    this.#sink.head(head);
  }

  #trailerLine(bytes: Buffer, start: number, end: number): void {
    const fields = this.#fields;
    if (end === start) {
      if (fields.length > 0) this.trailers = fields;
      this.#phase = 'ended';
    } else if (fields.length >= 2 * maxTrailerFields) this.#bad(`more than ${maxTrailerFields} trailer fields`);
    else if (!parseFieldLine(bytes, start, end, fields)) this.#bad('an invalid trailer field');
    else if (/^(content-length|transfer-encoding)$/i.test(fields[fields.length - 2] ?? '')) {
      this.#bad('a framing field among the trailers');
    }
  }

  #feedChunks(buffer: Buffer, start: number, end: number): number {
    const chunks = this.#chunks;
    if (chunks === undefined) return start;
    const read = this.#read;
    const at = chunks.feed(buffer, start, end, read);
    if (chunks.last) this.#beginLines('trailers');
    else if (chunks.bad) this.#bad(chunks.problem);
    if (read.count > 0) this.#sink.body(read);
    return at;
  }

  #feedLength(buffer: Buffer, start: number, end: number): number {
    const to = Math.min(end, start + this.#remaining);
    this.#remaining -= to - start;
    if (this.#remaining === 0) this.#phase = 'ended';
    this.#segment(buffer, start, to, this.#remaining === 0);
    return to;
  }

  /** Hands over `[start, end)`, which is payload throughout. @param last nothing of the body comes behind it */
  #segment(buffer: Buffer, start: number, end: number, last: boolean): void {
    const read = this.#read;
    read.wire = buffer;
    read.wireStart = start;
    read.wireEnd = end;
    read.count = 1;
    read.starts[0] = start;
    read.ends[0] = end;
    read.payloadBytes = end - start;
    read.verbatim = false;
    read.last = last;
    this.#sink.body(read);
  }
}
