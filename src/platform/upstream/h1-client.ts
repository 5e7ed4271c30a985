/**
 * The upstream client of warmlane: own HTTP/1.1 reader on plain sockets, a pool of idle connections per target.
 * Gives each exchange a connection and keeps account of all; the exchange itself happens in `h1-connection.ts`.
 */
import type { LookupFunction } from 'node:net';
import type { Clock } from '../clock.ts';
import { ReusedBodyRead } from './body-read.ts';
import { H1Connection, type ConnectionOwner } from './h1-connection.ts';
import { H1Exchange } from './h1-exchange.ts';
import { createIdlePool } from './idle-pool.ts';
import type { UpstreamClient, UpstreamTarget } from './port.ts';
import { requestText } from './request-text.ts';
import type { UpstreamSettings } from './settings.ts';
import { targetKey } from './target.ts';

interface UpstreamDeps {
  readonly clock: Clock;
  /** Name resolution other than the system's. */
  readonly lookup?: LookupFunction;
}

export function createH1Client(settings: UpstreamSettings, deps: UpstreamDeps): UpstreamClient {
  const pool = createIdlePool<H1Connection>(settings, deps.clock);
  let busy = 0;
  const keys = new WeakMap<UpstreamTarget, string>();
  let closed = false;

  const owner: ConnectionOwner = {
    clock: deps.clock,
    read: new ReusedBodyRead(),
    lookup: deps.lookup,
    idleMs: settings.idleMs,
    released(connection, idleMs) {
      busy -= 1;
      if (closed) connection.discard();
      else pool.put(connection.key, connection, Math.min(idleMs, settings.maxIdleMs));
    },
    gone(connection, wasBusy) {
      if (wasBusy) busy -= 1;
      pool.remove(connection);
    },
  };

  function keyOf(target: UpstreamTarget): string {
    let key = keys.get(target);
    if (key === undefined) {
      key = targetKey(target);
      keys.set(target, key);
    }
    return key;
  }

  function begin(exchange: H1Exchange): void {
    if (exchange.over) return;
    const key = keyOf(exchange.target);
    const pooled = exchange.fresh ? undefined : pool.take(key);
    const connection = pooled ?? new H1Connection(key, exchange.target, owner);
    busy += 1;
    connection.serve(exchange);
  }

  return {
    open(target, request, handler) {
      const exchange = new H1Exchange(target, request, handler, requestText(target, request));
      process.nextTick(begin, exchange);
      return exchange;
    },
    stats: () => ({ idle: pool.size, busy }),
    close() {
      closed = true;
      pool.discardAll();
    },
  };
}
