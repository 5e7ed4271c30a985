/**
 * Opens the socket of one connection: plain or TLS, both address families tried (C073), Nagle off.
 * Must not decide what is sent, nor when to give up: the connection does.
 */
import net from 'node:net';
import tls from 'node:tls';
import type { UpstreamTarget } from './port.ts';

interface DialOptions {
  /** For plain sockets: read without a fresh buffer each time. */
  readonly onread: net.OnReadOpts;
  /** Name resolution other than the system's. */
  readonly lookup: net.LookupFunction | undefined;
}

/** Backends that stay silent for minutes are probed by the kernel, so that a vanished host is noticed. */
const keepAliveDelayMs = 60_000;

export function dial(target: UpstreamTarget, options: DialOptions): net.Socket {
  const where = {
    host: target.host,
    port: target.port,
    noDelay: true,
    keepAlive: true,
    keepAliveInitialDelay: keepAliveDelayMs,
    autoSelectFamily: true,
    ...(options.lookup === undefined ? {} : { lookup: options.lookup }),
  };
  if (!target.secure) return net.connect({ ...where, onread: options.onread });
  const serverName = target.tls?.serverName ?? (net.isIP(target.host) === 0 ? target.host : undefined);
  return tls.connect({
    ...where,
    ALPNProtocols: ['http/1.1'],
    rejectUnauthorized: target.tls?.verify ?? true,
    ...(serverName === undefined ? {} : { servername: serverName }),
    ...secureContext(target.tls),
  });
}

/** Reading the authorities anew for each connection would cost milliseconds. */
const contexts = new WeakMap<object, tls.SecureContext>();

function secureContext(settings: UpstreamTarget['tls']): { secureContext?: tls.SecureContext } {
  if (settings?.ca === undefined) return {};
  let context = contexts.get(settings);
  if (context === undefined) {
    context = tls.createSecureContext({ ca: settings.ca });
    contexts.set(settings, context);
  }
  return { secureContext: context };
}
