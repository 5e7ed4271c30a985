/**
 * Writes what became of a batch's lines: at once, so that a kill has as few of them sent again as can be. One group at a time;
 * what comes while it is written is the next one. Knows neither leases nor files.
 */
import type { LineResult } from '../batch.ts';

export interface RetryNote {
  readonly line: number;
  readonly attempts: number;
  readonly notBeforeMs: number;
}

export interface Group {
  readonly results: readonly LineResult[];
  readonly retries: readonly RetryNote[];
}

export interface ResultWriter {
  add(result: LineResult): void;
  note(retry: RetryNote): void;
  /** Resolves when all is written. @throws what writing threw */
  flush(): Promise<void>;
  /** Results that aren't in the store yet. */
  readonly unwritten: number;
}

export interface ResultWriterDeps {
  /** Goes on trying until it has worked, or won't. */
  readonly write: (group: Group) => Promise<void>;
  readonly written: (results: readonly LineResult[]) => void;
  /** It won't: nothing is written any more. */
  readonly broke: (error: unknown) => void;
}

export function createResultWriter({ write, written, broke }: ResultWriterDeps): ResultWriter {
  let results: LineResult[] = [];
  /** By line: only the latest counts. */
  let retries = new Map<number, RetryNote>();
  let writing: Promise<void> | undefined;
  let underWay = 0;
  let failure: unknown;

  const isIdle = () => results.length === 0 && retries.size === 0;

  function begin(): Promise<void> {
    writing ??= writeAll().finally(() => {
      writing = undefined;
      if (!isIdle() && failure === undefined) void begin();
    });
    return writing;
  }

  async function writeAll(): Promise<void> {
    while (!isIdle() && failure === undefined) {
      const group = { results, retries: [...retries.values()] };
      results = [];
      retries = new Map();
      underWay = group.results.length;
      try {
        await write(group);
      } catch (error) {
        failure = error ?? new Error('writing failed');
        broke(failure);
        return;
      }
      underWay = 0;
      written(group.results);
    }
  }

  return {
    add(result) {
      results.push(result);
      if (failure === undefined) void begin();
    },
    note(retry) {
      retries.set(retry.line, retry);
      if (failure === undefined) void begin();
    },
    async flush() {
      while (!isIdle() || writing !== undefined) {
        if (failure !== undefined) break;
        await begin();
      }
      if (failure !== undefined) throw failure as Error;
    },
    get unwritten() {
      return results.length + underWay;
    },
  };
}
