/**
 * Files' bytes in a directory. Written under another name, flushed, and renamed when whole; the directory is flushed too, so what
 * was committed is there after a power cut, and what wasn't is never seen. Several replicas may share the directory by a volume.
 */
import { randomUUID } from 'node:crypto';
import { open, readdir, rename, stat, unlink, type FileHandle } from 'node:fs/promises';
import { join } from 'node:path';
import type { Readable } from 'node:stream';
import { makeFolder } from '../../platform/make-folder.ts';
import { readFault, readFileRange } from './file-range.ts';
import { createGathering } from './gathering.ts';
import type { Shelf, ShelfWriter } from './port.ts';
import { createRangeReader } from './range-reader.ts';
import { isAbsent, shelfFault } from './shelf-fault.ts';
import { checkedId } from './shelf-id.ts';

export interface DirectoryShelfDeps {
  /** As of `node:fs/promises`. */
  readonly open?: (path: string, flags: string, mode?: number) => Promise<FileHandle>;
}

/** Of a file that isn't whole yet; no id begins with a dot. */
const partPrefix = '.part-';
/** Small pieces are gathered up to this before they go to the disk. */
const gatheredBytes = 64 * 1024;

/** @throws StoreError `full`, `away`: the directory can't be made */
export async function createDirectoryShelf(directory: string, deps: DirectoryShelfDeps = {}): Promise<Shelf> {
  const openFile = deps.open ?? open;
  const pathOf = (id: string) => join(directory, checkedId(id));
  const faulted = async <Value>(work: Promise<Value>): Promise<Value> => {
    try {
      return await work;
    } catch (error) {
      throw shelfFault(error, directory);
    }
  };

  try {
    makeFolder(directory, 0o700);
  } catch (error) {
    throw shelfFault(error, directory);
  }

  async function flushDirectory(): Promise<void> {
    const handle = await openFile(directory, 'r');
    try {
      await handle.sync();
    } finally {
      await handle.close();
    }
  }

  async function create(id: string): Promise<ShelfWriter> {
    const path = pathOf(id);
    const part = join(directory, `${partPrefix}${id}-${randomUUID()}`);
    const handle = await openFile(part, 'wx', 0o600);
    const gathering = createGathering(gatheredBytes, put);
    let bytes = 0;
    let state: 'open' | 'failed' | 'over' = 'open';

    function expectOpen(): void {
      if (state !== 'open') throw new Error(`${id} is ${state}: no more can be written`);
    }

    async function put(piece: Buffer): Promise<void> {
      try {
        for (let written = 0; written < piece.byteLength;) written += (await handle.write(piece, written)).bytesWritten;
      } catch (error) {
        // How much of it got there is unknown: nothing of the file may be seen.
        state = 'failed';
        throw error;
      }
    }

    async function discard(): Promise<void> {
      if (state === 'over') return;
      state = 'over';
      await handle.close();
      await remove(part);
    }

    async function commit(): Promise<void> {
      expectOpen();
      await gathering.flush();
      await handle.sync();
      await rename(part, path);
      state = 'over';
      await handle.close();
      await flushDirectory();
    }

    return {
      get bytes() {
        return bytes;
      },
      async write(chunk) {
        expectOpen();
        bytes += chunk.byteLength;
        await faulted(gathering.add(chunk));
      },
      commit: async () => await faulted(commit()),
      discard: async () => await faulted(discard()),
    };
  }

  async function bytesOf(id: string): Promise<number | undefined> {
    try {
      return (await stat(pathOf(id))).size;
    } catch (error) {
      if (isAbsent(error)) return undefined;
      throw error;
    }
  }

  async function remove(path: string): Promise<void> {
    try {
      await unlink(path);
    } catch (error) {
      if (!isAbsent(error)) throw error;
    }
  }

  async function sweep(olderThanMs: number): Promise<readonly string[]> {
    const beforeMs = Date.now() - olderThanMs;
    const ids: string[] = [];
    for (const name of await readdir(directory)) {
      const path = join(directory, name);
      const found = await stat(path).catch((error: unknown) => {
        if (isAbsent(error)) return undefined;
        throw error;
      });
      if (found === undefined || !found.isFile() || found.mtimeMs > beforeMs) continue;
      if (name.startsWith(partPrefix)) await remove(path);
      else if (!name.startsWith('.')) ids.push(name);
    }
    return ids;
  }

  return {
    create: async (id) => await faulted(create(id)),
    read: (id, range): Readable => readFileRange(pathOf(id), range),
    ranges(id) {
      const path = pathOf(id);
      return createRangeReader(path, (error) => readFault(error, path));
    },
    bytes: async (id) => await faulted(bytesOf(id)),
    remove: async (id) => await faulted(remove(pathOf(id))),
    sweep: async (olderThanMs) => await faulted(sweep(olderThanMs)),
  };
}
