/**
 * Addresses as people write them: where to listen, and where a backend is. Pure; no name is looked up here.
 * Messages never repeat a backend's URL, which may hold a password; a bare host and port is shown.
 */
import { isIP, isIPv4, isIPv6 } from 'node:net';

import type { ListenSettings } from '../http/settings.ts';

export type Parsed<T> = { readonly ok: true; readonly value: T } | { readonly ok: false; readonly message: string };

const listenForms = 'write host:port, [ipv6]:port, :port (every IPv4 address) or a bare port (127.0.0.1)';

/**
 * `127.0.0.1:8484`, `localhost:8484`, `[::1]:8484`, `:8484`, `8484`. Port 0 asks the system for a free one.
 * `:8484` means 0.0.0.0: unlike `::` it works where IPv6 is switched off. A bare port stays on loopback, as the default does.
 */
export function parseListen(written: string | number): Parsed<ListenSettings> {
  const text = String(written).trim();
  if (/^\d+$/.test(text)) return withPort('127.0.0.1', text);
  if (text.includes('://')) return { ok: false, message: `an address to listen on has no scheme; ${listenForms}` };
  const bracketed = /^\[([^\]]*)\]:(\d+)$/.exec(text);
  if (bracketed) {
    const host = bracketed[1] ?? '';
    if (!isIPv6(host)) return { ok: false, message: 'what stands in [ ] is no IPv6 address' };
    return withPort(host, bracketed[2] ?? '');
  }
  if (isIPv6(text) || text.split(':').length > 2) {
    return { ok: false, message: 'an IPv6 address stands in brackets and quotes: "[::1]:8484"' };
  }
  const [host = '', port] = text.split(':');
  if (port === undefined || port === '') return { ok: false, message: `the port is missing; ${listenForms}` };
  if (host === '' || host === '*') return withPort('0.0.0.0', port);
  if (!isHost(host)) return { ok: false, message: `the host is no name and no address; ${listenForms}` };
  return withPort(host, port);
}

function withPort(host: string, port: string): Parsed<ListenSettings> {
  const value = /^\d{1,5}$/.test(port) ? Number(port) : Number.NaN;
  if (!(value <= 65_535))
    return { ok: false, message: 'the port must be a whole number from 0 (any free one) to 65535' };
  return { ok: true, value: { host, port: value } };
}

function isHost(host: string): boolean {
  if (/^[\d.]+$/.test(host)) return isIPv4(host);
  return host.length <= 253 && /^[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?$/.test(host);
}

/** True for addresses that only this machine reaches. */
export function isLoopback(host: string): boolean {
  return host === 'localhost' || host === '::1' || (isIPv4(host) && host.startsWith('127.'));
}

/** An `http(s)` origin with an optional path prefix; the result has no slash at its end. */
export function parseBackendUrl(text: string): Parsed<string> {
  const no = (message: string): Parsed<string> => ({ ok: false, message });
  // URL would silently drop blanks at the ends and line ends within.
  if (/[\s\p{Cc}]/u.test(text)) return no('a URL has no blanks');
  const scheme = /^([A-Za-z][A-Za-z0-9+.-]*):\/\//.exec(text)?.[1]?.toLowerCase();
  if (scheme === undefined) {
    const bare = /^((?:[A-Za-z0-9][A-Za-z0-9.-]*|\[[0-9A-Fa-f:.]+\]):\d{1,5})(?:\/[^@]*)?$/.exec(text)?.[1];
    return no(`the URL must begin with http:// or https://${bare === undefined ? '' : `; write http://${bare}`}`);
  }
  if (scheme !== 'http' && scheme !== 'https') return no(`the scheme must be http or https, not ${scheme}`);
  let url: URL;
  try {
    url = new URL(text);
  } catch {
    return no('this is no URL; write for example http://127.0.0.1:8000');
  }
  if (url.username !== '' || url.password !== '' || /^https?:\/\/[^/?#]*@/i.test(text)) {
    return no('a URL must hold no user or password; put the key under apiKey');
  }
  if (text.includes('?')) return no('a backend URL has no query (?…)');
  if (text.includes('#')) return no('a backend URL has no fragment (#…)');
  const prefix = url.pathname.replace(/\/+$/, '');
  const apiPath = apiPathAtEnd.exec(prefix)?.[0];
  if (apiPath !== undefined) {
    return no(`leave ${apiPath} off: the path of each request is appended as the client sent it`);
  }
  return { ok: true, value: `${url.origin}${prefix}` };
}

/** What people copy from a client's settings or a curl line. */
const apiPathAtEnd =
  /\/v1(\/(chat\/completions|completions|responses|messages|embeddings|rerank|models))?$|(\/chat)?\/completions$|\/api\/(chat|generate|tags)$|\/(health|metrics|props|slots)$/;

/** True when a request to that URL would come back to this listener, as far as the texts tell. */
export function isOwnAddress(url: string, { host, port }: ListenSettings): boolean {
  const at = hostPort(url);
  const theirs = at.slice(0, at.lastIndexOf(':')).replace(/^\[|\]$/g, '');
  if (port === 0 || at.slice(at.lastIndexOf(':') + 1) !== String(port)) return false;
  if (theirs === host.toLowerCase()) return true;
  if (!isLoopback(theirs)) return false;
  return (
    host === '::' ||
    (host === '0.0.0.0' && theirs !== '::1') ||
    (isLoopback(host) && [host, theirs].includes('localhost'))
  );
}

/** `host:port` of a URL that `parseBackendUrl` let through, the scheme's own port spelled out. */
export function hostPort(url: string): string {
  const { hostname, port, protocol } = new URL(url);
  return `${hostname}:${port === '' ? (protocol === 'https:' ? '443' : '80') : port}`;
}

/** A name that may stand in SNI (RFC 6066: never an address). */
export function isServerName(name: string): boolean {
  return isIP(name) === 0 && isHost(name);
}
