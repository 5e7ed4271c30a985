/**
 * Uploads input files to `/v1/files`, all at once, made as they are sent: nothing of their size is held here. Prints one line of
 * JSON for each: its id, its bytes, how long it took.
 * usage: node batch-uploader.mjs URL UPLOADS LINES LINE_BYTES
 */
import { request } from 'node:http';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';

const [url = '', uploads = '1', lines = '1', lineBytes = '1000'] = process.argv.slice(2);
const boundary = 'warmlane-upload';
const head = Buffer.from(
  `--${boundary}\r\nContent-Disposition: form-data; name="purpose"\r\n\r\nbatch\r\n` +
    `--${boundary}\r\nContent-Disposition: form-data; name="file"; filename="in.jsonl"\r\n\r\n`,
);
const tail = Buffer.from(`\r\n--${boundary}--\r\n`);
const filler = 'All work and no play. '.repeat(Math.ceil(Number(lineBytes) / 22));

/** @param {number} index @returns one line of exactly so many bytes; every tenth line begins alike */
function line(index) {
  const before = `{"custom_id":"r${String(index).padStart(7, '0')}","method":"POST","url":"/v1/chat/completions","body":{"model":"m","messages":[{"role":"user","content":"${index % 10} `;
  const after = '"}]}}\n';
  return before + filler.slice(0, Number(lineBytes) - before.length - after.length) + after;
}

function* content() {
  yield head;
  const many = 64;
  for (let from = 0; from < Number(lines); from += many) {
    let text = '';
    for (let index = from; index < Math.min(Number(lines), from + many); index += 1) text += line(index);
    yield Buffer.from(text);
  }
  yield tail;
}

async function upload() {
  const beganMs = performance.now();
  const bytes = Number(lines) * Number(lineBytes);
  const sending = request(`${url}/v1/files`, {
    method: 'POST',
    headers: {
      'content-type': `multipart/form-data; boundary=${boundary}`,
      'content-length': head.length + bytes + tail.length,
    },
  });
  const answered = new Promise((resolve, reject) => sending.once('response', resolve).once('error', reject));
  await pipeline(Readable.from(content()), sending);
  const answer = await answered;
  let text = '';
  for await (const chunk of answer.setEncoding('utf8')) text += chunk;
  const { id } = JSON.parse(text);
  console.log(JSON.stringify({ id, status: answer.statusCode, bytes, ms: Math.round(performance.now() - beganMs) }));
}

await Promise.all(Array.from({ length: Number(uploads) }, upload));
