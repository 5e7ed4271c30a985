/** Reading large answers: looked at once, at their end; with a rest after each read, so that the sender meets back-pressure. */
import { parseAnswer, type RawAnswer, type RawClient } from './raw-http.ts';

const lastChunk = Buffer.from('0\r\n\r\n');

/**
 * Resolves with the answer when its last chunk came or the connection ended.
 * @param options.everyMs the rest after each read; 0: none
 */
export function readSlowly(client: RawClient, options: { readonly everyMs: number }): Promise<RawAnswer> {
  const { socket } = client;
  let tail = Buffer.alloc(0);
  return new Promise((resolve, reject) => {
    const done = () => {
      socket.off('data', onData);
      socket.off('close', done);
      socket.off('end', done);
      const answer = parseAnswer(client.received, true);
      if (answer === undefined) reject(new Error('the connection ended without an answer'));
      else resolve(answer);
    };
    const onData = (bytes: Buffer) => {
      tail = Buffer.concat([tail, bytes.subarray(-lastChunk.length)]).subarray(-lastChunk.length);
      if (tail.equals(lastChunk)) return done();
      if (options.everyMs === 0) return;
      socket.pause();
      setTimeout(() => socket.resume(), options.everyMs);
    };
    socket.on('data', onData);
    if (options.everyMs === 0) socket.resume();
    socket.on('end', done);
    socket.on('close', done);
  });
}
