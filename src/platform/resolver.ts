/**
 * Names to addresses. The real one asks as the system does (hosts file, search domains), so that a name means here what it
 * means to any other program; SRV records, which that way doesn't know, are asked of the name server itself.
 */
import { promises as dns } from 'node:dns';

export interface HostAddress {
  readonly address: string;
  readonly family: 4 | 6;
}

export interface SrvRecord {
  readonly host: string;
  readonly port: number;
}

export interface Resolver {
  /** @throws the system's error, with a `code` */
  addresses(host: string): Promise<readonly HostAddress[]>;
  /** @throws likewise */
  services(name: string): Promise<readonly SrvRecord[]>;
}

export const systemResolver: Resolver = {
  async addresses(host) {
    const found = await dns.lookup(host, { all: true });
    return found.map(({ address, family }) => ({ address, family: family === 6 ? 6 : 4 }));
  },
  async services(name) {
    const found = await dns.resolveSrv(name);
    return found.map(({ name: host, port }) => ({ host, port }));
  },
};
