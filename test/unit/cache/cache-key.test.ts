import fc from 'fast-check';
import { describe, expect, it } from 'vitest';

import { cacheKey, type KeyParts } from '../../../src/cache/cache-key.ts';

const body = '{"model":"m","temperature":0,"messages":[]}';

function keyOf(
  over: Partial<Omit<KeyParts, 'header' | 'body'>> & { headers?: Record<string, string>; body?: string[] },
) {
  const { headers = {}, body: pieces = [body], ...rest } = over;
  return cacheKey({
    method: 'POST',
    target: '/v1/chat/completions',
    model: 'm',
    tenantHeaders: [],
    ...rest,
    header: (name) => headers[name],
    body: pieces.map((piece) => Buffer.from(piece)),
  });
}

describe('the key of an answer', () => {
  const plain = keyOf({});

  it('is one for all keys of a tenant that warmlane knows, and another for each tenant', () => {
    const of = (tenant: string | undefined, key: string) =>
      keyOf({ tenant, headers: { authorization: `Bearer ${key}` } });
    expect(of('a', 'k1')).toBe(of('a', 'k2'));
    expect(new Set([of('a', 'k1'), of('b', 'k1'), of(undefined, 'k1'), of(undefined, 'k2'), of('', 'k1')]).size).toBe(
      5,
    );
  });

  it('is the same for the same bytes, however they came in pieces', () => {
    fc.assert(
      fc.property(fc.nat(body.length), (cut) => {
        expect(keyOf({ body: [body.slice(0, cut), body.slice(cut)] })).toBe(plain);
      }),
    );
  });

  it('differs by any one byte of the body', () => {
    fc.assert(
      fc.property(fc.nat(body.length - 1), fc.integer({ min: 1, max: 255 }), (at, flip) => {
        const changed = Buffer.from(body);
        changed[at] = (changed[at] ?? 0) ^ flip;
        const key = cacheKey({
          method: 'POST',
          target: '/v1/chat/completions',
          model: 'm',
          tenantHeaders: [],
          header: () => undefined,
          body: [changed],
        });
        expect(key).not.toBe(plain);
      }),
    );
  });

  it.each([
    ['path', { target: '/v1/completions' }],
    ['query', { target: '/v1/chat/completions?a=1' }],
    ['method', { method: 'PUT' }],
    ['model behind an alias', { model: 'other' }],
    ['no model', { model: undefined }],
  ])('differs by %s', (_what, over) => {
    expect(keyOf(over)).not.toBe(plain);
  });

  it.each(['accept', 'origin', 'content-type', 'anthropic-version', 'openai-beta'])('differs by %s', (name) => {
    expect(keyOf({ headers: { [name]: 'x' } })).not.toBe(plain);
  });

  it.each(['authorization', 'x-api-key', 'api-key', 'cookie', 'openai-organization', 'openai-project'])(
    'keeps tenants apart by %s',
    (name) => {
      const [one, two] = [keyOf({ headers: { [name]: 'one' } }), keyOf({ headers: { [name]: 'two' } })];
      expect(new Set([plain, one, two]).size).toBe(3);
    },
  );

  it('does not take one credential for another, nor an empty one for none', () => {
    const keys = [
      keyOf({ headers: { authorization: 'k' } }),
      keyOf({ headers: { 'x-api-key': 'k' } }),
      keyOf({ headers: { authorization: '' } }),
      plain,
    ];
    expect(new Set(keys).size).toBe(keys.length);
  });

  it('keeps tenants apart by a configured header, and only then', () => {
    const headers = { 'x-tenant': 'a' };
    expect(keyOf({ headers })).toBe(plain);
    const configured = (value: string) => keyOf({ headers: { 'x-tenant': value }, tenantHeaders: ['x-tenant'] });
    expect(configured('a')).not.toBe(configured('b'));
  });

  it('does not let one part run over into the next', () => {
    const shifted = cacheKey({
      method: 'POST',
      target: '/v1/chat/completionsm',
      model: '',
      tenantHeaders: [],
      header: () => undefined,
      body: [Buffer.from(body)],
    });
    expect(shifted).not.toBe(plain);
  });
});
