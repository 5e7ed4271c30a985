/**
 * Headers towards the client: as the backend sent them, less the hop-by-hop ones, plus what keeps a stream from being
 * buffered on its way. The framing is written by the client port.
 */
import type { ClientFraming } from '../platform/client-port.ts';
import { lowerName } from '../platform/header-name.ts';
import type { UpstreamHead } from '../platform/upstream/port.ts';
import { connectionNames, isHopByHop } from './request-head.ts';

/** @returns raw names and values in turn; Content-Length only where it tells of a body that isn't sent (HEAD, 304) */
export function clientHeaders(head: UpstreamHead, stream: boolean, requestId: string): string[] {
  const nominated = connectionNames(head.rawHeaders);
  const headers: string[] = [];
  let cacheControl: string | undefined;
  let unbuffered = false;
  let hasRequestId = false;
  for (let i = 0; i + 1 < head.rawHeaders.length; i += 2) {
    const name = head.rawHeaders[i] ?? '';
    const value = head.rawHeaders[i + 1] ?? '';
    const key = lowerName(name);
    if (isHopByHop(key) || nominated.has(key)) continue;
    if (key === 'content-length' && (head.framing !== 'none' || head.status === 204)) continue;
    if (stream && key === 'cache-control') {
      cacheControl = cacheControl === undefined ? value : `${cacheControl}, ${value}`;
      continue;
    }
    if (key === 'x-accel-buffering') unbuffered = true;
    if (key === 'x-request-id') hasRequestId = true;
    headers.push(name, value);
  }
  if (!hasRequestId) headers.push('X-Request-Id', requestId);
  if (stream) {
    headers.push('Cache-Control', untransformed(cacheControl));
    if (!unbuffered) headers.push('X-Accel-Buffering', 'no');
  }
  headers.push('Via', `${head.httpVersion} warmlane`);
  return headers;
}

function untransformed(cacheControl: string | undefined): string {
  if (cacheControl === undefined || cacheControl.trim() === '') return 'no-cache, no-transform';
  return /\bno-transform\b/i.test(cacheControl) ? cacheControl : `${cacheControl}, no-transform`;
}

/** How the client is told the answer's end. @param altered the body's length will not be what the backend said */
export function framingFor(head: UpstreamHead, altered: boolean): ClientFraming {
  if (head.framing === 'none') return { kind: 'none' };
  const known = head.framing === 'length' && !altered ? head.contentLength : undefined;
  return known === undefined ? { kind: 'stream' } : { kind: 'length', bytes: known };
}

/** First value of a header of the answer, by lower-case name. */
export function answerHeader(head: UpstreamHead, name: string): string | undefined {
  for (let i = 0; i + 1 < head.rawHeaders.length; i += 2) {
    if (lowerName(head.rawHeaders[i] ?? '') === name) return head.rawHeaders[i + 1];
  }
  return undefined;
}

export type Medium = 'sse' | 'ndjson' | 'json' | 'opaque' | 'untold';

/** What the answer says it is; `untold` without a content type. */
export function mediumOf(head: UpstreamHead): Medium {
  const type = answerHeader(head, 'content-type');
  if (type === undefined) return 'untold';
  // As nearly every engine writes it.
  if (type === 'application/json') return 'json';
  switch ((type.split(';', 1)[0] ?? '').trim().toLowerCase()) {
    case 'text/event-stream':
      return 'sse';
    case 'application/x-ndjson':
    case 'application/ndjson':
    case 'application/jsonl':
      return 'ndjson';
    case 'application/json':
      return 'json';
    default:
      return 'opaque';
  }
}

/** What the first bytes of a body look like, where the head doesn't say or says something else (C060, C104). */
export function mediumOfBytes(bytes: Buffer, start: number, end: number): Medium {
  const first = bytes[start];
  if (first === 0x7b) return 'json';
  const text = bytes.toString('latin1', start, Math.min(end, start + 6));
  return first === 0x3a || /^(data|event|id|retry):/.test(text) ? 'sse' : 'opaque';
}
