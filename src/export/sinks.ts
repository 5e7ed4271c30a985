/**
 * Where finished records go: every sink hears of each, in order. One that throws costs itself that record and a count,
 * nothing else (rule 10).
 */
import type { RequestRecord } from '../domain/record.ts';

export interface RecordSink {
  add(record: RequestRecord): void;
}

export interface Sinks extends RecordSink {
  /** Records that a sink failed on, by the sink's name. */
  readonly failures: ReadonlyMap<string, number>;
}

/** @param onFailure is told of each sink's first failure only */
export function createSinks(
  sinks: Readonly<Record<string, RecordSink>>,
  onFailure: (sink: string, error: unknown, record: RequestRecord) => void,
): Sinks {
  const named = Object.entries(sinks);
  const failures = new Map<string, number>();
  return {
    failures,
    add(record) {
      for (const [name, sink] of named) {
        try {
          sink.add(record);
        } catch (error) {
          const before = failures.get(name) ?? 0;
          failures.set(name, before + 1);
          if (before === 0) onFailure(name, error, record);
        }
      }
    },
  };
}
