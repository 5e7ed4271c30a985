/** What an error of Postgres, or of the way to it, means to those who keep batches there. Pure. */
import { StoreError, type StoreFault } from './port.ts';

/** By SQLSTATE, or its class: https://www.postgresql.org/docs/current/errcodes-appendix.html */
const faults: readonly (readonly [code: string, fault: StoreFault])[] = [
  ['53100', 'full'],
  ['55P03', 'busy'],
  ['40001', 'busy'],
  ['40P01', 'busy'],
  // cancelled by its time limit
  ['57014', 'away'],
  // a replica, or a disk that went read-only
  ['25006', 'away'],
  // the time limit of a transaction that stands still
  ['25P03', 'away'],
  ['08', 'away'],
  ['53', 'away'],
  ['57P', 'away'],
  ['58', 'away'],
];

/** Of the fault that was made of it: to be tried again at once, another transaction was in the way. */
export function isCollision(fault: unknown): boolean {
  const state = fault instanceof StoreError ? sqlState(fault.cause) : undefined;
  return state === '40001' || state === '40P01';
}

/** Of the fault that was made of it: the connection is of no use any more. */
export function endsConnection(fault: unknown): boolean {
  if (!(fault instanceof StoreError) || fault.cause === undefined) return false;
  const state = sqlState(fault.cause);
  return state === undefined || state.startsWith('08') || state.startsWith('57P') || state === '25P03';
}

/**
 * @param error what the driver threw
 * @param target host, port and database, for people
 */
export function postgresFault(error: unknown, target: string): StoreError {
  const state = sqlState(error);
  const detail = error instanceof Error ? error.message || error.name : String(error);
  const cause = { cause: error };
  // Without a code of the server's it is the connection: refused, reset, timed out.
  if (state === undefined) return new StoreError('away', `Postgres at ${target} can't be reached: ${detail}`, cause);
  const fault = faults.find(([code]) => state.startsWith(code))?.[1] ?? 'broken';
  return new StoreError(fault, `Postgres at ${target}: ${detail} (${state})`, cause);
}

/** Only the server's own errors have five characters and a severity; those of the system have a `code` too. */
function sqlState(error: unknown): string | undefined {
  const { code, severity } = (error ?? {}) as { code?: unknown; severity?: unknown };
  return typeof code === 'string' && code.length === 5 && typeof severity === 'string' ? code : undefined;
}
