/**
 * The head of a request as it goes over the wire. Pure. Writes Host and the framing fields itself and lets nothing through
 * that could end a line: a caller that tries has a bug, so it throws.
 */
import type { UpstreamRequest, UpstreamTarget } from './port.ts';

const tokenForm = /^[!#$%&'*+\-.^_`|~0-9A-Za-z]+$/;
/** Anything that a field value can't hold, characters above 0xff among them: latin1 would turn U+010A into a newline. */
const badInValue = /[^\t\x20-\x7e\x80-\xff]/;
const badInTarget = /[^\x21-\x7e\x80-\xff]/;
const ownFields: ReadonlySet<string> = new Set([
  'host',
  'connection',
  'content-length',
  'transfer-encoding',
  'expect',
  'upgrade',
]);

/** Names that were found to be in order: the same few come with every request. Bounded, since clients make up names. */
let written = new Set<string>();
const mostWritten = 512;

function mayBeWritten(name: string): boolean {
  if (written.has(name)) return true;
  if (!tokenForm.test(name) || ownFields.has(name.toLowerCase())) return false;
  if (written.size >= mostWritten) written = new Set();
  if (name.length <= 64) written.add(name);
  return true;
}

/** @throws RangeError when the request can't be written without changing its meaning */
export function requestText(target: UpstreamTarget, request: UpstreamRequest): string {
  const { method, headers } = request;
  if (!tokenForm.test(method) || method === 'CONNECT') throw new RangeError('invalid request method');
  if (request.target === '' || badInTarget.test(request.target)) throw new RangeError('invalid request target');
  if (headers.length % 2 !== 0) throw new RangeError('a header name without a value');
  let text = `${method} ${request.target} HTTP/1.1\r\nHost: ${target.authority}\r\nConnection: keep-alive\r\n`;
  for (let i = 0; i < headers.length; i += 2) {
    const name = headers[i] ?? '';
    const value = headers[i + 1] ?? '';
    if (!mayBeWritten(name)) {
      throw new RangeError(`header name not allowed: ${JSON.stringify(name)}`);
    }
    if (badInValue.test(value)) throw new RangeError(`invalid value of the header ${name}`);
    text += `${name}: ${value}\r\n`;
  }
  return `${text}${framingField(request)}\r\n`;
}

function framingField({ method, body }: UpstreamRequest): string {
  switch (body.kind) {
    case 'none':
      return method === 'POST' || method === 'PUT' || method === 'PATCH' ? 'Content-Length: 0\r\n' : '';
    case 'held':
      if (body.chunks.reduce((sum, chunk) => sum + chunk.length, 0) !== body.bytes) {
        throw new RangeError('held body and its length differ');
      }
      return `Content-Length: ${body.bytes}\r\n`;
    case 'stream':
      return body.bytes === undefined ? 'Transfer-Encoding: chunked\r\n' : `Content-Length: ${body.bytes}\r\n`;
  }
}
