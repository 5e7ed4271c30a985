/**
 * The seam between the measuring of one request and what is known of all: a stream says when it begins to decode and when
 * it ends, and learns what ran beside it. Neither side imports the other.
 */

/** One stream that decodes. */
export interface Decoding {
  /** It ended, however that was; the first call counts. */
  end(atMs: number): void;
  /** Mean number of sequences that decoded on the backend while this one did, its own included; absent until it has ended. */
  readonly concurrency: number | undefined;
}

export interface DecodeStarts {
  /**
   * A stream's first token came.
   * @param sequences its choices: each decodes as a sequence of its own
   */
  began(backend: string, sequences: number, atMs: number): Decoding;
}
