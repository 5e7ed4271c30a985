/**
 * Cross-origin rules for browsers (https://fetch.spec.whatwg.org/#http-cors-protocol), off unless origins are configured.
 * On, every access-control-* header is warmlane's own: two owners make two headers, which browsers refuse. Pure.
 */

export interface CorsSettings {
  /** Origins that may read answers, or `*`; none: answers keep the headers that the backend gave them. */
  readonly origins: readonly string[];
}

/** What a request says of itself, by lower-case header name. */
export interface CorsRequest {
  readonly method: string;
  header(name: string): string | undefined;
}

/** Longest time that browsers keep the answer to a preflight: Chromium's two hours. */
const maxAgeSeconds = 7200;

/** The one value of Access-Control-Allow-Origin; undefined: none is sent. */
export function allowedOrigin({ origins }: CorsSettings, origin: string | undefined): string | undefined {
  if (origin === undefined) return undefined;
  if (origins.includes('*')) return '*';
  return origins.includes(origin) ? origin : undefined;
}

export function isPreflight(request: CorsRequest): boolean {
  const asks = request.header('origin') !== undefined && request.header('access-control-request-method') !== undefined;
  return request.method === 'OPTIONS' && asks;
}

/** Headers of the answer to a preflight; without an allowed origin the browser refuses the request. */
export function preflightHeaders(settings: CorsSettings, request: CorsRequest): string[] {
  const headers = ['Vary', 'Origin, Access-Control-Request-Method, Access-Control-Request-Headers'];
  const origin = allowedOrigin(settings, request.header('origin'));
  if (origin === undefined) return headers;
  headers.push('Access-Control-Allow-Origin', origin);
  headers.push('Access-Control-Allow-Methods', request.header('access-control-request-method') ?? '');
  const asked = request.header('access-control-request-headers');
  if (asked !== undefined && asked !== '') headers.push('Access-Control-Allow-Headers', asked);
  headers.push('Access-Control-Max-Age', String(maxAgeSeconds));
  return headers;
}

/** An answer's headers (names and values in turn) with warmlane's own in the place of all access-control-* ones. */
export function withOwnCors(
  rawHeaders: readonly string[],
  settings: CorsSettings,
  origin: string | undefined,
): string[] {
  const headers: string[] = [];
  let varies = false;
  for (let i = 0; i + 1 < rawHeaders.length; i += 2) {
    const name = rawHeaders[i] ?? '';
    const value = rawHeaders[i + 1] ?? '';
    const key = name.toLowerCase();
    if (key.startsWith('access-control-')) continue;
    if (key === 'vary') varies ||= value.split(',').some((item) => /^\s*(origin|\*)\s*$/i.test(item));
    headers.push(name, value);
  }
  const allowed = allowedOrigin(settings, origin);
  if (allowed !== undefined) headers.push('Access-Control-Allow-Origin', allowed, 'Access-Control-Expose-Headers', '*');
  if (!varies && !settings.origins.includes('*')) headers.push('Vary', 'Origin');
  return headers;
}
