/**
 * What is thrown inside a relay is a bug, and must end that relay's request alone (rule 4): an error that escaped into a
 * socket's callback or the common timer would leave the request, its place and its connection behind for ever.
 */
import type { BodyRead, UpstreamFault, UpstreamHandler, UpstreamHead } from '../platform/upstream/port.ts';
import type { Ticked } from './ticker.ts';

/** A class, since `body` runs once per token: its calls cost no closure and no argument list. */
class Guarded implements UpstreamHandler, Ticked {
  readonly #handler: UpstreamHandler & Ticked;
  readonly #broke: (error: unknown) => void;

  constructor(handler: UpstreamHandler & Ticked, broke: (error: unknown) => void) {
    this.#handler = handler;
    this.#broke = broke;
  }

  connected(info: { readonly reused: boolean; readonly address: string }): void {
    try {
      this.#handler.connected(info);
    } catch (error) {
      this.#broke(error);
    }
  }

  sent(): void {
    try {
      this.#handler.sent();
    } catch (error) {
      this.#broke(error);
    }
  }

  head(head: UpstreamHead): void {
    try {
      this.#handler.head(head);
    } catch (error) {
      this.#broke(error);
    }
  }

  body(read: BodyRead): void {
    try {
      this.#handler.body(read);
    } catch (error) {
      this.#broke(error);
    }
  }

  end(trailers: readonly string[]): void {
    try {
      this.#handler.end(trailers);
    } catch (error) {
      this.#broke(error);
    }
  }

  fault(fault: UpstreamFault): void {
    try {
      this.#handler.fault(fault);
    } catch (error) {
      this.#broke(error);
    }
  }

  tick(nowMs: number): void {
    try {
      this.#handler.tick(nowMs);
    } catch (error) {
      this.#broke(error);
    }
  }
}

/** @param broke told of an error; the handler is not to be called again */
export function guarded(handler: UpstreamHandler & Ticked, broke: (error: unknown) => void): UpstreamHandler & Ticked {
  return new Guarded(handler, broke);
}

/** The same call, its error told to `broke`. */
export function guard(call: () => void, broke: (error: unknown) => void): () => void {
  return () => {
    try {
      call();
    } catch (error) {
      broke(error);
    }
  };
}
