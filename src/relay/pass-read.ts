/** One read of an answer, written to the client: the very same bytes, in one write where their framing allows it. */
import type { ClientPort } from '../platform/client-port.ts';
import type { BodyRead } from '../platform/upstream/port.ts';
import { joinSegments } from './segments.ts';

/** @param output the read's bytes where they are not the read's own */
export function passRead(client: ClientPort, read: BodyRead, output: readonly Buffer[] | undefined): void {
  if (!read.last) return pass(client, read, output);
  // The rest and the end, which is told next, leave in one write.
  client.cork();
  pass(client, read, output);
  client.uncork();
}

function pass(client: ClientPort, read: BodyRead, output: readonly Buffer[] | undefined): void {
  if (output !== undefined) {
    for (const piece of output) client.write(piece);
    return;
  }
  if (read.verbatim && client.takesChunks) {
    client.writeChunks(read.wire.subarray(read.wireStart, read.wireEnd));
  } else if (read.count === 1) {
    client.write(read.wire.subarray(read.starts[0], read.ends[0]));
  } else {
    client.write(joinSegments(read));
  }
  if (client.bufferedBytes > 0) read.retain();
}
