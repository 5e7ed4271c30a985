import { describe, expect, it } from 'vitest';
import { jobOf } from '../../support/classified.ts';

describe('service_tier', () => {
  it.each([
    ['"flex"', 'batch'],
    ['"batch"', 'batch'],
    ['"fle\\u0078"', 'batch'],
    ['"auto"', 'online'],
    ['"priority"', 'online'],
    ['"FLEX"', 'online'],
    ['["flex"]', 'online'],
    ['null', 'online'],
  ])('%s is the %s lane', (tier, lane) => {
    for (const path of ['/v1/chat/completions', '/v1/responses', '/v1/embeddings'])
      expect(jobOf({ line: `POST ${path}`, body: `{"model":"m","service_tier":${tier}}` }).lane).toBe(lane);
  });

  it('counts at the top of the body only', () => {
    expect(jobOf({ body: '{"model":"m","metadata":{"service_tier":"flex"}}' }).lane).toBe('online');
  });
});
