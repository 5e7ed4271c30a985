/**
 * How many streams an engine that doesn't tell runs at once: learnt from first tokens that came later than prefill explains.
 * The number is an engine's limit of sequences, or what its memory holds; either way more jobs only wait there.
 */

export interface Begun {
  /** sent → first token */
  readonly ttftMs: number;
  /** what the prompts before it and its own should have taken */
  readonly expectedMs: number;
  /** that decode there now, its own included */
  readonly streams: number;
  readonly stepMs: number;
}

/** Prefill beside decoding is slower than alone, and its rate is a guess: so much is no wait yet. */
const slack = 2;
const slackMs = 50;
/** A job that waits for one stream alone waits for a prefill, not for a slot. */
const fewestStreams = 2;
const weight = 0.3;

export class SeenSlots {
  /** undefined: nobody waited yet */
  limit: number | undefined;

  learn({ ttftMs, expectedMs, streams, stepMs }: Begun): void {
    const waited = ttftMs > slack * (expectedMs + stepMs) + slackMs;
    if (!waited) {
      // So many run there at once, then.
      if (this.limit !== undefined && streams > this.limit) this.limit = streams;
      return;
    }
    if (streams < fewestStreams) return;
    this.limit = this.limit === undefined ? streams : this.limit + weight * (streams - this.limit);
  }
}
