/** A read as the upstream client hands it over, made of plain payload. */
import type { BodyRead } from '../../src/platform/upstream/port.ts';

export function bodyRead(payload: Buffer): BodyRead {
  return {
    wire: payload,
    wireStart: 0,
    wireEnd: payload.length,
    count: 1,
    starts: [0],
    ends: [payload.length],
    payloadBytes: payload.length,
    verbatim: false,
    last: false,
    retain() {},
  };
}
