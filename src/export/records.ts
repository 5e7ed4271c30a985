/**
 * Finished requests, newest first, for the admin listener, and the log line of each.
 * Bounded in number and in the memory of token stamps and of the backends that were considered: the oldest lose these first,
 * then go.
 */
import type { RequestRecord } from '../domain/record.ts';
import type { Log } from '../platform/log.ts';
import { logRequest } from './request-log.ts';
import type { ExportSettings } from './settings.ts';

export interface Records {
  add(record: RequestRecord): void;
  /** Newest first. */
  list(): readonly RequestRecord[];
  /** Records that an exporter failed on: a count and nothing else. */
  readonly failures: number;
}

export interface RecordsSettings extends ExportSettings {
  readonly maxRecords: number;
  readonly maxRecordBytes: number;
}

export function createRecords(settings: RecordsSettings, deps: { readonly log: Log }): Records {
  const kept: RequestRecord[] = [];
  let stampBytes = 0;
  /** Records before this index (the oldest) have lost their stamps. */
  let bare = 0;
  let failures = 0;

  function trim(): void {
    while (kept.length > settings.maxRecords) {
      const oldest = kept.shift();
      stampBytes -= bytesOf(oldest);
      bare = Math.max(0, bare - 1);
    }
    while (stampBytes > settings.maxRecordBytes && bare < kept.length) {
      const record = kept[bare];
      if (record !== undefined && bytesOf(record) > 0) {
        stampBytes -= bytesOf(record);
        kept[bare] = bared(record);
      }
      bare += 1;
    }
  }

  return {
    add(record) {
      kept.push(record);
      stampBytes += bytesOf(record);
      trim();
      if (!settings.requestLog) return;
      try {
        logRequest(deps.log, record);
      } catch {
        failures += 1;
      }
    },
    list: () => kept.toReversed(),
    get failures() {
      return failures;
    },
  };
}

/** A record without what takes much room. */
function bared({ stamps: _stamps, routing, ...rest }: RequestRecord): RequestRecord {
  if (routing === undefined) return rest;
  const { considered: _considered, ...note } = routing;
  return { ...rest, routing: note };
}

/** Two objects and eleven numbers, about. */
const consideredBytes = 240;

function bytesOf(record: RequestRecord | undefined): number {
  const stamps = record?.stamps;
  const considered = (record?.routing?.considered?.length ?? 0) * consideredBytes;
  if (stamps === undefined) return considered;
  return (
    considered +
    stamps.atMs.byteLength +
    (stamps.choice?.byteLength ?? 0) +
    (stamps.tokens?.byteLength ?? 0) +
    (stamps.coalesced?.byteLength ?? 0)
  );
}
