/**
 * Which Host a request to the admin listener may name. On loopback the listener is there for this machine alone, but a page
 * in its browser could reach it by a name of its own that it lets resolve to loopback (DNS rebinding): such a request still
 * names the page's host. Pure.
 */
import { isIP, isIPv4 } from 'node:net';

export interface ListeningOn {
  /** As the configuration names it. */
  readonly host: string;
  /** As the system bound it. */
  readonly address: string;
  /** Where clients are served; told to who comes to the admin listener with their requests. */
  readonly clientPort?: number;
}

/**
 * @param host value of the Host header, undefined when there was none (HTTP/1.0; no browser leaves it out)
 * @returns true on an address that isn't loopback, whatever the Host
 */
export function mayName(host: string | undefined, on: ListeningOn): boolean {
  if (host === undefined || !isLoopback(on.address)) return true;
  const name = nameOf(host);
  return isLoopback(name) || name === on.host.toLowerCase();
}

/**
 * A page that names this host can't have come here by a name of its own: nobody lets an address, or our own name, resolve to
 * something else.
 */
export function isFixedHost(host: string | undefined, on: ListeningOn): boolean {
  const name = nameOf(host ?? '');
  return name === 'localhost' || isIP(name) !== 0 || name === on.host.toLowerCase();
}

/** @param name a host name or an address, in lower case, without brackets */
export function isLoopback(name: string): boolean {
  if (name === 'localhost' || name === '::1') return true;
  const four = name.startsWith('::ffff:') ? name.slice('::ffff:'.length) : name;
  return isIPv4(four) && four.startsWith('127.');
}

/** Without port and brackets. */
function nameOf(host: string): string {
  const [, bracketed, plain] = /^(?:\[([^\]]*)\]|([^:]*))(?::\d*)?$/.exec(host) ?? [];
  return (bracketed ?? plain ?? '').toLowerCase();
}
