/** What every shelf must do, whatever it is made of: one body of tests, run for each. */
import { randomBytes } from 'node:crypto';
import { buffer } from 'node:stream/consumers';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { Shelf } from '../../src/batch/shelf/port.ts';
import { expectFault } from './batch-store-suite.ts';

export interface ShelfWorld {
  readonly shelf: Shelf;
  /** Makes all that is there, whole or not, older by `ms`. */
  age(ms: number): Promise<void>;
  /** Files of which something is there, committed or not. */
  remains(): Promise<number>;
  close(): Promise<void>;
}

export function describeShelf(name: string, open: () => Promise<ShelfWorld>): void {
  describe(`the shelf in ${name}`, () => {
    let world: ShelfWorld;
    let shelf: Shelf;
    beforeEach(async () => {
      world = await open();
      shelf = world.shelf;
    });
    afterEach(async () => await world.close());

    async function put(id: string, ...pieces: readonly Uint8Array[]): Promise<void> {
      const writer = await shelf.create(id);
      for (const piece of pieces) await writer.write(piece);
      await writer.commit();
    }
    const content = async (id: string, range?: { at: number; bytes: number }) => await buffer(shelf.read(id, range));

    it('gives back what was written, whole and in ranges', async () => {
      const bytes = randomBytes(700_000);
      await put('file-a', bytes.subarray(0, 10), bytes.subarray(10, 300_000), Buffer.alloc(0), bytes.subarray(300_000));
      expect(await shelf.bytes('file-a')).toBe(700_000);
      expect((await content('file-a')).equals(bytes)).toBe(true);
      for (const [at, size] of [
        [0, 1],
        [0, 700_000],
        [262_143, 2],
        [262_144, 262_144],
        [10, 600_000],
        [699_999, 1],
        [5, 0],
      ] as const)
        expect((await content('file-a', { at, bytes: size })).equals(bytes.subarray(at, at + size))).toBe(true);
    });

    it('takes thousands of small pieces, and the buffer of each may be used again', async () => {
      const writer = await shelf.create('file-a');
      const piece = Buffer.alloc(100);
      for (let index = 0; index < 5000; index += 1) await writer.write(piece.fill(index % 251));
      expect(writer.bytes).toBe(500_000);
      await writer.commit();
      const found = await content('file-a');
      expect(found.byteLength).toBe(500_000);
      expect(Array.from({ length: 5000 }, (_, index) => found[index * 100 + 99])).toEqual(
        Array.from({ length: 5000 }, (_, index) => index % 251),
      );
    });

    it('holds empty files', async () => {
      await put('file-a');
      expect(await shelf.bytes('file-a')).toBe(0);
      expect((await content('file-a')).byteLength).toBe(0);
    });

    it('shows nothing of a file before it is committed, nor after it was discarded', async () => {
      const writer = await shelf.create('file-a');
      await writer.write(Buffer.alloc(600_000));
      expect(await shelf.bytes('file-a')).toBeUndefined();
      await expectFault(content('file-a'), 'broken');
      await writer.discard();
      await writer.discard();
      expect(await shelf.bytes('file-a')).toBeUndefined();
      expect(await world.remains()).toBe(0);
      await expect(writer.write(Buffer.alloc(1))).rejects.toThrow('no more can be written');
      await expect(writer.commit()).rejects.toThrow('no more can be written');
    });

    it('keeps the old file until the new one is committed', async () => {
      await put('file-a', Buffer.from('old and long'));
      const writer = await shelf.create('file-a');
      await writer.write(Buffer.from('new'));
      expect((await content('file-a')).toString()).toBe('old and long');
      await writer.commit();
      await writer.discard();
      expect((await content('file-a')).toString()).toBe('new');
      expect(await world.remains()).toBe(1);
    });

    it('removes files, once and for all', async () => {
      await put('file-a', Buffer.from('x'));
      await shelf.remove('file-a');
      await shelf.remove('file-a');
      expect(await shelf.bytes('file-a')).toBeUndefined();
      await expectFault(content('file-a'), 'broken');
    });

    it('fails to read past the end', async () => {
      await put('file-a', Buffer.from('abc'));
      await expectFault(content('file-a', { at: 1, bytes: 3 }), 'broken');
    });

    it('gives many ranges of one file at once, again after a fault, and none of one that is not there', async () => {
      const bytes = randomBytes(600_000);
      await put('file-a', bytes);
      const input = shelf.ranges('file-a');
      const places = Array.from({ length: 40 }, (_, index) => ({ at: index * 14_000, bytes: 14_001 + index }));
      const read = async (range: { readonly at: number; readonly bytes: number }) =>
        expect((await input.read(range)).equals(bytes.subarray(range.at, range.at + range.bytes))).toBe(true);
      await Promise.all(places.map(read));
      const [, failed] = await Promise.allSettled([
        read({ at: 0, bytes: 600_000 }),
        input.read({ at: 599_999, bytes: 2 }),
        read({ at: 5, bytes: 9 }),
      ]);
      expect(failed).toMatchObject({ status: 'rejected', reason: { fault: 'broken' } });
      await read({ at: 599_999, bytes: 1 });
      const last = read({ at: 0, bytes: 300_000 });
      await Promise.all([input.close(), last]);
      await input.close();
      await expectFault(shelf.ranges('file-b').read({ at: 0, bytes: 1 }), 'broken');
    });

    it('reads no more than is taken', async () => {
      await put('file-a', Buffer.alloc(3_000_000));
      const stream = shelf.read('file-a');
      const first = await new Promise<Buffer>((resolve, reject) => {
        stream.once('readable', () => resolve(stream.read() as Buffer));
        stream.once('error', reject);
      });
      expect(first.byteLength).toBeLessThan(1_000_000);
      expect(stream.readableLength).toBeLessThan(1_000_000);
      stream.destroy();
    });

    it('sweeps half-written files of an age, and names whole ones', async () => {
      await put('file-a', Buffer.from('x'));
      const left = await shelf.create('file-b');
      await left.write(Buffer.alloc(600_000));
      await world.age(60_000);
      await put('file-c', Buffer.from('x'));
      const working = await shelf.create('file-d');
      await working.write(Buffer.alloc(600_000));
      expect(await shelf.sweep(30_000)).toEqual(['file-a']);
      expect(await world.remains()).toBe(3);
      await working.commit();
      expect(await shelf.bytes('file-d')).toBe(600_000);
      expect(new Set(await shelf.sweep(0))).toEqual(new Set(['file-a', 'file-c', 'file-d']));
      await left.discard();
    });

    it.each(['../file', '.part-x', 'a/b', '', 'a\u0000b', 'x'.repeat(200)])('takes %j for no id', async (id) => {
      await expect(shelf.create(id)).rejects.toThrow('no id of a file');
      expect(() => shelf.read(id)).toThrow('no id of a file');
      expect(() => shelf.ranges(id)).toThrow('no id of a file');
    });
  });
}
