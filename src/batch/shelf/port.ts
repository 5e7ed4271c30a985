/**
 * Where the bytes of files are: a directory (of replicas: a shared one) or Postgres. Knows ids and bytes, nothing of what they
 * mean. A file is there whole or not at all.
 */
import type { Readable } from 'node:stream';

export interface ShelfWriter {
  readonly bytes: number;
  /** One at a time; once it resolves the chunk's buffer may be used again. */
  write(chunk: Uint8Array): Promise<void>;
  /** From now on it is there, also after a power cut. @throws StoreError `full`, `away` */
  commit(): Promise<void>;
  /** Nothing of it stays. Idempotent; no effect after `commit`. */
  discard(): Promise<void>;
}

/** For many ranges of one file. */
export interface RangeReader {
  /** @throws StoreError `broken`: there is no such file, or it is shorter; then it can be asked again, also after `away` */
  read(range: { readonly at: number; readonly bytes: number }): Promise<Buffer>;
  /** Reads under way end well. Idempotent. */
  close(): Promise<void>;
}

export interface Shelf {
  /** A file of that id that is there already is replaced when the new one is committed. */
  create(id: string): Promise<ShelfWriter>;
  /** @param range bytes from `at`; @throws StoreError `broken` when there is no such file */
  read(id: string, range?: { readonly at: number; readonly bytes: number }): Readable;
  /** Takes hold of the file when it is first asked for a range. */
  ranges(id: string): RangeReader;
  bytes(id: string): Promise<number | undefined>;
  remove(id: string): Promise<void>;
  /** All ids whose bytes are there and older than `olderThanMs`, and forgets half-written ones of that age. */
  sweep(olderThanMs: number): Promise<readonly string[]>;
}
