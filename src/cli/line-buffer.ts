/**
 * Gathers log lines for some milliseconds and writes them at once: a system call per line is a good part of what a short
 * request costs. What is gathered is flushed when the process ends; only a kill can lose it, or a reader that stalls: then
 * lines are refused, since what nobody reads would fill the memory.
 */

export interface LineBuffer {
  /** @returns false: the line was dropped, too much waits for the reader */
  readonly write: (line: string) => boolean;
  flush(): void;
}

export interface LineSink {
  readonly write: (text: string) => void;
  /** Written, but not yet taken by the reader; bytes, or characters where those are what is counted. */
  readonly waiting: () => number;
}

const gatherMs = 20;
const mostChars = 64 * 1024;
const maxWaiting = 4 * 1024 * 1024;
/** Once lines are dropped the reader must have come so far, so that gaps are few. */
const resumeWaiting = maxWaiting / 2;

export function createLineBuffer(sink: LineSink): LineBuffer {
  let gathered = '';
  let timer: NodeJS.Timeout | undefined;
  let dropping = false;
  function flush(): void {
    clearTimeout(timer);
    timer = undefined;
    if (gathered === '') return;
    const text = gathered;
    gathered = '';
    sink.write(text);
  }
  return {
    write(line) {
      dropping = sink.waiting() + gathered.length + line.length > (dropping ? resumeWaiting : maxWaiting);
      if (dropping) return false;
      gathered += line;
      if (gathered.length >= mostChars) flush();
      else timer ??= setTimeout(flush, gatherMs).unref();
      return true;
    },
    flush,
  };
}
