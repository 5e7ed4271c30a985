/**
 * Store and shelf may be away, busy or full for a while: what is asked of them is asked again until it works, so that a batch
 * waits and loses nothing. Logged once when it begins and once when it is over. Faults that waiting doesn't heal pass.
 */
import type { Clock, Timer } from '../../platform/clock.ts';
import type { Log } from '../../platform/log.ts';
import { StoreError, type StoreFault } from '../store/port.ts';

/** What is done with the storage, and whether the sending of lines waits while it fails. */
const holdsUp = {
  'looking for batches': true,
  'keeping batches': true,
  'reading pending lines': true,
  'writing results': true,
  'reading a line': false,
  'reading results': false,
  'validating an input file': false,
  'writing lines': false,
  'beginning a batch': false,
  'failing a batch': false,
  'closing a batch': false,
  'writing an output file': false,
  'writing an error file': false,
  'ending a batch': false,
} as const;

export type StorageWork = keyof typeof holdsUp;

export interface Patience {
  /** @throws StoreError `lost` or `broken`, what else `call` throws, and the signal's reason once that is aborted */
  persist<T>(what: StorageWork, call: () => Promise<T>, signal: AbortSignal): Promise<T>;
  /** For calls that are repeated anyway: tells how they went. */
  failed(what: StorageWork, fault: StoreFault, error: unknown): void;
  worked(what: StorageWork): void;
  /** No line is to be sent meanwhile. */
  readonly isTroubled: boolean;
}

const firstWaitMs = 200;
const longestWaitMs = 5000;

export function createPatience({ clock, log }: { readonly clock: Clock; readonly log: Log }): Patience {
  const troubled = new Map<StorageWork, StoreFault>();

  function failed(what: StorageWork, fault: StoreFault, error: unknown): void {
    const isKnown = troubled.size > 0;
    troubled.set(what, fault);
    if (isKnown) return;
    log.warn('the storage of batches fails; they wait until it works again', {
      during: what,
      reason: fault,
      error: error instanceof Error ? error.message : String(error),
    });
  }

  function worked(what: StorageWork): void {
    if (!troubled.delete(what) || troubled.size > 0) return;
    log.info('the storage of batches works again');
  }

  return {
    async persist(what, call, signal) {
      for (let waitMs = firstWaitMs; ; waitMs = Math.min(longestWaitMs, waitMs * 2)) {
        try {
          signal.throwIfAborted();
          const result = await call();
          worked(what);
          return result;
        } catch (error) {
          // Nobody is left who would tell that it works again.
          if (signal.aborted) troubled.delete(what);
          if (signal.aborted || !isPassing(error)) throw error;
          failed(what, error.fault, error);
        }
        await pause(clock, waitMs, signal).catch(() => {});
      }
    },
    failed,
    worked,
    get isTroubled() {
      for (const what of troubled.keys()) if (holdsUp[what]) return true;
      return false;
    },
  };
}

function isPassing(error: unknown): error is StoreError {
  return error instanceof StoreError && error.fault !== 'lost' && error.fault !== 'broken';
}

/** Resolves after so long. @throws the signal's reason as soon as that is aborted */
function pause(clock: Clock, ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const end = () => {
      timer.cancel();
      reject(signal.reason as Error);
    };
    const timer: Timer = clock.timer(ms, () => {
      signal.removeEventListener('abort', end);
      resolve();
    });
    if (signal.aborted) end();
    else signal.addEventListener('abort', end, { once: true });
  });
}
