/**
 * Results that come singly, written together: while one write of a batch is under way, the next ones wait and then go as one. A write
 * that fails for what its results are is split into the calls that it was made of, so that none is refused for another's sake.
 */
import type { LineResult } from '../batch.ts';
import { StoreError, type BatchStore, type Lease } from './port.ts';

type WriteResults = BatchStore['addResults'];

interface Call {
  readonly results: readonly LineResult[];
  readonly settle: () => void;
  readonly fail: (error: unknown) => void;
}

interface Line {
  calls: Call[];
  writing: boolean;
}

/** Of one write: results, and characters of their text. */
const mostResults = 1000;
const mostCharacters = 8 * 1024 * 1024;

export function createResultGathering(write: WriteResults): WriteResults {
  const lines = new Map<string, Line>();

  async function writeCalls(lease: Lease, calls: readonly Call[]): Promise<void> {
    try {
      await write(
        lease,
        calls.flatMap(({ results }) => results),
      );
      for (const { settle } of calls) settle();
    } catch (error) {
      if (calls.length > 1 && error instanceof StoreError && error.fault === 'broken')
        for (const call of calls) await writeCalls(lease, [call]);
      else for (const { fail } of calls) fail(error);
    }
  }

  async function drain(key: string, lease: Lease, line: Line): Promise<void> {
    line.writing = true;
    while (line.calls.length > 0) await writeCalls(lease, takeSome(line));
    lines.delete(key);
  }

  return async (lease, results) => {
    const key = `${lease.batchId} ${lease.epoch} ${lease.owner}`;
    const line = lines.get(key) ?? { calls: [], writing: false };
    lines.set(key, line);
    await new Promise<void>((settle, fail) => {
      line.calls.push({ results, settle, fail });
      if (!line.writing) void drain(key, lease, line);
    });
  };
}

function takeSome(line: Line): readonly Call[] {
  let results = 0;
  let characters = 0;
  let count = 0;
  for (const call of line.calls) {
    results += call.results.length;
    for (const { text } of call.results) characters += text.length;
    if (count > 0 && (results > mostResults || characters > mostCharacters)) break;
    count += 1;
  }
  return line.calls.splice(0, count);
}
