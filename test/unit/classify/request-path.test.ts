import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { lenientPaths, matchedPath, queryValue, splitTarget } from '../../../src/classify/request-path.ts';

describe('splitTarget', () => {
  it('takes path and query of every form of target', () => {
    expect(splitTarget('/a/b?x=1?y#z')).toEqual({ path: '/a/b', query: 'x=1?y' });
    expect(splitTarget('http://host:80/a?x')).toEqual({ path: '/a', query: 'x' });
    expect(splitTarget('/a#b?c')).toEqual({ path: '/a', query: '' });
    expect(splitTarget('*')).toEqual({ path: '*', query: '' });
    expect(splitTarget('http://host')).toEqual({ path: '', query: '' });
  });
});

describe('matchedPath', () => {
  it('decodes once and leaves slashes, dots and case alone', () => {
    expect(matchedPath('/v1/%63hat%2Fx')).toBe('/v1/chat/x');
    expect(matchedPath('/%2573leep')).toBe('/%73leep');
    expect(matchedPath('//a/../B/')).toBe('//a/../B/');
    expect(matchedPath('/a%zz%')).toBe('/a%zz%');
    expect(matchedPath('/sleep%0A')).toBe('/sleep');
  });
});

describe('lenientPaths', () => {
  it('always hold the plain reading of a plain path', () => {
    const segment = fc.stringMatching(/^[a-z0-9_-]{1,8}$/);
    fc.assert(
      fc.property(fc.array(segment, { minLength: 1, maxLength: 5 }), (segments) => {
        expect(lenientPaths(`/${segments.join('/')}`)).toEqual([segments]);
      }),
    );
  });

  it('hold both ways to read dots beside an empty segment', () => {
    expect(lenientPaths('/slots//../0')).toEqual([['0'], ['slots', '0']]);
  });

  it('never climb above the root', () => {
    expect(lenientPaths('/../../a/./b/..')).toEqual([['a'], ['a']]);
  });
});

describe('queryValue', () => {
  it('is the one value, decoded', () => {
    expect(queryValue('model=a%2Fb&x=1', 'model')).toBe('a/b');
  });

  it('is none when absent, empty or given twice', () => {
    expect([queryValue('', 'm'), queryValue('m=', 'm'), queryValue('m=1&m=2', 'm')]).toEqual([
      undefined,
      undefined,
      undefined,
    ]);
  });
});
