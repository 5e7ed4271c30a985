/** A range of a file as a stream that opens it when it is read, and ends with an error should the file be shorter than asked for. */
import { open, stat, type FileHandle } from 'node:fs/promises';
import { dirname } from 'node:path';
import { Readable } from 'node:stream';
import { StoreError } from '../store/port.ts';
import { isAbsent, shelfFault } from './shelf-fault.ts';

export interface ByteRange {
  readonly at: number;
  readonly bytes: number;
}

const readBytes = 128 * 1024;

export function readFileRange(path: string, range: ByteRange | undefined): Readable {
  return Readable.from(pieces(path, range), { objectMode: false, highWaterMark: readBytes });
}

async function* pieces(path: string, range: ByteRange | undefined): AsyncGenerator<Buffer, void, undefined> {
  let handle: FileHandle | undefined;
  try {
    handle = await open(path, 'r');
    let at = range?.at ?? 0;
    const end = at + (range?.bytes ?? Number.POSITIVE_INFINITY);
    while (at < end) {
      const buffer = Buffer.allocUnsafe(Math.min(readBytes, end - at));
      const { bytesRead } = await handle.read(buffer, 0, buffer.byteLength, at);
      if (bytesRead === 0 && range === undefined) return;
      if (bytesRead === 0) throw new StoreError('broken', `${path} ends before byte ${end}`);
      yield buffer.subarray(0, bytesRead);
      at += bytesRead;
    }
  } catch (error) {
    throw await readFault(error, path);
  } finally {
    await handle?.close();
  }
}

/** What it means that a file can't be read: it is gone, or the place where it is. */
export async function readFault(error: unknown, path: string): Promise<unknown> {
  if (error instanceof StoreError) return error;
  // Where the whole directory is gone, a volume is: its files are not lost.
  if (isAbsent(error) && (await isThere(dirname(path))))
    return new StoreError('broken', `there is no file ${path}`, { cause: error });
  return shelfFault(error, dirname(path));
}

async function isThere(directory: string): Promise<boolean> {
  try {
    await stat(directory);
    return true;
  } catch {
    return false;
  }
}
