/** A client in memory: keeps what it is given, and leaves when a test says so. */
import type { ClientFraming, ClientPort } from '../../src/platform/client-port.ts';

export interface KeptHead {
  readonly status: number;
  readonly headers: readonly string[];
  readonly framing: ClientFraming;
}

export class TestClient implements ClientPort {
  takesChunks = true;
  gone = false;
  bufferedBytes = 0;
  heads: KeptHead[] = [];
  /** As written: chunks with their framing. */
  written: Buffer[] = [];
  how: 'open' | 'ended' | 'cut' = 'open';
  #leaving: (() => void) | undefined;

  onGone(listener: () => void): void {
    this.#leaving = listener;
  }

  onDrain(): void {}

  head(status: number, _reason: string, headers: readonly string[], framing: ClientFraming): void {
    this.heads.push({ status, headers, framing });
  }

  cork(): void {}
  uncork(): void {}

  writeChunks(wire: Buffer): boolean {
    this.written.push(Buffer.from(wire));
    return true;
  }

  write(payload: Buffer): boolean {
    this.written.push(Buffer.from(payload));
    return true;
  }

  end(): void {
    this.how = 'ended';
  }

  cut(): void {
    this.how = 'cut';
  }

  leave(): void {
    this.gone = true;
    this.#leaving?.();
  }

  get text(): string {
    return Buffer.concat(this.written).toString();
  }

  header(name: string): string | undefined {
    const { headers = [] } = this.heads[0] ?? {};
    for (let i = 0; i + 1 < headers.length; i += 2) if (headers[i]?.toLowerCase() === name) return headers[i + 1];
    return undefined;
  }
}
