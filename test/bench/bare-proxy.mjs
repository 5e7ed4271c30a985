/**
 * The floor: what any relay in Node pays before it does anything of use. Sockets in, sockets out, bytes passed on as they come;
 * no request is understood beyond its length, nothing is held, counted, checked, retried or told. Right for the bench's
 * traffic only: one request at a time on a connection, answers with a length or in chunks. usage: node bare-proxy.mjs PORT BACKEND_PORT
 */
import { connect, createServer } from 'node:net';

const [port, backendPort] = process.argv.slice(2).map(Number);
const headEnd = Buffer.from('\r\n\r\n');
const lastChunk = Buffer.from('0\r\n\r\n');
/** @type {import('node:net').Socket[]} */
const idle = [];

/** Bytes of the body that follows a head; −1: in chunks. @param {string} head */
function bodyBytes(head) {
  const length = /^content-length: *(\d+)/im.exec(head)?.[1];
  if (length !== undefined) return Number(length);
  return /^transfer-encoding: *chunked/im.test(head) ? -1 : 0;
}

/** Tells how a message goes on: −1 in chunks, else so many bytes are missing. @param {Buffer} first begins with a head */
function missingAfter(first) {
  const end = first.indexOf(headEnd) + headEnd.length;
  const bytes = bodyBytes(first.latin1Slice(0, end));
  return bytes < 0 ? -1 : bytes - (first.length - end);
}

const newUpstream = () =>
  connect(backendPort ?? 0, '127.0.0.1')
    .setNoDelay(true)
    .on('error', ignore);

createServer({ noDelay: true }, (client) => {
  /** @type {import('node:net').Socket | undefined} */
  let upstream;
  client.on('data', (bytes) => {
    if (upstream !== undefined) {
      upstream.write(bytes);
      return;
    }
    upstream = begin(client, () => (upstream = undefined));
    upstream.write(bytes);
  });
  client.on('close', () => upstream?.destroy());
  client.on('error', ignore);
}).listen(port, '127.0.0.1');

/** Passes one answer to the client, and keeps the connection for the next. @param {import('node:net').Socket} client @param {() => void} ended */
function begin(client, ended) {
  const upstream = idle.pop() ?? newUpstream();
  /** @type {number | undefined} */
  let missing;
  const onData = (/** @type {Buffer} */ bytes) => {
    client.write(bytes);
    if (missing === undefined) missing = missingAfter(bytes);
    else if (missing > 0) missing -= bytes.length;
    const isLast = missing < 0 ? bytes.subarray(-lastChunk.length).equals(lastChunk) : missing === 0;
    if (!isLast) return;
    upstream.off('data', onData).off('close', onClose);
    idle.push(upstream);
    ended();
  };
  const onClose = () => client.destroy();
  upstream.on('data', onData).on('close', onClose);
  return upstream;
}

function ignore() {}
