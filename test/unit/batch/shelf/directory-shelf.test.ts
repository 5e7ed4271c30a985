/** The shelf in a directory: the common tests, and what a disk can do to it. */
import { mkdir, open, mkdtemp, readdir, rm, utimes, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { createDirectoryShelf } from '../../../../src/batch/shelf/directory-shelf.ts';
import { expectFault } from '../../../support/batch-store-suite.ts';
import { describeShelf } from '../../../support/shelf-suite.ts';

const folder = async () => await mkdtemp(join(tmpdir(), 'warmlane-shelf-'));

describeShelf('a directory', async () => {
  const directory = await folder();
  return {
    shelf: await createDirectoryShelf(directory),
    async age(ms) {
      const then = (Date.now() - ms) / 1000;
      for (const name of await readdir(directory)) await utimes(join(directory, name), then, then);
    },
    remains: async () => (await readdir(directory)).length,
    close: async () => await rm(directory, { recursive: true, force: true }),
  };
});

describe('a disk under the shelf', () => {
  /** Writes take half of what they are given, and fail past a number of bytes. */
  function smallDisk(roomBytes: { left: number }): typeof open {
    const opened = async (path: string, flags?: string | number, mode?: number) => {
      const handle = await open(path, flags, mode);
      const write = handle.write.bind(handle) as (bytes: Uint8Array, at: number, size: number) => Promise<unknown>;
      const some = async (bytes: Uint8Array, at = 0) => {
        const size = Math.min(Math.ceil((bytes.byteLength - at) / 2), roomBytes.left);
        if (size === 0)
          throw Object.assign(new Error('ENOSPC: no space left on device, write'), {
            code: 'ENOSPC',
            syscall: 'write',
          });
        roomBytes.left -= size;
        return await write(bytes, at, size);
      };
      return Object.assign(handle, { write: some });
    };
    return opened as unknown as typeof open;
  }

  it('C177 that is full is named, and nothing of the file is ever seen', async () => {
    const directory = await folder();
    const room = { left: 100_000 };
    const shelf = await createDirectoryShelf(directory, { open: smallDisk(room) });
    const writer = await shelf.create('file-a');
    await writer.write(Buffer.alloc(70_000, 1));
    await expectFault(writer.write(Buffer.alloc(70_000, 2)), 'full');
    room.left = 1e9;
    await expect(writer.commit()).rejects.toThrow('no more can be written');
    await writer.discard();
    expect(await readdir(directory)).toEqual([]);
    const again = await shelf.create('file-a');
    await again.write(Buffer.alloc(140_000, 3));
    await again.commit();
    expect(await shelf.bytes('file-a')).toBe(140_000);
    await rm(directory, { recursive: true });
  });

  it('that is gone is away, and files go only to their owner', async () => {
    const directory = await folder();
    const shelf = await createDirectoryShelf(join(directory, 'files'));
    const writer = await shelf.create('file-a');
    await writer.commit();
    const handle = await open(join(directory, 'files', 'file-a'));
    expect((await handle.stat()).mode & 0o077).toBe(0);
    await handle.close();
    await rm(directory, { recursive: true });
    const input = shelf.ranges('file-a');
    await expectFault(input.read({ at: 0, bytes: 1 }), 'away');
    await mkdir(join(directory, 'files'), { recursive: true });
    await writeFile(join(directory, 'files', 'file-a'), 'x');
    expect((await input.read({ at: 0, bytes: 1 })).toString()).toBe('x');
    await input.close();
    await rm(directory, { recursive: true });
    await expectFault(shelf.create('file-b'), 'away');
    await expectFault(shelf.sweep(0), 'away');
  });
});
