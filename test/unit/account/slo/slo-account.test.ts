import { describe, expect, it } from 'vitest';
import { windowOf } from '../../../../src/account/slo/goodput-view.ts';
import { createSloAccount } from '../../../../src/account/slo/slo-account.ts';
import type { Count } from '../../../../src/account/slo/slo-counts.ts';
import { allProfiles, type SloSettings } from '../../../../src/account/slo/slo-settings.ts';
import type { Job } from '../../../../src/domain/job.ts';
import type { RequestRecord } from '../../../../src/domain/record.ts';
import { createMeter } from '../../../../src/export/metrics/meter.ts';
import { jobOf } from '../../../support/observe.ts';
import { straight, streamOf } from '../../../support/slo-record.ts';

const settings: SloSettings = {
  profiles: allProfiles({}),
  fallback: 'chat',
  routes: {},
  models: { other: 'voice' },
  checks: { usable: true, maxTextBytes: 1024, retries: true, retryWithinMs: 10_000 },
};

function world(change: Partial<SloSettings> = {}) {
  const meter = createMeter({ maxSeries: 100 });
  const count: Count = (name, labels, n = 1) => void (meter.counter(name, labels).value += n);
  const account = createSloAccount(
    { ...settings, ...change },
    {
      aliases: {},
      startMs: 0,
      count,
      modelLabel: (model = 'none') => model,
    },
  );
  const book = (record: RequestRecord, job: Partial<Job> = {}, nowMs = 1000): RequestRecord => {
    const assessment = account.assess(record, { ...jobOf({}), ...job });
    const assessed = { ...record, assessment: { ...record.assessment, ...assessment } };
    account.add(assessed, nowMs);
    return assessed;
  };
  const counted = () =>
    Object.fromEntries(
      meter
        .collect()
        .flatMap(({ name, points }) =>
          points.map(({ labels, value }) => [`${name} ${labels.map((label) => label.join('=')).join(' ')}`, value]),
        ),
    );
  return { account, book, counted };
}

const fast = streamOf({ ...straight, tokens: [100, 130, 160] });
const slow = streamOf({ ...straight, tokens: [900, 930, 960] });

