/**
 * Connections that wait for a next request: last in, first out, bounded per target and in all, none past its server's limit.
 * Must not know sockets: what it holds can be discarded, and tells the pool itself when it died.
 */
import type { Clock, Timer } from '../clock.ts';
import type { UpstreamSettings } from './settings.ts';

export interface Idle {
  /** Closes it at once; it calls `remove` in turn. */
  discard(): void;
}

export interface IdlePool<T extends Idle> {
  /** The connection that was put last, unless its time is over. */
  take(key: string): T | undefined;
  /** Keeps it for `idleMs`; the oldest go when there are too many. */
  put(key: string, connection: T, idleMs: number): void;
  /** It died or was discarded. Unknown ones are ignored. */
  remove(connection: T): void;
  readonly size: number;
  discardAll(): void;
}

interface Entry<T> {
  readonly connection: T;
  readonly key: string;
  readonly expiresMs: number;
}

export function createIdlePool<T extends Idle>(settings: UpstreamSettings, clock: Clock): IdlePool<T> {
  /** All of them, oldest first. */
  const entries = new Map<T, Entry<T>>();
  const stacks = new Map<string, Entry<T>[]>();
  let young: Entry<T>[] = [];
  let settling: Entry<T>[] = [];
  let turning = false;
  let sweep: { readonly atMs: number; readonly timer: Timer } | undefined;

  /**
   * A connection can be taken only after the event loop has looked at its socket once more: bytes or a FIN that came
   * right behind the last answer are then seen here, and not taken for the next answer.
   */
  function turn(): void {
    for (const entry of settling) if (entries.get(entry.connection) === entry) stack(entry);
    settling = young;
    young = [];
    turning = settling.length > 0;
    if (turning) setImmediate(turn);
  }

  function stack(entry: Entry<T>): void {
    const stacked = stacks.get(entry.key);
    if (stacked === undefined) {
      stacks.set(entry.key, [entry]);
      return;
    }
    stacked.push(entry);
    if (stacked.length > settings.maxIdlePerTarget) stacked[0]?.connection.discard();
  }

  function arm(atMs: number): void {
    if (sweep !== undefined && sweep.atMs <= atMs) return;
    sweep?.timer.cancel();
    sweep = { atMs, timer: clock.timer(atMs - clock.nowMs(), sweepExpired) };
  }

  function sweepExpired(): void {
    sweep = undefined;
    const nowMs = clock.nowMs();
    let nextMs = Infinity;
    for (const { connection, expiresMs } of [...entries.values()]) {
      if (expiresMs <= nowMs) connection.discard();
      else nextMs = Math.min(nextMs, expiresMs);
    }
    if (nextMs < Infinity) arm(nextMs);
  }

  function remove(connection: T): void {
    const entry = entries.get(connection);
    if (entry === undefined) return;
    entries.delete(connection);
    const stacked = stacks.get(entry.key);
    const index = stacked?.lastIndexOf(entry) ?? -1;
    if (index >= 0) stacked?.splice(index, 1);
    if (stacked?.length === 0) stacks.delete(entry.key);
  }

  return {
    take(key) {
      const nowMs = clock.nowMs();
      for (let entry = stacks.get(key)?.at(-1); entry !== undefined; entry = stacks.get(key)?.at(-1)) {
        remove(entry.connection);
        if (entry.expiresMs > nowMs) return entry.connection;
        entry.connection.discard();
      }
      return undefined;
    },
    put(key, connection, idleMs) {
      if (settings.maxIdlePerTarget === 0 || settings.maxIdleTotal === 0) {
        connection.discard();
        return;
      }
      const entry = { connection, key, expiresMs: clock.nowMs() + idleMs };
      entries.set(connection, entry);
      young.push(entry);
      if (!turning) setImmediate(turn);
      turning = true;
      arm(entry.expiresMs);
      if (entries.size > settings.maxIdleTotal) entries.keys().next().value?.discard();
    },
    remove,
    get size() {
      return entries.size;
    },
    discardAll() {
      for (const connection of [...entries.keys()]) connection.discard();
      sweep?.timer.cancel();
      sweep = undefined;
    },
  };
}
