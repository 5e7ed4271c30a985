/**
 * Whether a file that warmlane is to append to could be written: asked by `warmlane check`, which must not make it. Serving opens
 * it and says in the log when that fails; what is wrong with it never keeps warmlane from serving.
 */
import { accessSync, constants, statSync } from 'node:fs';
import { dirname } from 'node:path';

/** @returns why it can't be written, undefined where it can */
export function writeFault(path: string): string | undefined {
  const folder = dirname(path);
  let what = `the folder ${folder}`;
  try {
    if (!statSync(folder).isDirectory()) return `${folder} is no folder`;
    const file = statSync(path, { throwIfNoEntry: false });
    if (file?.isDirectory() === true) return 'this is a folder, not a file';
    if (file !== undefined) what = 'the file';
    accessSync(
      file === undefined ? folder : path,
      file === undefined ? constants.W_OK | constants.X_OK : constants.W_OK,
    );
    return undefined;
  } catch (error) {
    return faultText(error, what);
  }
}

function faultText(error: unknown, what: string): string {
  const code = error instanceof Error && 'code' in error ? String(error.code) : 'unknown error';
  if (code === 'ENOENT') return `${what} is not there`;
  if (code === 'EACCES' || code === 'EPERM') return `${what} may not be written by this user`;
  return `${what} can't be written (${code})`;
}
