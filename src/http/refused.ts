/** Requests that broke HTTP, or came too late, after their head had been taken in: what the listener said, for their record. */
import type { ServerResponse } from 'node:http';
import type { ClientRefused } from '../platform/client-port.ts';

const refused = new WeakMap<ServerResponse, ClientRefused>();

export function noteRefused(outgoing: ServerResponse, what: ClientRefused): void {
  refused.set(outgoing, what);
}

export function refusedWith(outgoing: ServerResponse): ClientRefused | undefined {
  return refused.get(outgoing);
}
