/**
 * The file that is submitted: what its first line says, and its bytes as a multipart body, streamed. Never holds more of it
 * than one line or one read.
 */
import { randomBytes } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { open, stat } from 'node:fs/promises';
import { basename } from 'node:path';

import { objectOf, textOf } from './batch-object.ts';
import type { Upload } from './wire.ts';

export type InputFile =
  | { readonly ok: true; readonly bytes: number; readonly endpoint: string; readonly model?: string }
  | { readonly ok: false; readonly problem: string };

/** A first line longer than this is no request. */
const mostLineBytes = 16 * 1024 * 1024;

/** @param said the endpoint where the caller knows it */
export async function lookAtInput(path: string, said: string | undefined): Promise<InputFile> {
  const wrong = (why: string): InputFile => ({ ok: false, problem: `${path}: ${why}` });
  let bytes;
  let line;
  try {
    const found = await stat(path);
    if (!found.isFile()) return wrong('is no file');
    bytes = found.size;
    const form = formOf(await firstBytes(path));
    if (form !== undefined) return wrong(form);
    line = await firstLine(path);
  } catch (error) {
    return wrong(reasonOf(error));
  }
  if (line === undefined) return wrong('has no line in it');
  const { number, text } = line;
  let json: unknown;
  try {
    json = JSON.parse(text);
  } catch {
    if (said !== undefined) return { ok: true, bytes, endpoint: said };
    const isPart = text.startsWith('{') || text.startsWith('[');
    const why = isPart ? 'is no whole JSON object; a request may not go on in the next line' : 'is no JSON';
    return wrong(`line ${number} ${why}; ${oneEach}`);
  }
  if (said === undefined && objectOf(json) === undefined) {
    const what = Array.isArray(json) ? 'an array' : 'no JSON object';
    return wrong(`line ${number} is ${what}; ${oneEach}`);
  }
  const named = textOf(objectOf(objectOf(json)?.['body'])?.['model']);
  const model = named === undefined ? {} : { model: named };
  if (said !== undefined) return { ok: true, bytes, endpoint: said, ...model };
  const url = textOf(objectOf(json)?.['url']);
  if (url === undefined || !url.startsWith('/'))
    return wrong(`line ${number} has no "url"; name the route with --endpoint /v1/chat/completions`);
  return { ok: true, bytes, endpoint: url, ...model };
}

const oneEach = 'each line is one request: {"custom_id": …, "method": "POST", "url": …, "body": …}';

const signatures: readonly (readonly [readonly number[], string])[] = [
  [[0x1f, 0x8b], 'is compressed (gzip); unpack it first'],
  [[0x28, 0xb5, 0x2f, 0xfd], 'is compressed (zstd); unpack it first'],
  [[0x50, 0x4b, 0x03, 0x04], 'is a zip archive; unpack it first'],
  [[0xff, 0xfe], 'is UTF-16; save it as UTF-8'],
  [[0xfe, 0xff], 'is UTF-16; save it as UTF-8'],
];

/** What its first bytes show that it is, where that is no text to be read. */
function formOf(first: Uint8Array): string | undefined {
  return signatures.find(([bytes]) => bytes.every((byte, at) => first[at] === byte))?.[1];
}

async function firstBytes(path: string): Promise<Uint8Array> {
  const file = await open(path, 'r');
  try {
    const { buffer, bytesRead } = await file.read(Buffer.alloc(4), 0, 4, 0);
    return buffer.subarray(0, bytesRead);
  } finally {
    await file.close();
  }
}

/** The first line that isn't blank. */
async function firstLine(path: string): Promise<{ readonly number: number; readonly text: string } | undefined> {
  let held = '';
  let number = 1;
  const stream = createReadStream(path, { encoding: 'utf8' });
  for await (const piece of stream as AsyncIterable<string>) {
    held += piece;
    for (let end = held.indexOf('\n'); end !== -1; end = held.indexOf('\n')) {
      const text = bare(held.slice(0, end));
      if (text !== '') return { number, text };
      held = held.slice(end + 1);
      number += 1;
    }
    if (held.length > mostLineBytes) return { number, text: held };
  }
  const text = bare(held);
  return text === '' ? undefined : { number, text };
}

/** Without a byte order mark. */
function bare(line: string): string {
  return line.replace(/^\uFEFF/, '').trim();
}

/** RFC 7578. @param sent hears how many of the file's bytes were taken */
export function multipartOf(path: string, bytes: number, sent: (bytes: number) => void): Upload {
  const boundary = `warmlane-${randomBytes(16).toString('hex')}`;
  const name = basename(path)
    .replaceAll('\\', '_')
    .replaceAll('"', '%22')
    .replaceAll(/[\r\n]/g, '_');
  const head = Buffer.from(
    `--${boundary}\r\nContent-Disposition: form-data; name="purpose"\r\n\r\nbatch\r\n` +
      `--${boundary}\r\nContent-Disposition: form-data; name="file"; filename="${name}"\r\n` +
      'Content-Type: application/jsonl\r\n\r\n',
  );
  const tail = Buffer.from(`\r\n--${boundary}--\r\n`);
  async function* chunks(): AsyncGenerator<Uint8Array> {
    yield head;
    let read = 0;
    // A file that grows meanwhile is sent as long as it was; one that shrinks can't be.
    if (bytes > 0)
      for await (const chunk of createReadStream(path, { end: bytes - 1, highWaterMark: 256 * 1024 })) {
        const piece = chunk as Buffer; // a stream without encoding gives buffers
        read += piece.length;
        yield piece;
        sent(read);
      }
    if (read !== bytes) throw new Error(`${path} became shorter while it was read`);
    yield tail;
  }
  return {
    type: `multipart/form-data; boundary=${boundary}`,
    bytes: head.length + bytes + tail.length,
    chunks: chunks(),
  };
}

export function reasonOf(error: unknown): string {
  const code = error instanceof Error && 'code' in error ? String(error.code) : '';
  if (code === 'ENOENT') return 'there is no such file or folder';
  if (code === 'EACCES' || code === 'EPERM') return 'may not be opened';
  if (code === 'EISDIR') return 'is a folder';
  if (code === 'EROFS') return 'the file system is read-only';
  if (code === 'ENOSPC') return 'the disk is full';
  return error instanceof Error ? error.message : String(error);
}
