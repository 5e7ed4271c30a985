/**
 * What is thrown inside a relay is a bug, and must end that relay's request alone (rule 4): an error that escaped into a
 * socket's callback or the common timer would leave the request, its place and its connection behind for ever.
 */
import type { UpstreamHandler } from '../platform/upstream/port.ts';
import type { Ticked } from './ticker.ts';

/** @param broke told of an error; the handler is not to be called again */
export function guarded(handler: UpstreamHandler & Ticked, broke: (error: unknown) => void): UpstreamHandler & Ticked {
  return {
    connected: guard((info) => handler.connected(info), broke),
    sent: guard(() => handler.sent(), broke),
    head: guard((head) => handler.head(head), broke),
    body: guard((read) => handler.body(read), broke),
    end: guard((trailers) => handler.end(trailers), broke),
    fault: guard((fault) => handler.fault(fault), broke),
    tick: guard((nowMs) => handler.tick(nowMs), broke),
  };
}

/** The same call, its error told to `broke`. */
export function guard<T extends readonly unknown[]>(
  call: (...args: T) => void,
  broke: (error: unknown) => void,
): (...args: T) => void {
  return (...args) => {
    try {
      call(...args);
    } catch (error) {
      broke(error);
    }
  };
}
