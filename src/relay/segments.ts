/** The payload of one read in one piece, without the chunk framing. */
import type { BodyRead } from '../platform/upstream/port.ts';

export function joinSegments(read: BodyRead): Buffer {
  const pieces: Buffer[] = [];
  for (let i = 0; i < read.count; i += 1) pieces.push(read.wire.subarray(read.starts[i], read.ends[i]));
  return Buffer.concat(pieces);
}
