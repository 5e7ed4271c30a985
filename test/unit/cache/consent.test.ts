import { describe, expect, it } from 'vitest';

import { cacheUse } from '../../../src/cache/consent.ts';

const say = (repeatable: 'always' | 'on_request' | undefined, own?: string, cacheControl?: string) =>
  cacheUse(repeatable === undefined ? {} : { repeatable }, { own, cacheControl });

describe('who may be answered from the cache', () => {
  it('is a deterministic request that says nothing', () => {
    expect(say('always')).toBe('use');
  });

  it('is another one only when its client allows it', () => {
    expect(say('on_request')).toBe('none');
    expect(say('on_request', 'yes')).toBe('none');
    expect(say('on_request', 'Allow')).toBe('use');
  });

  it('is never one that leaves something behind, whatever its client says', () => {
    expect(say(undefined, 'allow')).toBe('none');
  });

  it('is nobody who stays out of it', () => {
    expect(say('always', 'bypass')).toBe('none');
    expect(say('always', undefined, 'no-store')).toBe('none');
    expect(say('on_request', 'allow', 'max-age=60, No-Store')).toBe('none');
  });

  it('asks anew and keeps that where its client wants a fresh answer', () => {
    expect(say('always', 'refresh')).toBe('refresh');
    expect(say('always', undefined, 'no-cache')).toBe('refresh');
    expect(say('always', undefined, 'max-age=0')).toBe('refresh');
    expect(say('on_request', 'refresh')).toBe('none');
    expect(say('on_request', 'allow, refresh')).toBe('refresh');
  });
});
