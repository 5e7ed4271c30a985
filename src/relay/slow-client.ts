/** A client that takes less than comes, while its stream waits for it. Decides nothing. */
export class SlowClient {
  #tookMs: number;
  #bufferedBytes: number;

  constructor(nowMs: number, bufferedBytes: number) {
    this.#tookMs = nowMs;
    this.#bufferedBytes = bufferedBytes;
  }

  /** @param bufferedBytes what it has not taken yet @returns how long, as far as was looked, it has taken nothing; ms */
  stalledMs(nowMs: number, bufferedBytes: number): number {
    if (bufferedBytes !== this.#bufferedBytes) {
      this.#bufferedBytes = bufferedBytes;
      this.#tookMs = nowMs;
    }
    return nowMs - this.#tookMs;
  }
}
