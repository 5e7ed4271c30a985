/**
 * Files' bytes in Postgres, for replicas that share no volume: pieces of 256 KiB, each written by itself, of a file that nobody
 * sees until it is marked as committed. The mark is flushed to disk, and the pieces before it with it.
 */
import { Readable } from 'node:stream';
import { StoreError } from '../store/port.ts';
import type { PostgresLink } from '../store/postgres-link.ts';
import { createGathering } from './gathering.ts';
import type { Shelf, ShelfWriter } from './port.ts';
import { checkedId } from './shelf-id.ts';

const chunkBytes = 256 * 1024;

/** @param link the store's; it is closed with the store */
export function createPostgresShelf({ once, transaction }: PostgresLink): Shelf {
  async function create(id: string): Promise<ShelfWriter> {
    const [begun] = await once.rows<{ seq: number }>(
      'insert into warmlane_shelf_files (id) values ($1) returning seq',
      checkedId(id),
    );
    if (begun === undefined) throw new Error('an insert returned no row');
    const { seq } = begun;
    const gathering = createGathering(chunkBytes, putAll);
    let bytes = 0;
    let number = 0;
    let state: 'open' | 'failed' | 'over' = 'open';

    async function put(body: Uint8Array): Promise<void> {
      await transaction(async (turn) => {
        await turn.run('set local synchronous_commit = off');
        const touched = await turn.run(
          'update warmlane_shelf_files set touched_at = clock_timestamp() where seq = $1',
          seq,
        );
        if (touched === 0) throw new StoreError('broken', `${id} was swept away while it was written`);
        await turn.run('insert into warmlane_shelf_chunks (file, number, body) values ($1, $2, $3)', seq, number, body);
      });
      number += 1;
    }

    async function putAll(whole: Buffer): Promise<void> {
      for (let at = 0; at < whole.length; at += chunkBytes) await put(whole.subarray(at, at + chunkBytes));
    }

    /** A piece that didn't get there is missing for good: nothing of the file may be seen. */
    async function orFail(work: Promise<void>): Promise<void> {
      try {
        await work;
      } catch (error) {
        state = 'failed';
        throw error;
      }
    }

    function expectOpen(): void {
      if (state !== 'open') throw new Error(`${id} is ${state}: no more can be written`);
    }

    return {
      get bytes() {
        return bytes;
      },
      async write(chunk) {
        expectOpen();
        bytes += chunk.byteLength;
        await orFail(gathering.add(chunk));
      },
      async commit() {
        expectOpen();
        await orFail(gathering.flush());
        await transaction(async (turn) => {
          await turn.run('delete from warmlane_shelf_files where id = $1 and committed and seq <> $2', id, seq);
          const found = await turn.run(
            'update warmlane_shelf_files set committed = true, bytes = $2, touched_at = clock_timestamp() where seq = $1',
            seq,
            bytes,
          );
          if (found === 0) throw new StoreError('broken', `${id} was swept away while it was written`);
        });
        state = 'over';
      },
      async discard() {
        if (state === 'over') return;
        state = 'over';
        await once.run('delete from warmlane_shelf_files where seq = $1 and not committed', seq);
      },
    };
  }

  async function entry(id: string): Promise<{ readonly seq: number; readonly bytes: number } | undefined> {
    const [row] = await once.rows<{ seq: number; bytes: number }>(
      'select seq, bytes from warmlane_shelf_files where id = $1 and committed',
      checkedId(id),
    );
    return row;
  }

  async function* pieces(id: string, range: { readonly at: number; readonly bytes: number } | undefined) {
    const file = await entry(id);
    if (file === undefined) throw new StoreError('broken', `there is no file ${id}`);
    let at = range?.at ?? 0;
    const end = range === undefined ? file.bytes : at + range.bytes;
    if (end > file.bytes) throw new StoreError('broken', `${id} ends before byte ${end}`);
    while (at < end) {
      const within = at % chunkBytes;
      const [row] = await once.rows<{ body: Buffer }>(
        'select substr(body, $3, $4) as body from warmlane_shelf_chunks where file = $1 and number = $2',
        file.seq,
        Math.floor(at / chunkBytes),
        within + 1,
        Math.min(chunkBytes - within, end - at),
      );
      if (row === undefined || row.body.byteLength === 0)
        throw new StoreError('broken', `${id} was removed while it was read, or misses a piece at byte ${at}`);
      yield row.body;
      at += row.body.byteLength;
    }
  }

  return {
    create,
    read: (id, range) => Readable.from(pieces(checkedId(id), range), { objectMode: false, highWaterMark: chunkBytes }),
    ranges(id) {
      const checked = checkedId(id);
      return {
        async read(range) {
          const found: Buffer[] = [];
          for await (const piece of pieces(checked, range)) found.push(piece);
          return found.length === 1 && found[0] !== undefined ? found[0] : Buffer.concat(found);
        },
        close: () => Promise.resolve(),
      };
    },
    bytes: async (id) => (await entry(id))?.bytes,
    async remove(id) {
      await once.run('delete from warmlane_shelf_files where id = $1 and committed', checkedId(id));
    },
    async sweep(olderThanMs) {
      const old = `touched_at <= clock_timestamp() - $1 * interval '1 millisecond'`;
      await once.run(`delete from warmlane_shelf_files where not committed and ${old}`, olderThanMs);
      const rows = await once.rows<{ id: string }>(
        `select id from warmlane_shelf_files where committed and ${old}`,
        olderThanMs,
      );
      return rows.map(({ id }) => id);
    },
  };
}
