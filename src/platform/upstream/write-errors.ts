/**
 * Keeps a socket readable after a write to it has failed. Node destroys it then, and with it an answer that already lies in
 * the receive buffer: a backend that answers 413 and closes while the body is still coming would look dead (C116).
 */
import type { Socket } from 'node:net';

/**
 * From now on failed writes destroy nothing; the first is told to `onWriteError`, reading goes on. When the peer's end or a
 * read error follows, the socket is destroyed with that error as usual. Any other destruction is as before.
 */
export function holdWriteErrors(socket: Socket, onWriteError: (error: Error) => void): void {
  const destroy = socket.destroy;
  let held = false;
  socket.destroy = (error?: Error) => {
    if (error === undefined || !isFailedWrite(error)) return destroy.call(socket, error);
    if (held) return socket;
    held = true;
    endAtEof(socket, () => destroy.call(socket, error));
    onWriteError(error);
    return socket;
  };
}

function isFailedWrite(error: Error): boolean {
  if (!('syscall' in error) || !('code' in error)) return false;
  return error.syscall === 'write' && (error.code === 'EPIPE' || error.code === 'ECONNRESET');
}

/** A stream on which an error stands emits no 'end'; the peer's FIN shows itself only as the pushed null. */
function endAtEof(socket: Socket, end: () => void): void {
  const push = socket.push;
  socket.push = (chunk: unknown, encoding?: BufferEncoding) => {
    if (chunk !== null) return push.call(socket, chunk, encoding);
    end();
    return false;
  };
}
