import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { chooseLane } from '../../../src/access/lane-choice.ts';
import type { LaneRule } from '../../../src/access/settings.ts';
import type { Job } from '../../../src/domain/job.ts';
import type { Lane } from '../../../src/domain/names.ts';
import { sampleJob } from '../../support/sample.ts';

interface Asked {
  readonly lane?: Lane;
  readonly tenant?: string;
  readonly target?: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly job?: Partial<Job>;
}

function laneOf(rules: readonly LaneRule[], { lane = 'online', tenant = 't', target, headers = {}, job }: Asked): Lane {
  const head = { method: 'POST', target: target ?? '/v1/chat/completions', header: (name: string) => headers[name] };
  return chooseLane(rules, { lane, tenant, head, job: sampleJob(job) });
}

describe('the lane of a request', () => {
  it('is online where nobody says otherwise', () => {
    expect(laneOf([], {})).toBe('online');
  });

  it.each<[string, Asked]>([
    ['its key', { lane: 'batch' }],
    ['service_tier in its body', { job: { lane: 'batch' } }],
    ['its header', { headers: { 'x-warmlane-lane': 'batch' } }],
    ['its header, however it is written', { headers: { 'x-warmlane-lane': ' Batch ' } }],
  ])('is batch by %s', (_, asked) => {
    expect(laneOf([], asked)).toBe('batch');
    expect(laneOf([{ path: '/v1/*', lane: 'online' }], asked)).toBe('batch');
  });

  it('is never raised by a header, nor by anything else that a client sends', () => {
    const headers = { 'x-warmlane-lane': 'online' };
    expect(laneOf([], { lane: 'batch', headers })).toBe('batch');
    expect(laneOf([], { job: { lane: 'batch' }, headers })).toBe('batch');
    expect(laneOf([{ model: 'm', lane: 'batch' }], { headers })).toBe('batch');
  });

  it.each<[LaneRule, Asked, Asked]>([
    [{ path: '/v1/embeddings', lane: 'batch' }, { target: '/v1/embeddings?a=1' }, { target: '/v1/embeddings2' }],
    [{ path: '/v1/emb*', lane: 'batch' }, { target: '/v1/embeddings' }, { target: '/v1/chat/completions' }],
    [{ path: '/v1/embeddings', lane: 'batch' }, { target: '//v1/%65mbeddings' }, { target: '/v1' }],
    [{ path: 'embeddings', lane: 'batch' }, { job: { endpoint: 'embeddings' } }, { job: { endpoint: 'chat' } }],
    [{ model: 'bge', lane: 'batch' }, { job: { model: 'bge' } }, { job: { model: 'bge-m3' } }],
    [{ model: 'bge*', lane: 'batch' }, { job: { model: 'bge-m3' } }, { job: { model: 'qwen' } }],
    [{ model: 'bge', lane: 'batch' }, { job: { model: 'alias', servedModel: 'bge' } }, { job: { model: 'alias' } }],
    [{ tenant: 'night', lane: 'batch' }, { tenant: 'night' }, { tenant: 'day' }],
    [{ header: { name: 'x-job' }, lane: 'batch' }, { headers: { 'x-job': '' } }, {}],
    [
      { header: { name: 'x-job', value: 'n' }, lane: 'batch' },
      { headers: { 'x-job': 'n' } },
      { headers: { 'x-job': 'd' } },
    ],
    [
      { model: 'bge', tenant: 'night', lane: 'batch' },
      { tenant: 'night', job: { model: 'bge' } },
      { tenant: 'day', job: { model: 'bge' } },
    ],
  ])('%j makes %j batch and leaves %j', (rule, hit, miss) => {
    expect(laneOf([rule], hit)).toBe('batch');
    expect(laneOf([rule], miss)).toBe('online');
  });

  it('is by the first rule that matches', () => {
    const rules: LaneRule[] = [
      { tenant: 'team', lane: 'online' },
      { path: 'chat', lane: 'batch' },
    ];
    expect(laneOf(rules, { tenant: 'team' })).toBe('online');
    expect(laneOf(rules, { tenant: 'other' })).toBe('batch');
  });

  it('whatever a client adds, it is never above what it was without', () => {
    const rules: LaneRule[] = [
      { header: { name: 'x-job', value: 'a' }, lane: 'batch' },
      { tenant: 'team', lane: 'online' },
      { path: 'chat', model: 'm', lane: 'batch' },
    ];
    const headers = fc.record(
      { 'x-job': fc.constantFrom('a', 'b'), 'x-warmlane-lane': fc.constantFrom('online', 'batch', 'x') },
      { requiredKeys: [] },
    );
    const caller = { lane: fc.constantFrom<Lane>('online', 'batch'), tenant: fc.constantFrom('team', 'other') };
    fc.assert(
      fc.property(headers, fc.record(caller), (sent, asked) => {
        const without = laneOf(rules, asked);
        const given = laneOf(rules, { ...asked, headers: sent });
        if (without === 'batch') expect(given).toBe('batch');
      }),
    );
  });
});
