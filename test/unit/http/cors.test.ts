import { describe, expect, it } from 'vitest';
import { allowedOrigin, isPreflight, preflightHeaders, withOwnCors } from '../../../src/http/cors.ts';

const app = 'http://app.test';
const some = { origins: [app, 'https://b.test'] };

function request(method: string, headers: Readonly<Record<string, string>>) {
  return { method, header: (name: string) => headers[name] };
}

describe('an origin', () => {
  it('is allowed when it is listed, exactly, or when all are', () => {
    expect(allowedOrigin(some, app)).toBe(app);
    expect(allowedOrigin(some, 'http://app.test:80')).toBeUndefined();
    expect(allowedOrigin(some, 'http://app.test.evil')).toBeUndefined();
    expect(allowedOrigin(some, 'null')).toBeUndefined();
    expect(allowedOrigin(some, undefined)).toBeUndefined();
    expect(allowedOrigin({ origins: ['*'] }, 'http://any.test')).toBe('*');
  });
});

describe('a preflight', () => {
  it('is an OPTIONS request that names an origin and a method', () => {
    const headers = { origin: app, 'access-control-request-method': 'POST' };
    expect(isPreflight(request('OPTIONS', headers))).toBe(true);
    expect(isPreflight(request('GET', headers))).toBe(false);
    expect(isPreflight(request('OPTIONS', { origin: app }))).toBe(false);
  });

  it('is granted what it asks for', () => {
    const asked = {
      origin: app,
      'access-control-request-method': 'POST',
      'access-control-request-headers': 'authorization, x-stainless-os',
    };
    expect(preflightHeaders(some, request('OPTIONS', asked))).toEqual([
      'Vary',
      'Origin, Access-Control-Request-Method, Access-Control-Request-Headers',
      'Access-Control-Allow-Origin',
      app,
      'Access-Control-Allow-Methods',
      'POST',
      'Access-Control-Allow-Headers',
      'authorization, x-stainless-os',
      'Access-Control-Max-Age',
      '7200',
    ]);
  });

  it('is granted nothing from an origin that is not listed', () => {
    const asked = { origin: 'http://evil.test', 'access-control-request-method': 'POST' };
    expect(preflightHeaders(some, request('OPTIONS', asked)).join()).not.toContain('Allow');
  });
});

describe('an answer', () => {
  it('has no header of that kind but warmlane’s own', () => {
    const raw = [
      'Access-Control-Allow-Origin',
      '',
      'access-control-allow-credentials',
      'true',
      'X-A',
      '1',
      'ACCESS-CONTROL-ALLOW-ORIGIN',
      '*',
    ];
    expect(withOwnCors(raw, some, app)).toEqual([
      'X-A',
      '1',
      'Access-Control-Allow-Origin',
      app,
      'Access-Control-Expose-Headers',
      '*',
      'Vary',
      'Origin',
    ]);
    expect(withOwnCors(raw, some, undefined)).toEqual(['X-A', '1', 'Vary', 'Origin']);
    expect(withOwnCors(raw, { origins: ['*'] }, app)).toEqual([
      'X-A',
      '1',
      'Access-Control-Allow-Origin',
      '*',
      'Access-Control-Expose-Headers',
      '*',
    ]);
  });

  it.each(['Origin', 'Accept-Encoding, origin', '*'])('does not say twice that it varies by origin: %s', (vary) => {
    expect(withOwnCors(['Vary', vary], some, undefined)).toEqual(['Vary', vary]);
  });
});
