/**
 * Pipelined requests wait for their turn without a socket, so Node tells their responses nothing of the connection's end:
 * without this their work would go on for nobody. One listener a connection, however many requests wait on it.
 */
import type { Socket } from 'node:net';

const waiting = new WeakMap<Socket, Set<() => void>>();

/** @returns ends the subscription */
export function onConnectionClosed(socket: Socket, closed: () => void): () => void {
  let all = waiting.get(socket);
  if (all === undefined) {
    const listeners = new Set<() => void>();
    socket.once('close', () => {
      for (const listener of listeners) listener();
    });
    waiting.set(socket, listeners);
    all = listeners;
  }
  const listeners = all;
  listeners.add(closed);
  return () => void listeners.delete(closed);
}
