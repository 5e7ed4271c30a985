import { describe, expect, it } from 'vitest';
import { createSloMatcher } from '../../../../src/account/slo/match.ts';
import { allProfiles, type SloSettings } from '../../../../src/account/slo/slo-settings.ts';
import type { Job } from '../../../../src/domain/job.ts';
import type { RequestRecord } from '../../../../src/domain/record.ts';
import { jobOf } from '../../../support/observe.ts';
import { sampleRecord } from '../../../support/sample-record.ts';

const settings: SloSettings = {
  profiles: allProfiles({ mine: { e2eMs: 1 } }),
  fallback: 'mine',
  routes: { '/v1/completions': 'autocomplete', messages: 'reading', embeddings: 'mine' },
  models: { fast: 'voice', slow: 'mlperf-server' },
  checks: { usable: false, maxTextBytes: 1024, retries: false, retryWithinMs: 1 },
};
const match = createSloMatcher(settings, { quick: 'fast' });

function nameFor(record: Partial<RequestRecord>, job: Partial<Job> | undefined = {}): string | undefined {
  return match(sampleRecord(record), job === undefined ? undefined : { ...jobOf({}), ...job }).profile?.name;
}

describe('the profile of a request', () => {
  it('is what its header names, before all else', () => {
    expect(nameFor({ path: '/v1/completions', model: 'fast' }, { slo: 'chat' })).toBe('chat');
  });

  it('is that of its route, before that of its model', () => {
    expect(nameFor({ path: '/v1/completions', endpoint: 'completions', model: 'fast' })).toBe('autocomplete');
    expect(nameFor({ path: '/v1/messages', endpoint: 'messages', model: 'fast' })).toBe('reading');
  });

  it('is that of its model, by the name asked for, by what that stands for, or by what the answer named', () => {
    expect(nameFor({ model: 'fast' })).toBe('voice');
    expect(nameFor({ model: 'quick' })).toBe('voice');
    expect(nameFor({ responseModel: 'slow' })).toBe('mlperf-server');
    expect(nameFor({ model: 'toString' })).toBe('mine');
  });

  it('is the default one else, and none without', () => {
    expect(nameFor({ model: 'unheard-of' })).toBe('mine');
    const { fallback: _none, ...without } = settings;
    expect(createSloMatcher(without, {})(sampleRecord(), jobOf({}))).toEqual({});
  });

  it('comes from model and default only where something is generated', () => {
    expect(nameFor({ endpoint: 'models', path: '/v1/models', model: 'fast' }, { generates: false })).toBeUndefined();
    expect(nameFor({ endpoint: 'embeddings', path: '/v1/embeddings' }, { generates: false })).toBe('mine');
    expect(nameFor({ endpoint: 'models', path: '/v1/models' }, { generates: false, slo: 'chat' })).toBe('chat');
  });

  it('is found for what was refused before it was classified', () => {
    const refused = (record: Partial<RequestRecord>) => match(sampleRecord(record), undefined).profile?.name;
    expect(refused({})).toBe('mine');
    expect(refused({ endpoint: 'other', path: '/metrics' })).toBeUndefined();
  });

  it('is none in the batch lane unless its header names one: what users were promised is not for what makes way for them', () => {
    const batch = { lane: 'batch' } as const;
    expect(nameFor({ ...batch, model: 'fast' })).toBeUndefined();
    expect(nameFor({ ...batch, path: '/v1/completions', endpoint: 'completions' })).toBeUndefined();
    expect(nameFor({ ...batch, model: 'fast' }, { slo: 'chat' })).toBe('chat');
    expect(match(sampleRecord(batch), { ...jobOf({}), slo: 'no-such-profile' })).toEqual({ unknownName: true });
  });

  it('is none where the header says so', () => {
    expect(match(sampleRecord({ model: 'fast' }), { ...jobOf({}), slo: 'none' })).toEqual({});
  });

  it('passes over a name that no profile has, and says that it did', () => {
    expect(match(sampleRecord({ model: 'fast' }), { ...jobOf({}), slo: 'chta' })).toMatchObject({
      profile: { name: 'voice' },
      unknownName: true,
    });
  });
});
