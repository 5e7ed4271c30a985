/**
 * Brings result files from the server to a file or to stdout, as they come. A file is there whole or not at all: it is
 * written beside its place and then moved there; a connection that breaks means from the beginning, a few times.
 */
import { randomBytes } from 'node:crypto';
import { constants, createWriteStream } from 'node:fs';
import { access, open, rename, rm, stat } from 'node:fs/promises';
import { pipeline } from 'node:stream/promises';

import type { BatchApi, Got } from './batch-api.ts';
import { reasonOf } from './input-file.ts';

export interface FetchDeps {
  readonly api: Pick<BatchApi, 'content'>;
  readonly sleep: (ms: number) => Promise<void>;
  readonly signal: AbortSignal;
}

const tries = 5;
const pauseMs = 1000;

/** @param fileId undefined: there are no such lines, and the file is made empty @returns its bytes */
export async function fetchToFile(fileId: string | undefined, path: string, deps: FetchDeps): Promise<Got<number>> {
  for (let round = 1; ; round += 1) {
    const got = await tryOnce(fileId, path, deps);
    if (got.ok || !got.failure.passing || round === tries || deps.signal.aborted) return got;
    await deps.sleep(pauseMs * round);
  }
}

async function tryOnce(fileId: string | undefined, path: string, { api, signal }: FetchDeps): Promise<Got<number>> {
  const content = fileId === undefined ? { ok: true as const, value: undefined } : await api.content(fileId);
  if (!content.ok) return content;
  const { body, bytes: told } = content.value ?? {};
  const direct = await isSpecial(path);
  const beside = direct ? path : besideOf(path);
  let bytes = 0;
  let broken: string | undefined;
  async function* counted(pieces: AsyncIterable<Buffer>): AsyncGenerator<Buffer> {
    try {
      for await (const piece of pieces) {
        bytes += piece.length;
        yield piece;
      }
      if (told !== undefined && told !== bytes) throw new Error(`${bytes} of ${told} bytes came`);
    } catch (error) {
      broken = reasonOf(error);
      throw error;
    }
  }
  try {
    // A response without encoding gives buffers.
    await pipeline(body === undefined ? [] : counted(body as AsyncIterable<Buffer>), createWriteStream(beside), {
      signal,
    });
    if (!direct) await rename(beside, path);
    return { ok: true, value: bytes };
  } catch (error) {
    if (!direct) await rm(beside, { force: true });
    return broken === undefined
      ? { ok: false, failure: { says: `${path}: ${reasonOf(error)}`, passing: false } }
      : { ok: false, failure: { says: `the results did not come whole: ${broken}`, passing: true } };
  }
}

/**
 * Whether a file of results could be put there: to be found before a long wait, not behind it. Tries it, and leaves nothing.
 * @returns why not
 */
export async function placeProblem(path: string): Promise<string | undefined> {
  try {
    const found = await stat(path).catch(() => undefined);
    if (found?.isDirectory() === true) return `${path}: is a folder`;
    if (found !== undefined && !found.isFile()) {
      // To open a pipe would be to wait for its reader.
      await access(path, constants.W_OK);
      return undefined;
    }
    const beside = besideOf(path);
    const handle = await open(beside, 'wx');
    await handle.close();
    await rm(beside);
    return undefined;
  } catch (error) {
    return `${path}: ${reasonOf(error)}`;
  }
}

function besideOf(path: string): string {
  return `${path}.${randomBytes(4).toString('hex')}.part`;
}

/** A pipe or a device: written to as it is, never put another file's place. */
async function isSpecial(path: string): Promise<boolean> {
  try {
    return !(await stat(path)).isFile();
  } catch {
    // Not there yet; what else is wrong shows when it is written.
    return false;
  }
}

/** @param write takes the next piece once the last one is gone */
export async function fetchToOutput(
  fileId: string,
  { api }: Pick<FetchDeps, 'api'>,
  write: (piece: Uint8Array) => Promise<void>,
): Promise<Got<number>> {
  const content = await api.content(fileId);
  if (!content.ok) return content;
  let bytes = 0;
  try {
    for await (const chunk of content.value.body as AsyncIterable<Buffer>) {
      bytes += chunk.length;
      await write(chunk);
    }
  } catch (error) {
    // Something of it is out already: a second try would double it.
    return {
      ok: false,
      failure: { says: `the results broke off after ${bytes} bytes: ${reasonOf(error)}`, passing: false },
    };
  }
  return { ok: true, value: bytes };
}
