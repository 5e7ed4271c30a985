import { describe, expect, it } from 'vitest';
import { parseTarget, targetKey } from '../../../../src/platform/upstream/target.ts';

describe('the target of a backend URL', () => {
  it.each([
    [
      'http://127.0.0.1:8000',
      { secure: false, host: '127.0.0.1', port: 8000, authority: '127.0.0.1:8000', pathPrefix: '' },
    ],
    ['http://gpu-1/', { secure: false, host: 'gpu-1', port: 80, authority: 'gpu-1', pathPrefix: '' }],
    ['http://gpu-1:80', { secure: false, host: 'gpu-1', port: 80, authority: 'gpu-1', pathPrefix: '' }],
    [
      'https://Models.Example/v1/',
      { secure: true, host: 'models.example', port: 443, authority: 'models.example', pathPrefix: '/v1' },
    ],
    [
      'https://gpu-1:8443/a/b',
      { secure: true, host: 'gpu-1', port: 8443, authority: 'gpu-1:8443', pathPrefix: '/a/b' },
    ],
    ['http://[::1]:8000', { secure: false, host: '::1', port: 8000, authority: '[::1]:8000', pathPrefix: '' }],
    [
      'https://[2001:db8::1]',
      { secure: true, host: '2001:db8::1', port: 443, authority: '[2001:db8::1]', pathPrefix: '' },
    ],
  ])('of %s', (url, expected) => {
    expect(parseTarget(url)).toEqual(expected);
  });

  it('carries what TLS needs', () => {
    const tls = { ca: 'PEM', verify: true };
    expect(parseTarget('https://gpu-1', tls).tls).toEqual(tls);
  });

  it.each([
    'ftp://gpu-1',
    'gpu-1:8000',
    '',
    'http://',
    'http://user:key@gpu-1',
    'http://gpu-1?x=1',
    'http://gpu-1/#x',
    'ws://gpu-1',
  ])('throws for %j', (url) => {
    expect(() => parseTarget(url)).toThrow(RangeError);
  });

  it('never repeats credentials in its error', () => {
    expect(() => parseTarget('http://user:secret@gpu-1')).toThrow(/^((?!secret).)*$/);
  });

  it('has a key that is equal only for the same place and trust', () => {
    const keys = [
      parseTarget('http://gpu-1:443'),
      parseTarget('https://gpu-1'),
      parseTarget('https://gpu-1', { verify: false }),
      parseTarget('https://gpu-1', { verify: true, ca: 'PEM' }),
      parseTarget('https://gpu-1', { verify: true, serverName: 'x' }),
      parseTarget('https://gpu-2'),
    ].map(targetKey);
    expect(new Set(keys).size).toBe(keys.length);
    expect(targetKey(parseTarget('https://gpu-1', { verify: true }))).toBe(targetKey(parseTarget('https://gpu-1/v1')));
  });
});
