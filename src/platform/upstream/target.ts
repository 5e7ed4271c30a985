/**
 * From a backend's URL to where its connections go and what its Host header says. Pure.
 */
import type { UpstreamTarget } from './port.ts';

export type ParsedTarget = UpstreamTarget & {
  /** Path of the URL without its last slash: '' or '/v1'. Stands before every request target. */
  readonly pathPrefix: string;
};

/**
 * @param url `http://` or `https://` origin, path prefix allowed
 * @throws RangeError for anything else, credentials, query and fragment included: the config has refused those before
 */
export function parseTarget(url: string, tls?: UpstreamTarget['tls']): ParsedTarget {
  const parsed = URL.canParse(url) ? new URL(url) : undefined;
  if (parsed === undefined || (parsed.protocol !== 'http:' && parsed.protocol !== 'https:') || parsed.hostname === '') {
    throw new RangeError(`not an http or https URL: ${JSON.stringify(url)}`);
  }
  if (parsed.username !== '' || parsed.password !== '') throw new RangeError('a backend URL must not hold credentials');
  if (parsed.search !== '' || parsed.hash !== '')
    throw new RangeError('a backend URL must not hold a query or fragment');
  const secure = parsed.protocol === 'https:';
  return {
    secure,
    host: parsed.hostname.replace(/^\[(.*)\]$/, '$1'),
    port: parsed.port === '' ? (secure ? 443 : 80) : Number(parsed.port),
    authority: parsed.host,
    pathPrefix: parsed.pathname.replace(/\/+$/, ''),
    ...(tls === undefined ? {} : { tls }),
  };
}

/** Connections to equal keys are interchangeable: same place, same trust. */
export function targetKey(target: UpstreamTarget): string {
  const { secure, host, port, authority, tls } = target;
  return JSON.stringify([secure, host, port, authority, tls?.verify ?? true, tls?.serverName ?? null, tls?.ca ?? null]);
}
