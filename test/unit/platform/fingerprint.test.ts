import fc from 'fast-check';
import { beforeAll, describe, expect, it } from 'vitest';
import { createFingerprint, type Fingerprint, maxHashedBytes } from '../../../src/platform/fingerprint.ts';
import type { RequestBody } from '../../../src/platform/upstream/port.ts';
import { loadXxhash, type Xxhash } from '../../../src/platform/xxhash.ts';

let hash: Xxhash;
let print: Fingerprint;
beforeAll(async () => {
  hash = await loadXxhash();
  print = createFingerprint(hash);
});

function held(...pieces: readonly string[]): RequestBody {
  const chunks = pieces.map((piece) => Buffer.from(piece));
  return { kind: 'held', chunks, bytes: chunks.reduce((sum, { length }) => sum + length, 0) };
}

function head(
  headers: Readonly<Record<string, string>> = {},
  remoteAddress = '10.0.0.1',
  target = '/v1/chat/completions',
) {
  return { method: 'POST', target, remoteAddress, header: (name: string) => headers[name] };
}

describe('XXH64', () => {
  it('gives the values of its specification, whole and in pieces', () => {
    // Source: xxHash's own sanity values for the empty input and for "abc".
    expect(hash.start(0n).digest()).toBe(0xef46db3751d8e999n);
    expect(hash.start(0n).update('abc').digest()).toBe(0x44bc2cf5ad770999n);
    expect(hash.start(0n).update(Buffer.from('a')).update(Buffer.from('bc')).digest()).toBe(0x44bc2cf5ad770999n);
  });
});

describe('a fingerprint', () => {
  it('is the same for the same bytes of the same client, however they were cut', () => {
    const headers = { authorization: 'Bearer sk-1' };
    fc.assert(
      fc.property(fc.string({ minLength: 1, maxLength: 300 }), fc.nat(), (body, at) => {
        const bytes = Buffer.from(body);
        const cut = at % bytes.length;
        const pieces: RequestBody = {
          kind: 'held',
          chunks: [bytes.subarray(0, cut), bytes.subarray(cut)],
          bytes: bytes.length,
        };
        expect(print(head(headers), pieces)).toBe(print(head(headers), held(body)));
      }),
    );
  });

  it('differs by body, path, address, credentials, and by what a balancer says', () => {
    const prints = [
      print(head(), held('{"a":1}')),
      print(head(), held('{"a":2}')),
      print(head({}, '10.0.0.1', '/v1/completions'), held('{"a":1}')),
      print(head({}, '10.0.0.2'), held('{"a":1}')),
      print(head({ authorization: 'Bearer sk-1' }), held('{"a":1}')),
      print(head({ 'x-api-key': 'Bearer sk-1' }), held('{"a":1}')),
      print(head({ 'x-forwarded-for': '1.2.3.4' }), held('{"a":1}')),
    ];
    expect(new Set(prints).size).toBe(prints.length);
  });

  it('holds no part of a key, and means nothing in another process', () => {
    const made = print(head({ authorization: 'Bearer sk-secret' }), held('{}'));
    expect(made).toMatch(/^[\w-]{22}[0-9a-f]{16}$/);
    expect(createFingerprint(hash)(head({ authorization: 'Bearer sk-secret' }), held('{}'))).not.toBe(made);
  });

  it('is none of a body that streams, is empty, or is too large to be hashed at once', () => {
    const stream: RequestBody = { kind: 'stream', bytes: 5, start() {}, drained() {} };
    const large: RequestBody = { kind: 'held', chunks: [], bytes: maxHashedBytes + 1 };
    for (const body of [stream, large, { kind: 'none' } as const, held()]) expect(print(head(), body)).toBeUndefined();
  });
});
