/**
 * Many ranges of one file, such as the lines of a batch: it is opened once, not for each of them, which was most of what reading a
 * line cost. After a fault it is opened anew, so that a volume that comes back is read again.
 */
import { open, type FileHandle } from 'node:fs/promises';
import { StoreError } from '../store/port.ts';
import type { ByteRange } from './file-range.ts';
import type { RangeReader } from './port.ts';

/** @param faultOf what a fault of the file system means */
export function createRangeReader(path: string, faultOf: (error: unknown) => Promise<unknown>): RangeReader {
  let handle: Promise<FileHandle> | undefined;

  async function readFrom(file: FileHandle, { at, bytes }: ByteRange): Promise<Buffer> {
    const buffer = Buffer.allocUnsafe(bytes);
    for (let got = 0; got < bytes;) {
      const { bytesRead } = await file.read(buffer, got, bytes - got, at + got);
      if (bytesRead === 0) throw new StoreError('broken', `${path} ends before byte ${at + bytes}`);
      got += bytesRead;
    }
    return buffer;
  }

  async function close(): Promise<void> {
    const closing = handle;
    handle = undefined;
    // One that could not be opened needs no end. Others' reads are waited for.
    await closing?.then((file) => file.close()).catch(() => {});
  }

  return {
    async read(range) {
      handle ??= open(path, 'r');
      const mine = handle;
      try {
        return await readFrom(await mine, range);
      } catch (error) {
        // Whoever else fails on it must not close the next one.
        if (handle === mine) await close();
        throw await faultOf(error);
      }
    },
    close,
  };
}
