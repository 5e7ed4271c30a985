/**
 * Requests whose client waits for `100 Continue` before it sends the body (RFC 9110, 10.1.1). A final answer instead closes
 * the connection, which is Node's doing: nobody could know whether the body will still come.
 */
import type { IncomingMessage, ServerResponse } from 'node:http';

const waiting = new WeakSet<IncomingMessage>();

export function noteExpectation(incoming: IncomingMessage): void {
  waiting.add(incoming);
}

/** Tells the client to go on, if it waits for that. */
export function meetExpectation(incoming: IncomingMessage, outgoing: ServerResponse): void {
  if (waiting.delete(incoming)) outgoing.writeContinue();
}
