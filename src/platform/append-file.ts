/**
 * Lines appended to a file without ever waiting for it: what comes faster than the disk takes it is dropped and counted, and a file
 * that can't be written is given up, once and for all. Opened at once, so that one finds out early. Stops at a size.
 */
import { type FileHandle, open } from 'node:fs/promises';

export interface AppendFile {
  /** @returns false when the line was dropped */
  write(line: string): boolean;
  readonly dropped: number;
  /** Resolves when what was taken is in the file, or the file was given up. */
  close(): Promise<void>;
}

export interface AppendSettings {
  readonly path: string;
  /** Size of the file, with what stood in it before, past which nothing more is written. */
  readonly maxBytes: number;
}

export interface AppendDeps {
  /** Nothing more will be written: why. Called once at most. */
  readonly ended: (why: { readonly kind: 'full' } | { readonly kind: 'failed'; readonly error: unknown }) => void;
}

/** Text that may wait for the disk. */
const mostWaiting = 4 * 1024 * 1024;

export function createAppendFile({ path, maxBytes }: AppendSettings, { ended }: AppendDeps): AppendFile {
  let waiting: string[] = [];
  let waitingBytes = 0;
  let dropped = 0;
  let over = false;
  let file: { readonly handle: FileHandle; bytes: number } | undefined;

  function end(why: Parameters<AppendDeps['ended']>[0]): void {
    over = true;
    dropped += waiting.length;
    waiting = [];
    waitingBytes = 0;
    ended(why);
  }

  async function drain(): Promise<void> {
    let lines: readonly string[] = [];
    try {
      file ??= await opened();
      while (waiting.length > 0 && !over) {
        lines = waiting;
        waiting = [];
        waitingBytes = 0;
        await append(file, lines);
      }
    } catch (error) {
      dropped += lines.length;
      if (!over) end({ kind: 'failed', error });
    } finally {
      writing = undefined;
    }
  }

  async function opened() {
    // Prompts are told apart in it: for its owner only.
    const handle = await open(path, 'a', 0o600);
    return { handle, bytes: (await handle.stat()).size };
  }

  async function append(to: NonNullable<typeof file>, lines: readonly string[]): Promise<void> {
    let text = '';
    let bytes = to.bytes;
    for (const [index, line] of lines.entries()) {
      const size = Buffer.byteLength(line);
      if (bytes + size > maxBytes) {
        dropped += lines.length - index;
        await to.handle.appendFile(text);
        end({ kind: 'full' });
        return;
      }
      text += line;
      bytes += size;
    }
    await to.handle.appendFile(text);
    to.bytes = bytes;
  }

  let writing: Promise<void> | undefined = drain();

  return {
    write(line) {
      if (over || waitingBytes + line.length > mostWaiting) {
        dropped += 1;
        return false;
      }
      waiting.push(line);
      waitingBytes += line.length;
      writing ??= drain();
      return true;
    },
    get dropped() {
      return dropped;
    },
    async close() {
      await writing;
      over = true;
      try {
        await file?.handle.close();
      } catch (error) {
        ended({ kind: 'failed', error });
      }
    },
  };
}
