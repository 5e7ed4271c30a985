/**
 * Tells when a file is another one than before: written in place, replaced by rename (editors), or reached by a link that
 * points elsewhere now (Kubernetes ConfigMaps). The system's notices only make it quick: what counts is what `stat` says,
 * asked every two seconds as well, since notices get lost on network file systems and in containers.
 * Reads nothing. A file that is still being written counts once it has rested.
 */
import { type BigIntStats, type FSWatcher, statSync, watch } from 'node:fs';
import { stat } from 'node:fs/promises';
import { dirname } from 'node:path';
import type { Clock, Timer } from './clock.ts';

export interface FileWatch {
  stop(): void;
}

export interface FileWatchDeps {
  readonly clock: Clock;
  /** It is another file now, or is gone, or is there again. */
  readonly changed: () => void;
  /** Between two looks without a notice; 2,000 unless given. */
  readonly pollMs?: number;
  /** How long a file must be the same before it counts; 100 unless given. */
  readonly restMs?: number;
}

/** @param path need not be there yet. What it is when the watch begins is no change. */
export function watchFile(path: string, deps: FileWatchDeps): FileWatch {
  const { clock, changed, pollMs = 2000, restMs = 100 } = deps;
  let stopped = false;
  let looking = false;
  let again = false;
  let timer: Timer | undefined;
  // At once: whoever reads the file right after this must not miss what is written meanwhile.
  let told = firstSignOf(path);
  let seen = told;
  const notices = noticesOf(dirname(path), () => {
    timer?.cancel();
    void look();
  });

  async function look(): Promise<void> {
    if (looking) {
      again = true;
      return;
    }
    looking = true;
    again = false;
    const now = await signOf(path);
    looking = false;
    if (stopped) return;
    const rested = now === seen;
    seen = now;
    if (now !== told && rested) {
      told = now;
      changed();
    }
    timer?.cancel();
    timer = clock.timer(again || now !== told ? restMs : pollMs, () => void look());
  }

  void look();
  return {
    stop() {
      stopped = true;
      timer?.cancel();
      notices?.close();
    },
  };
}

async function signOf(path: string): Promise<string> {
  try {
    return signOfStats(await stat(path, { bigint: true }));
  } catch (error) {
    return signOfError(error);
  }
}

function firstSignOf(path: string): string {
  try {
    return signOfStats(statSync(path, { bigint: true }));
  } catch (error) {
    return signOfError(error);
  }
}

/** What tells one file from another; links are followed. */
function signOfStats({ dev, ino, size, mtimeNs, ctimeNs }: BigIntStats): string {
  return `${dev} ${ino} ${size} ${mtimeNs} ${ctimeNs}`;
}

function signOfError(error: unknown): string {
  return error instanceof Error && 'code' in error ? String(error.code) : 'unreadable';
}

/** Of the folder, since a watch on the file itself ends with the file. Without notices the regular looks are left. */
function noticesOf(folder: string, notice: () => void): FSWatcher | undefined {
  try {
    return watch(folder, { persistent: false }, notice).on('error', () => {});
  } catch {
    return undefined;
  }
}
