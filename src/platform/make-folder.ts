/**
 * Makes a folder and those above it, one by one. Node's own recursive `mkdir` tries again for ever where the system refuses one
 * with "no such file" (`/proc`, some network and user-space file systems), and can't be stopped meanwhile, not even by a signal.
 */
import { mkdirSync, statSync } from 'node:fs';
import { dirname } from 'node:path';

/**
 * Blocks on the disk: for the start of things. A folder that is there is left as it is.
 * @throws what the system says of the first one that can't be made
 */
export function makeFolder(path: string, mode: number): void {
  const missing: string[] = [];
  for (let at = path; !isFolder(at); at = dirname(at)) {
    missing.push(at);
    if (dirname(at) === at) break;
  }
  for (const folder of missing.toReversed()) {
    try {
      mkdirSync(folder, { mode });
    } catch (error) {
      // Another process may have been quicker.
      if (!isFolder(folder)) throw error;
    }
  }
}

function isFolder(path: string): boolean {
  try {
    return statSync(path).isDirectory();
  } catch {
    // Not there, or below a file: making it says which.
    return false;
  }
}
