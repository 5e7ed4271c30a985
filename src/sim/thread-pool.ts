/**
 * The HTTP threads of llama-server: each request in hand holds one until it is answered, probes too, and what finds none waits
 * without an answer. No real threads, only the counting.
 */
import type { Reply } from './reply.ts';

export interface ThreadPool {
  /** Begins `work` as soon as a thread is free; it must call `release` once. A client that left meanwhile is forgotten. */
  run(reply: Reply, work: (release: () => void) => void): void;
}

/** @param threads undefined: as many as wanted */
export function createThreadPool(threads: number | undefined): ThreadPool {
  const waiting: { readonly reply: Reply; readonly work: (release: () => void) => void }[] = [];
  let busy = 0;

  function next(): void {
    while (waiting.length > 0 && (threads === undefined || busy < threads)) {
      const entry = waiting.shift();
      if (entry === undefined || entry.reply.over) continue;
      begin(entry.work);
    }
  }

  function begin(work: (release: () => void) => void): void {
    let released = false;
    busy += 1;
    work(() => {
      if (released) return;
      released = true;
      busy -= 1;
      next();
    });
  }

  return {
    run(reply, work) {
      if (threads !== undefined && busy >= threads) waiting.push({ reply, work });
      else begin(work);
    },
  };
}
