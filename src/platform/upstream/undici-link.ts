/**
 * One connection of the undici path: one undici `Client`, opened on its first exchange and never opened again.
 */
import type { LookupFunction } from 'node:net';
import { buildConnector, Client } from 'undici';
import type { Idle } from './idle-pool.ts';
import type { UpstreamTarget } from './port.ts';
import type { UpstreamSettings } from './settings.ts';

export interface LinkOwner {
  released(link: UndiciLink): void;
  gone(link: UndiciLink): void;
}

interface LinkOptions {
  readonly settings: UpstreamSettings;
  readonly lookup: LookupFunction | undefined;
  readonly connectTimeoutMs: number;
}

export class UndiciLink implements Idle {
  readonly key: string;
  readonly client: Client;
  address: string;
  exchanges = 0;
  readonly #owner: LinkOwner;
  #gone = false;

  constructor(key: string, target: UpstreamTarget, owner: LinkOwner, options: LinkOptions) {
    this.key = key;
    this.#owner = owner;
    this.address = target.authority;
    const { settings, lookup, connectTimeoutMs } = options;
    const connect = buildConnector({
      timeout: connectTimeoutMs,
      autoSelectFamily: true,
      rejectUnauthorized: target.tls?.verify ?? true,
      ...(lookup === undefined ? {} : { lookup }),
      ...(target.tls?.ca === undefined ? {} : { ca: target.tls.ca }),
      ...(target.tls?.serverName === undefined ? {} : { servername: target.tls.serverName }),
    });
    this.client = new Client(originOf(target), {
      pipelining: 1,
      headersTimeout: 0,
      bodyTimeout: 0,
      keepAliveTimeout: settings.idleMs,
      keepAliveMaxTimeout: settings.maxIdleMs,
      keepAliveTimeoutThreshold: 1000,
      maxHeaderSize: 64 * 1024,
      allowH2: false,
      connect: (where, done) =>
        connect(where, (error, socket) => {
          if (error !== null) return done(error, null);
          const { remoteAddress, remotePort } = socket;
          if (remoteAddress !== undefined) this.address = hostAndPort(remoteAddress, remotePort);
          return done(null, socket);
        }),
    });
    this.client.on('disconnect', () => this.discard());
  }

  get connected(): boolean {
    return !this.#gone && this.client.stats.connected;
  }

  release(): void {
    if (!this.#gone) this.#owner.released(this);
  }

  discard(): void {
    if (this.#gone) return;
    this.#gone = true;
    this.#owner.gone(this);
    // Not inside one of undici's own calls, which its state does not survive.
    process.nextTick(() => void this.client.destroy());
  }
}

function originOf(target: UpstreamTarget): string {
  return `${target.secure ? 'https' : 'http'}://${hostAndPort(target.host, target.port)}`;
}

function hostAndPort(host: string, port: number | undefined): string {
  return host.includes(':') ? `[${host}]:${port}` : `${host}:${port}`;
}
