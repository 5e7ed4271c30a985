/**
 * The PEM files that a configuration names: read once, at load, and checked, so that a wrong one is found at start
 * and not at the first handshake. Messages never hold a file's content.
 */
import { createPrivateKey, X509Certificate, type KeyObject } from 'node:crypto';
import { readFileSync, statSync } from 'node:fs';
import { resolve } from 'node:path';

import type { KeyPath } from './problem.ts';
import { pathText } from './problem.ts';

/** A bundle of all public authorities has about 220 KiB. */
const largestFileBytes = 4 * 1024 * 1024;

export interface PemFiles {
  /** By path text of the key that names the file. */
  readonly texts: ReadonlyMap<string, string>;
  readonly problems: readonly { readonly path: KeyPath; readonly message: string }[];
}

/**
 * @param value the file's value, checked or not: whatever else is wrong, these files are looked at
 * @param folder what relative paths are relative to
 */
export function readPemFiles(value: unknown, folder: string): PemFiles {
  const texts = new Map<string, string>();
  const problems: { path: KeyPath; message: string }[] = [];
  const read = <T>(path: KeyPath, check: (pem: string) => T): T | undefined => {
    const name = at(value, path);
    if (typeof name !== 'string' || name === '') return undefined;
    try {
      const pem = readSmallFile(resolve(folder, name));
      const checked = check(pem);
      texts.set(pathText(path), pem);
      return checked;
    } catch (error) {
      problems.push({ path, message: error instanceof PemFault ? error.message : readFault(error) });
      return undefined;
    }
  };
  const certificates = read(['tls', 'certFile'], parseCertificates);
  const key = read(['tls', 'keyFile'], parseKey);
  if (key !== undefined && certificates?.[0]?.checkPrivateKey(key) === false) {
    problems.push({
      path: ['tls', 'keyFile'],
      message: 'this key does not belong to the first certificate in tls.certFile',
    });
  }
  const backends = at(value, ['backends']);
  for (const index of Array.isArray(backends) ? backends.keys() : []) {
    read(['backends', index, 'tls', 'caFile'], parseCertificates);
  }
  const names = at(value, ['discovery', 'dns']);
  for (const index of Array.isArray(names) ? names.keys() : []) {
    read(['discovery', 'dns', index, 'tls', 'caFile'], parseCertificates);
  }
  return { texts, problems };
}

class PemFault extends Error {}

function readSmallFile(path: string): string {
  const stats = statSync(path);
  // A device or a pipe tells no size, and may never end.
  if (!stats.isFile() && !stats.isDirectory()) throw new PemFault('this is no regular file');
  if (stats.size > largestFileBytes) throw new PemFault('the file is larger than 4 MiB; that is no PEM file');
  return readFileSync(path, 'utf8');
}

function readFault(error: unknown): string {
  const code = error instanceof Error && 'code' in error ? String(error.code) : 'unknown error';
  if (code === 'ENOENT') return 'the file is not there';
  if (code === 'EACCES') return 'the file may not be read by this user';
  if (code === 'EISDIR') return 'this is a folder, not a file';
  return `the file can't be read (${code})`;
}

function parseCertificates(pem: string): readonly X509Certificate[] {
  const blocks = pem.match(/-----BEGIN CERTIFICATE-----[\s\S]*?-----END CERTIFICATE-----/g);
  if (blocks === null) throw new PemFault('the file holds no certificate in PEM form (BEGIN CERTIFICATE)');
  try {
    return blocks.map((block) => new X509Certificate(block));
  } catch {
    throw new PemFault('a certificate in this file is damaged');
  }
}

function parseKey(pem: string): KeyObject {
  if (/ENCRYPTED/.test(pem)) throw new PemFault('the key is encrypted; give one without a passphrase');
  try {
    return createPrivateKey(pem);
  } catch {
    throw new PemFault('the file holds no private key in PEM form');
  }
}

function at(value: unknown, path: KeyPath): unknown {
  let held = value;
  for (const key of path) {
    if (typeof held !== 'object' || held === null || !Object.hasOwn(held, key)) return undefined;
    held = (held as Readonly<Record<string | number, unknown>>)[key];
  }
  return held;
}
