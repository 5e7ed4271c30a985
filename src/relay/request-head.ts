/**
 * Headers towards the backend: end-to-end ones as they came, hop-by-hop ones dropped (RFC 9110, 7.6.1),
 * the proxy's own added (`Via`, `Forwarded`, `X-Forwarded-*`, request id). Framing and Host belong to the upstream client.
 */
import type { Engine, Lane } from '../domain/names.ts';
import type { TraceHeaders } from '../domain/trace.ts';
import type { ClientHead } from '../platform/client-port.ts';
import { lowerName } from '../platform/header-name.ts';
import { isTraceHeader } from '../platform/trace-context.ts';

export interface RequestHeadOptions {
  readonly engine: Engine;
  /** The answer must be readable, so no encoding is offered to the backend. */
  readonly measured: boolean;
  readonly passConversationId: boolean;
  /** Backend's key, used when the client sent no credentials, or none that are for the backend. */
  readonly apiKey?: string | undefined;
  /** Headers of the client's that stay here, lower case: its key is warmlane's. */
  readonly dropped?: ReadonlySet<string> | undefined;
  /** The engine is told whom to take first. What the client says of that stays here in any case. */
  readonly lane?: Lane | undefined;
  /** In place of the client's own; without it those pass as they came. */
  readonly trace?: TraceHeaders | undefined;
}

/**
 * Overrules the body's field, so that nothing is spliced; a number, lower is sooner. Heeded under `--scheduling-policy priority`
 * alone. A client's own is taken out on its way to any engine: what is not known for vLLM may be one all the same.
 */
const priorityHeader = 'x-vllm-priority';

const hopByHop = new Set([
  'connection',
  'keep-alive',
  'proxy-connection',
  'proxy-authenticate',
  'proxy-authorization',
  'te',
  'trailer',
  'transfer-encoding',
  'upgrade',
]);

/** Written anew by us or by the upstream client. */
const replaced = new Set([
  'host',
  'content-length',
  'expect',
  'via',
  'forwarded',
  'x-forwarded-for',
  'x-forwarded-host',
  'x-forwarded-proto',
  'x-request-id',
  priorityHeader,
]);

const vllmPriority: Readonly<Record<Lane, string>> = { online: '0', batch: '10' };

const noNames: ReadonlySet<string> = new Set();

/** Names that a `Connection` header declares to be hop-by-hop and that aren't so by themselves, lower case. */
export function connectionNames(rawHeaders: readonly string[]): ReadonlySet<string> {
  let names: Set<string> | undefined;
  for (let i = 0; i + 1 < rawHeaders.length; i += 2) {
    if (lowerName(rawHeaders[i] ?? '') !== 'connection') continue;
    const value = rawHeaders[i + 1] ?? '';
    // What nearly every connection says names a header that is hop-by-hop anyway.
    if (value === 'keep-alive') continue;
    names ??= new Set();
    for (const name of value.split(',')) names.add(name.trim().toLowerCase());
  }
  return names ?? noNames;
}

export function isHopByHop(name: string): boolean {
  return hopByHop.has(name);
}

/** @returns raw names and values in turn, ready for `UpstreamRequest.headers` */
export function upstreamHeaders(head: ClientHead, options: RequestHeadOptions): string[] {
  const nominated = connectionNames(head.rawHeaders);
  const { dropped } = options;
  const headers: string[] = [];
  for (let i = 0; i + 1 < head.rawHeaders.length; i += 2) {
    const name = head.rawHeaders[i] ?? '';
    const key = lowerName(name);
    if (hopByHop.has(key) || replaced.has(key) || nominated.has(key)) continue;
    if (dropped !== undefined && dropped.has(key)) continue;
    if (key === 'accept-encoding' && options.measured) continue;
    if (key === 'x-conversation-id' && options.engine === 'llama-server' && !options.passConversationId) continue;
    if (options.trace !== undefined && isTraceHeader(key)) continue;
    headers.push(name, head.rawHeaders[i + 1] ?? '');
  }
  if (options.trace !== undefined) addTrace(headers, options.trace);
  headers.push('X-Request-Id', head.requestId);
  if (options.lane !== undefined && options.engine === 'vllm' && head.method === 'POST')
    headers.push('X-Vllm-Priority', vllmPriority[options.lane]);
  addForwarding(headers, head);
  const keyless =
    dropped !== undefined || (head.header('authorization') === undefined && head.header('x-api-key') === undefined);
  if (options.apiKey !== undefined && keyless) headers.push('Authorization', `Bearer ${options.apiKey}`);
  return headers;
}

/** More of us one behind another than anybody wants. */
const mostPassages = 8;

/** @param via the request's `Via` as it came */
export function isLoop(via: string | undefined): boolean {
  if (via === undefined) return false;
  return via.split(',').filter((hop) => hop.trim().endsWith(' warmlane')).length > mostPassages;
}

function addTrace(headers: string[], { traceparent, tracestate }: TraceHeaders): void {
  headers.push('traceparent', traceparent);
  if (tracestate !== undefined) headers.push('tracestate', tracestate);
}

function addForwarding(headers: string[], head: ClientHead): void {
  const proto = head.secure ? 'https' : 'http';
  const host = head.header('host');
  const address = head.remoteAddress;
  const node = address.includes(':') ? `"[${address}]"` : address;
  const element = `for=${node};proto=${proto}${host === undefined ? '' : `;host="${host.replaceAll(/["\\]/g, '')}"`}`;
  headers.push('Via', append(head.header('via'), `${head.httpVersion} warmlane`));
  headers.push('Forwarded', append(head.header('forwarded'), element));
  headers.push('X-Forwarded-For', append(head.header('x-forwarded-for'), address));
  headers.push('X-Forwarded-Proto', head.header('x-forwarded-proto') ?? proto);
  const forwardedHost = head.header('x-forwarded-host') ?? host;
  if (forwardedHost !== undefined) headers.push('X-Forwarded-Host', forwardedHost);
}

function append(list: string | undefined, item: string): string {
  return list === undefined || list === '' ? item : `${list}, ${item}`;
}
