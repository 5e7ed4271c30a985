/**
 * The client's side of a request that warmlane makes itself and whose answer it wants: every byte is handed to an ear in the turn
 * that it comes. Takes all at once, so it is never slow; whoever listens bounds what is kept.
 */
import type { OwnClient } from './own-client.ts';

export interface Ear {
  /** @param rawHeaders names and values in turn */
  head(status: number, rawHeaders: readonly string[]): void;
  /** Good only during the call. */
  data(chunk: Buffer): void;
}

export interface ListeningClient extends OwnClient {
  /** `ended`: the answer came to its own end; `cut`: it was broken off */
  readonly how: 'open' | 'ended' | 'cut';
}

export function createListeningClient(ear: Ear): ListeningClient {
  return new Listener(ear);
}

class Listener implements ListeningClient {
  readonly takesChunks = false;
  readonly bufferedBytes = 0;
  gone = false;
  how: 'open' | 'ended' | 'cut' = 'open';
  readonly #ear: Ear;
  #leaving: (() => void) | undefined;

  constructor(ear: Ear) {
    this.#ear = ear;
  }

  onGone(listener: () => void): void {
    this.#leaving = listener;
    if (this.gone) listener();
  }

  onDrain(): void {}

  head(status: number, _reason: string, rawHeaders: readonly string[]): void {
    this.#ear.head(status, rawHeaders);
  }

  cork(): void {}
  uncork(): void {}

  /** Never called: it takes no chunks. */
  writeChunks(): boolean {
    return true;
  }

  write(payload: Buffer): boolean {
    if (!this.gone) this.#ear.data(payload);
    return true;
  }

  end(): void {
    if (this.how === 'open') this.how = 'ended';
  }

  cut(): void {
    if (this.how === 'open') this.how = 'cut';
  }

  leave(): void {
    if (this.gone || this.how !== 'open') return;
    this.gone = true;
    this.#leaving?.();
  }
}
