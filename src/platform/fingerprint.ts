/**
 * A request's fingerprint: equal for the same bytes from the same client, and nothing can be read back from it. Address and
 * credentials go through a keyed SHA-256, the body through XXH64; both keys are made anew at each start and never leave.
 */
import { createHmac, randomBytes } from 'node:crypto';
import type { ClientHead } from './client-port.ts';
import type { RequestBody } from './upstream/port.ts';
import type { Xxhash } from './xxhash.ts';

/** Whose request it is, as far as can be told: behind a balancer by what that says of it. */
const identifying = ['authorization', 'x-api-key', 'api-key', 'cookie', 'x-forwarded-for', 'forwarded'] as const;
/** A larger body is not hashed: all at once that would hold up the streams for milliseconds. */
export const maxHashedBytes = 4 * 1024 * 1024;

type Asked = Pick<ClientHead, 'method' | 'target' | 'remoteAddress' | 'header'>;

/** @returns undefined for a body that is not there whole, empty or too large */
export type Fingerprint = (head: Asked, body: RequestBody) => string | undefined;

export function createFingerprint(hash: Xxhash): Fingerprint {
  const key = randomBytes(32);
  const seed = randomBytes(8).readBigUInt64LE();
  return (head, body) => {
    if (body.kind !== 'held' || body.bytes === 0 || body.bytes > maxHashedBytes) return undefined;
    const client = createHmac('sha256', key);
    for (const part of [head.remoteAddress, ...identifying.map((name) => head.header(name) ?? '')])
      client.update(`${part.length}:${part}`);
    const stream = hash.start(seed).update(`${head.method} ${head.target}\n`);
    for (const chunk of body.chunks) stream.update(chunk);
    return `${client.digest('base64url').slice(0, 22)}${stream.digest().toString(16).padStart(16, '0')}`;
  };
}
