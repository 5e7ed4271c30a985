/** What an error of the file system means to those who keep files in a directory. */
import { StoreError } from '../store/port.ts';

export function isAbsent(error: unknown): boolean {
  return codeOf(error) === 'ENOENT';
}

/** @returns a `StoreError` with the directory's path; what is no error of the system is returned as it is */
export function shelfFault(error: unknown, directory: string): unknown {
  const code = codeOf(error);
  if (error instanceof StoreError || code === undefined) return error;
  const cause = { cause: error };
  if (code === 'ENOSPC' || code === 'EDQUOT')
    return new StoreError('full', `the disk under ${directory} is full: work goes on once there is room`, cause);
  if (code === 'EROFS') return new StoreError('away', `${directory} is read-only`, cause);
  return new StoreError('away', `${directory}: ${(error as Error).message}`, cause);
}

function codeOf(error: unknown): string | undefined {
  const { code, syscall } = (error ?? {}) as { code?: unknown; syscall?: unknown };
  return typeof code === 'string' && typeof syscall === 'string' ? code : undefined;
}
