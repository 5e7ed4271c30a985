/**
 * The one `BodyRead` that a client hands out again and again: reads are handled one after another, never two at a time,
 * so all its connections share it and a stream that waits holds no arrays of its own.
 */
import type { BodyRead } from './port.ts';

export class ReusedBodyRead implements BodyRead {
  wire: Buffer = Buffer.alloc(0);
  wireStart = 0;
  wireEnd = 0;
  count = 0;
  starts: number[] = [];
  ends: number[] = [];
  payloadBytes = 0;
  verbatim = false;
  last = false;
  /** Set by `retain()`; the connection that fed the bytes looks at it and clears it. */
  retained = false;

  retain(): void {
    this.retained = true;
  }
}
