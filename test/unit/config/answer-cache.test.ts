import { describe, expect, it } from 'vitest';

import { configOf, problemsOf } from './load-text.ts';

describe('answerCache', () => {
  it('is off unless enabled', () => {
    expect(configOf('').answerCache).toEqual({
      enabled: false,
      maxBytes: 64 * 1024 * 1024,
      ttlMs: 600_000,
      maxAnswerBytes: 1024 * 1024,
      header: 'x-warmlane-cache',
      tenantHeaders: [],
    });
  });

  it('finds headers whatever their case', () => {
    const { answerCache } = configOf('answerCache: { header: X-Cache, tenantHeaders: [X-Tenant] }');
    expect(answerCache).toMatchObject({ header: 'x-cache', tenantHeaders: ['x-tenant'] });
  });

  it.each(['content-length', 'Date', 'x-', '__proto__'])('takes no %s for its own header in answers', (name) => {
    expect(problemsOf(`answerCache: { header: ${name} }`)).toEqual([expect.stringContaining('begins with x-')]);
  });

  it('says what can be no header and no time', () => {
    expect(problemsOf('answerCache:\n  header: "a b"\n  ttlMs: 0\n  maxbytes: 1\n')).toEqual([
      expect.stringContaining("answerCache.header: must be a header's name"),
      expect.stringContaining('answerCache.ttlMs: must be a whole number of milliseconds from 1'),
      expect.stringContaining('answerCache.maxbytes'),
    ]);
  });
});