describe('the account of objectives', () => {
  it('says of a request how it stood, and of a repetition that it is one', () => {
    const { account } = world();
    expect(account.assess(fast, jobOf({}))).toEqual({
      slo: { profile: 'chat', met: true, breaches: [], benefitTokens: 3 },
    });
    const failed = streamOf({ ...straight, outcome: 'timeout', end: 100 });
    const job = { ...jobOf({}), slo: 'none', fingerprint: 'f' };
    expect(account.assess(failed, job)).toBeUndefined();
    const later = { ...fast, timeline: { ...fast.timeline, received: 2000 } };
    expect(account.assess(later, job)).toEqual({ retry: true });
  });

  it('counts each judged request once, missed ones by bound and phase', () => {
    const { book, counted } = world();
    book(fast);
    book(slow);
    book(streamOf({ ...straight, outcome: 'timeout', end: 100, more: { phase: 'queued' } }));
    const of = 'model=m backend=b1 lane=online';
    expect(counted()).toMatchObject({
      [`warmlane.slo.judged profile=chat ${of}`]: 3,
      [`warmlane.slo.met profile=chat ${of}`]: 1,
      [`warmlane.slo.missed profile=chat ${of} bound=ttft phase=prefill`]: 1,
      [`warmlane.slo.missed profile=chat ${of} bound=failed phase=queued`]: 1,
      [`warmlane.slo.good_tokens profile=chat ${of}`]: 3,
      [`warmlane.useful_tokens ${of}`]: 6,
    });
  });

  it('has the counters of a ratio both from its first request on', () => {
    const { book, counted } = world();
    book(slow);
    const of = 'profile=chat model=m backend=b1 lane=online';
    expect(counted()).toMatchObject({ [`warmlane.slo.judged ${of}`]: 1, [`warmlane.slo.met ${of}`]: 0 });
  });

  it('keeps benefit and harm apart, so that both only rise', () => {
    const { book, counted } = world({ fallback: 'reading' });
    book(streamOf({ ...straight, tokens: [100, 130, 3130] }));
    book(fast);
    const of = 'profile=reading model=m backend=b1 lane=online';
    // Read from 100 ms on at 30 ms a token: the last one is due at 190 and comes at 3130.
    expect(counted()[`warmlane.slo.harm_tokens ${of}`]).toBeCloseTo((3130 - 190) / 30 - 3, 9);
    expect(counted()[`warmlane.slo.benefit_tokens ${of}`]).toBe(3);
  });

  it('counts what was checked, what was useless and why, and repetitions', () => {
    const { book, counted } = world();
    const useless = ['tool_arguments', 'cut_by_length'] as const;
    book({ ...fast, assessment: { useless } }, { fingerprint: 'f' });
    const again = { ...fast, timeline: { ...fast.timeline, received: 2000 }, assessment: { useless: [] } };
    book(again, { fingerprint: 'f' });
    const of = 'model=m backend=b1 lane=online';
    expect(counted()).toMatchObject({
      [`warmlane.answers.checked ${of}`]: 2,
      [`warmlane.answers.useless ${of} useless=tool_arguments`]: 1,
      [`warmlane.answers.useless ${of} useless=cut_by_length`]: 1,
      [`warmlane.client_retries ${of}`]: 1,
      [`warmlane.useful_tokens ${of}`]: 3,
    });
  });

  it('counts names that no profile has', () => {
    const { book, counted, account } = world();
    book(fast, { slo: 'nope' });
    expect(counted()['warmlane.slo.unknown_profiles ']).toBe(1);
    expect(account.page(1, 2000)).toMatchObject({ unknownNames: 1 });
  });

  it('tells the targets of the profiles that are in use', () => {
    const { book, account } = world();
    const names = () => [...account.targets()].map(({ profile, share }) => [profile, share]);
    expect(names()).toEqual([
      ['chat', 0.99],
      ['voice', 0.95],
    ]);
    book(fast, { slo: 'reading' });
    expect(names()).toContainEqual(['reading', 0.95]);
  });

  it('shows attainment, rates, and what missed', () => {
    const { book, account } = world();
    for (let i = 0; i < 3; i += 1) book(fast, {}, 1000);
    book(slow, {}, 2000);
    book(fast, { slo: 'none' }, 3000);
    const page = account.page(5, 10_000) as { windows: object[] };
    const rates = {
      requests: 4,
      requestsPerSecond: 0.4,
      tokensPerSecond: 1.2,
      usefulTokensPerSecond: 1.2,
      useless: 0,
      retries: 0,
      judged: 4,
      met: 3,
      goodputRequestsPerSecond: 0.3,
      goodputTokensPerSecond: 0.9,
    };
    expect(page.windows).toMatchObject([
      {
        minutes: 5,
        coveredMs: 10_000,
        all: { requests: 5, requestsPerSecond: 0.5, judged: 4 },
        profiles: [
          {
            profile: 'chat',
            targetPercent: 99,
            attainedPercent: 75,
            holds: false,
            ...rates,
            missed: [{ bound: 'ttft', phase: 'prefill', requests: 1 }],
          },
        ],
        by: [
          { profile: 'chat', model: 'm', backend: 'b1', lane: 'online', attainedPercent: 75, ...rates },
          { model: 'm', backend: 'b1', lane: 'online', requests: 1, judged: 0 },
        ],
      },
    ]);
    // Absent is not zero: what nobody judged has neither attainment nor goodput.
    const by = (page.windows[0] as { by: object[] }).by[1];
    expect(Object.keys(by ?? {}).filter((key) => /attained|holds|goodput|^met$/i.test(key))).toEqual([]);
    expect((account.page(undefined, 10_000) as { windows: object[] }).windows).toHaveLength(3);
  });
});

describe('a window', () => {
  it('is named by its minutes', () => {
    expect(['1', '5m', '60', '60m', '1h'].map(windowOf)).toEqual([1, 5, 60, 60, 60]);
    expect(['', '0', '2', '5s', '-1', 'x', '601'].map(windowOf)).toEqual(Array.from({ length: 7 }, () => undefined));
  });
});
