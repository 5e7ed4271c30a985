import fc from 'fast-check';
import { expect, it } from 'vitest';
import { createGathering } from '../../../../src/batch/shelf/gathering.ts';

const size = 16;

it('C179 puts the same bytes in whole pieces, from buffers that may be used again, and makes one buffer for all', async () => {
  const chunks = fc.array(fc.uint8Array({ maxLength: 70 }), { maxLength: 30 });
  await fc.assert(
    fc.asyncProperty(chunks, async (given) => {
      const pieces: Buffer[] = [];
      const own = new Set<ArrayBufferLike>();
      const shared = Buffer.alloc(100);
      const gathering = createGathering(size, async (piece) => {
        await Promise.resolve();
        pieces.push(Buffer.from(piece));
        if (piece.buffer !== shared.buffer) own.add(piece.buffer);
      });
      for (const chunk of given) {
        shared.set(chunk, 3);
        await gathering.add(shared.subarray(3, 3 + chunk.length));
        shared.fill(0);
      }
      await gathering.flush();
      await gathering.flush();
      expect(Buffer.concat(pieces)).toEqual(Buffer.concat(given));
      expect(pieces.slice(0, -1).filter(({ length }) => length === 0 || length % size !== 0)).toEqual([]);
      expect(own.size).toBeLessThanOrEqual(1);
    }),
  );
});

it('fails with what it puts into fails with', async () => {
  const gathering = createGathering(size, () => Promise.reject(new Error('disk full')));
  await gathering.add(Buffer.alloc(size - 1));
  await expect(gathering.add(Buffer.alloc(1))).rejects.toThrow('disk full');
});
