/**
 * Backends from a file that is read again whenever it changes. What can't be read or is wrong in any part changes nothing:
 * the old list holds, and the log says why. Knows no format: the reader is given.
 */
import type { Clock } from '../../platform/clock.ts';
import type { Log } from '../../platform/log.ts';
import { type FileWatch, watchFile } from '../../platform/watch-file.ts';
import type { Source } from './dns-source.ts';
import { keptText } from './kept-text.ts';
import type { Named } from './roster.ts';

export type FileRead<Extra> =
  | { readonly ok: true; readonly backends: readonly Named<Extra>[] }
  /** One line for each problem; without keys. */
  | { readonly ok: false; readonly problems: readonly string[] };

export interface FileSourceDeps<Extra> {
  readonly clock: Clock;
  readonly log: Log;
  /** Never throws. */
  readonly read: (path: string) => FileRead<Extra>;
  readonly found: (backends: readonly Named<Extra>[]) => void;
  /** As `watchFile` has it. */
  readonly pollMs?: number;
}

export function createFileSource<Extra>(path: string, deps: FileSourceDeps<Extra>): Source {
  const { clock, log, pollMs } = deps;
  let count = 0;
  let readMs: number | undefined;
  let problem: string | undefined;
  let watch: FileWatch | undefined;

  function read(): void {
    const found = deps.read(path);
    if (!found.ok) {
      problem = found.problems.join('; ');
      const kept = keptText(count);
      for (const one of found.problems) log.warn(`the file of backends is wrong; ${kept}`, { problem: one });
      return;
    }
    problem = undefined;
    readMs = clock.wallMs();
    count = found.backends.length;
    log.info('backends by file', { file: path, backends: count });
    deps.found(found.backends);
  }

  return {
    async start() {
      watch = watchFile(path, { clock, changed: read, ...(pollMs === undefined ? {} : { pollMs }) });
      read();
    },
    stop: () => watch?.stop(),
    state: () => ({
      backends: count,
      ...(readMs === undefined ? {} : { readMs }),
      ...(problem === undefined ? {} : { problem }),
    }),
  };
}
