/**
 * From a finished response head to how its body ends (RFC 9112 section 6.3) and whether the connection may serve again.
 * Pure. Refuses every head that two readers could frame differently; must never be more lenient than Node's own parser.
 */
import { lowerName } from '../header-name.ts';
import type { StatusLine } from './head-lines.ts';
import type { UpstreamHead } from './port.ts';

interface FramedHead {
  readonly head: UpstreamHead;
  /** By the head alone, another exchange may follow on this connection. */
  readonly persistent: boolean;
  /** From `Keep-Alive: timeout=N`, ms; absent when not announced. */
  readonly keepAliveMs?: number;
  /** From `Keep-Alive: max=N`: exchanges that the server allows on one connection. */
  readonly keepAliveMax?: number;
}

/** What the framing headers of one head say together; `problem` ends the exchange. */
interface FramingFields {
  problem: string | undefined;
  contentLength: number | undefined;
  chunked: boolean;
  close: boolean;
  keepAlive: string;
}

/** @returns a text that says why the head is refused, when it is */
export function frameResponse(line: StatusLine, rawHeaders: readonly string[], method: string): FramedHead | string {
  const fields = readFramingFields(rawHeaders);
  const problem = fields.problem ?? conflict(line, fields);
  if (problem !== undefined) return problem;
  const { contentLength, chunked } = fields;
  const bodiless = method === 'HEAD' || line.status === 204 || line.status === 304;
  const framing = bodiless ? 'none' : chunked ? 'chunked' : contentLength === undefined ? 'close' : 'length';
  // A 204 or 304 with body headers may be followed by that body all the same: nothing after it can be trusted.
  const suspect = bodiless && method !== 'HEAD' && (chunked || (line.status === 204 && (contentLength ?? 0) > 0));
  const { status, reason, httpVersion } = line;
  const head: UpstreamHead =
    framing === 'length' && contentLength !== undefined
      ? { status, reason, rawHeaders, httpVersion, framing, contentLength }
      : { status, reason, rawHeaders, httpVersion, framing };
  const persistent = httpVersion === '1.1' && !fields.close && framing !== 'close' && !suspect;
  return fields.keepAlive === '' ? { head, persistent } : { head, persistent, ...keepAliveLimits(fields.keepAlive) };
}

function readFramingFields(rawHeaders: readonly string[]): FramingFields {
  const fields: FramingFields = {
    problem: undefined,
    contentLength: undefined,
    chunked: false,
    close: false,
    keepAlive: '',
  };
  for (let i = 0; i + 1 < rawHeaders.length; i += 2) {
    const name = rawHeaders[i] ?? '';
    if (name.length !== 14 && name.length !== 17 && name.length !== 10) continue;
    takeField(fields, lowerName(name), rawHeaders[i + 1] ?? '');
  }
  return fields;
}

function takeField(fields: FramingFields, name: string, value: string): void {
  if (name === 'content-length') {
    if (fields.contentLength !== undefined) fields.problem ??= 'more than one Content-Length';
    fields.contentLength = /^[0-9]{1,16}$/.test(value) ? Number(value) : NaN;
    if (!Number.isSafeInteger(fields.contentLength)) fields.problem ??= 'invalid Content-Length';
  } else if (name === 'transfer-encoding') {
    if (fields.chunked) fields.problem ??= 'more than one Transfer-Encoding';
    else if (value.toLowerCase() !== 'chunked') fields.problem ??= 'a Transfer-Encoding other than chunked';
    fields.chunked = true;
  } else if (name === 'connection') {
    if (value.split(',').some((option) => option.trim().toLowerCase() === 'close')) fields.close = true;
  } else if (name === 'keep-alive') {
    fields.keepAlive += `${value},`;
  }
}

function conflict(line: StatusLine, fields: FramingFields): string | undefined {
  if (fields.chunked && fields.contentLength !== undefined) return 'both Content-Length and Transfer-Encoding';
  if (fields.chunked && line.httpVersion === '1.0') return 'Transfer-Encoding in an HTTP/1.0 response';
  if (line.status === 101) return 'an unasked-for protocol switch (101)';
  if (line.status >= 200) return undefined;
  if (line.httpVersion === '1.0') return 'an interim response in HTTP/1.0';
  if (fields.chunked || fields.contentLength !== undefined) return 'an interim response with a body header';
  return fields.close ? 'an interim response that announces the close' : undefined;
}

function keepAliveLimits(value: string): { keepAliveMs?: number; keepAliveMax?: number } {
  const timeout = /(?:^|[,\s])timeout\s*=\s*"?([0-9]{1,9})(?![0-9])/i.exec(value)?.[1];
  const max = /(?:^|[,\s])max\s*=\s*"?([0-9]{1,9})(?![0-9])/i.exec(value)?.[1];
  return {
    ...(timeout === undefined ? {} : { keepAliveMs: Number(timeout) * 1000 }),
    ...(max === undefined ? {} : { keepAliveMax: Number(max) }),
  };
}
