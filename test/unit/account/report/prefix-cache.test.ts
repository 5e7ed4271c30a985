import { describe, expect, it } from 'vitest';
import { createPrefixCacheAccount } from '../../../../src/account/report/prefix-cache.ts';
import { prefixCacheLines } from '../../../../src/cli/report-cache-text.ts';
import { row } from '../../../support/log-rows.ts';

const routed = {
  reusableTokens: 800,
  predictedTokens: 500,
  missed: ['unaligned:1', 'diverged:599'],
  divergedAt: '0:0-256',
};

function account(...rows: readonly Parameters<typeof row>[0][]) {
  const cache = createPrefixCacheAccount();
  for (const fields of rows) cache.add(row(fields));
  return cache.result();
}

describe('the prefix cache in a report', () => {
  it('sums what was reusable, captured and delivered over the answers that told and were predicted', () => {
    const { all, byBackend, divergences } = account(
      { ...routed, promptTokens: 1000, cachedTokens: 400 },
      { ...routed, promptTokens: 1000, cachedTokens: 600, backend: 'c', missed: ['unaligned:400'] },
      { promptTokens: 1000, cachedTokens: 600 },
      { ...routed, promptTokens: 1000, cachedTokens: undefined },
      { ...routed, promptTokens: 1000, cachedTokens: 900, warmth: 'replayed' },
      { ...routed, promptTokens: 1000, cachedTokens: 900, endpoint: 'embeddings' },
      { ...routed, promptTokens: 1000, cachedTokens: 900, marks: ['warm_up'] },
    );
    expect(all).toEqual({
      answers: 2,
      promptTokens: 2000,
      reusableTokens: 1600,
      capturedTokens: 1000,
      deliveredTokens: 1000,
      falseHitTokens: 100,
      falseMissTokens: 100,
      reusable: 0.8,
      captured: 0.5,
      delivered: 0.5,
      bias: 0,
      error: 0.1,
      missed: { diverged: 599, unaligned: 401 },
    });
    expect(Object.keys(byBackend)).toEqual(['b', 'c']);
    expect(divergences).toEqual([{ place: '0:0-256', requests: 3, lostTokens: 600 }]);
  });

  it('is the same of a log in logfmt, and says nothing of one without predictions', () => {
    const { all } = account({ promptTokens: 1000, cachedTokens: 600 });
    expect(all).toMatchObject({ answers: 0, promptTokens: 0 });
    expect(all).not.toHaveProperty('bias');
    expect(prefixCacheLines(account({ promptTokens: 1000, cachedTokens: 600 }))).toEqual([]);
  });

  it('is told in a table, with causes and places below it', () => {
    const result = account(
      { ...routed, promptTokens: 1000, cachedTokens: 400 },
      {
        ...routed,
        promptTokens: 3000,
        cachedTokens: 400,
        backend: 'c',
        missed: ['new:2600'],
        divergedAt: 'tools:0-256',
      },
    );
    expect(prefixCacheLines(result)).toEqual([
      '       prompt  reusable  captured  delivered      bias     error  answers',
      '  all   4,000    40.0 %    25.0 %     20.0 %  5.00 pts  5.00 pts        2',
      '  c     3,000    26.7 %    16.7 %     13.3 %  3.33 pts  3.33 pts        1',
      '  b     1,000    80.0 %    50.0 %     40.0 %  10.0 pts  10.0 pts        1',
      '  Missed, of all prompt tokens: new 65.0 %, diverged 15.0 %, unaligned <0.1 %.',
      '  Held by another backend than the one they were sent to: 600 tokens (15.0 %).',
      '  Where prompts first differ from earlier ones, by tokens lost behind it: tools, bytes 0–256 (2,200',
      '  in 1 request); message 0, bytes 0–256 (200 in 1 request).',
    ]);
  });

  it('reads what was missed word by word, and leaves out what is none', () => {
    expect(row({ missed: ['new:5', 'x', ':7', 'diverged:-1', 'evicted:2'] }).missed).toEqual([
      { cause: 'new', tokens: 5 },
      { cause: 'evicted', tokens: 2 },
    ]);
    expect(row().missed).toBeUndefined();
  });
});
