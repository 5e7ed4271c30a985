/**
 * The upstream port on undici's low-level dispatch: the other voice in the differential tests, and the path that a config
 * can choose. One undici `Client` is one connection, so that reuse is known and the idle pool is the same as the own client's.
 * Payload comes without its wire framing, so no read is ever `verbatim`; undici does not tell the HTTP version (1.1 is said).
 */
import type { LookupFunction } from 'node:net';
import { type Clock, systemClock } from '../clock.ts';
import { createIdlePool } from './idle-pool.ts';
import type { UpstreamClient, UpstreamTarget } from './port.ts';
import { requestText } from './request-text.ts';
import { type UpstreamSettings, upstreamDefaults } from './settings.ts';
import { targetKey } from './target.ts';
import { UndiciExchange } from './undici-exchange.ts';
import { type LinkOwner, UndiciLink } from './undici-link.ts';

interface UndiciDeps {
  readonly clock: Clock;
  readonly lookup?: LookupFunction;
}

export function createUndiciClient(
  settings: UpstreamSettings = upstreamDefaults,
  deps: UndiciDeps = { clock: systemClock },
): UpstreamClient {
  const pool = createIdlePool<UndiciLink>(settings, deps.clock);
  const busy = new Set<UndiciLink>();
  let closed = false;

  const owner: LinkOwner = {
    released(link) {
      busy.delete(link);
      if (closed) link.discard();
      else pool.put(link.key, link, settings.maxIdleMs);
    },
    gone(link) {
      busy.delete(link);
      pool.remove(link);
    },
  };

  function take(key: string): UndiciLink | undefined {
    let link = pool.take(key);
    while (link !== undefined && !link.connected) {
      link.discard();
      link = pool.take(key);
    }
    return link;
  }

  function begin(exchange: UndiciExchange, target: UpstreamTarget): void {
    if (exchange.over) return;
    const key = targetKey(target);
    const link =
      (exchange.fresh ? undefined : take(key)) ??
      new UndiciLink(key, target, owner, {
        settings,
        lookup: deps.lookup,
        connectTimeoutMs: exchange.request.connectTimeoutMs,
      });
    busy.add(link);
    exchange.start(link);
  }

  return {
    open(target, request, handler) {
      // Written by undici itself; built here for its checks alone.
      requestText(target, request);
      const exchange = new UndiciExchange(target, request, handler, begin);
      process.nextTick(begin, exchange, target);
      return exchange;
    },
    stats: () => ({ idle: pool.size, busy: busy.size }),
    close() {
      closed = true;
      pool.discardAll();
    },
  };
}
