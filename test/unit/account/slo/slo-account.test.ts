import { describe, expect, it } from 'vitest';
import { readSloQuery, type SloQuery } from '../../../../src/account/slo/goodput-view.ts';
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
    const use = 'model=m backend=b1 lane=online';
    const of = `${use} warmth=unknown`;
    expect(counted()).toMatchObject({
      [`warmlane.slo.judged profile=chat ${of}`]: 3,
      [`warmlane.slo.met profile=chat ${of}`]: 1,
      [`warmlane.slo.missed profile=chat ${of} bound=ttft phase=prefill`]: 1,
      [`warmlane.slo.missed profile=chat ${of} bound=failed phase=queued`]: 1,
      [`warmlane.slo.good_tokens profile=chat ${of}`]: 3,
      [`warmlane.useful_tokens ${use}`]: 6,
    });
  });

  it('counts each warmth in series of its own, met and missed', () => {
    const { book, counted } = world();
    book({ ...fast, warmth: 'prefix_hit' });
    book({ ...fast, warmth: 'prefix_hit' });
    book({ ...slow, warmth: 'resident' });
    book({ ...slow, warmth: 'cold_start' });
    const of = 'profile=chat model=m backend=b1 lane=online';
    const counts = counted();
    const by = (name: string) =>
      ['prefix_hit', 'resident', 'cold_start'].map((warmth) => counts[`warmlane.slo.${name} ${of} warmth=${warmth}`]);
    expect(by('judged')).toEqual([2, 1, 1]);
    expect(by('met')).toEqual([2, 0, 0]);
    expect(by('good_tokens')).toEqual([6, 0, 0]);
    const missed = (warmth: string) => counts[`warmlane.slo.missed ${of} warmth=${warmth} bound=ttft phase=prefill`];
    expect(['prefix_hit', 'resident', 'cold_start'].map(missed)).toEqual([undefined, 1, 1]);
  });

  it('has the counters of a ratio both from its first request on', () => {
    const { book, counted } = world();
    book(slow);
    const of = 'profile=chat model=m backend=b1 lane=online warmth=unknown';
    expect(counted()).toMatchObject({ [`warmlane.slo.judged ${of}`]: 1, [`warmlane.slo.met ${of}`]: 0 });
  });

  it('keeps benefit and harm apart, so that both only rise', () => {
    const { book, counted } = world({ fallback: 'reading' });
    book(streamOf({ ...straight, tokens: [100, 130, 3130] }));
    book(fast);
    const of = 'profile=reading model=m backend=b1 lane=online warmth=unknown';
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
    expect(account.page({ window: '1m' }, 2000)).toMatchObject({ unknownNames: 1 });
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
    const page = account.page({ window: '5m' }, 10_000) as { windows: object[] };
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
        window: '5m',
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
    expect(page).not.toHaveProperty('warmth');
    // Absent is not zero: what nobody judged has neither attainment nor goodput.
    const by = (page.windows[0] as { by: object[] }).by[1];
    expect(Object.keys(by ?? {}).filter((key) => /attained|holds|goodput|^met$/i.test(key))).toEqual([]);
    expect((account.page({}, 10_000) as { windows: object[] }).windows).toHaveLength(3);
  });

  it('shows each warmth beside the whole, and alone where it is asked for', () => {
    const { book, account } = world();
    for (let i = 0; i < 3; i += 1) book({ ...fast, warmth: 'resident' }, {}, 1000);
    book({ ...slow, warmth: 'resident' }, {}, 2000);
    book({ ...slow, warmth: 'cold_start' }, {}, 2000);
    const windowOf = (asked: SloQuery) => (account.page(asked, 10_000) as { windows: object[] }).windows[0];
    const late = (requests: number) => [{ bound: 'ttft', phase: 'prefill', requests }];
    const resident = { requests: 4, requestsPerSecond: 0.4, tokensPerSecond: 1.2, judged: 4, met: 3 };
    const cold = { requests: 1, requestsPerSecond: 0.1, tokensPerSecond: 0.3, judged: 1, met: 0 };
    expect(windowOf({ window: '5m' })).toMatchObject({
      all: {
        requests: 5,
        judged: 5,
        met: 3,
        byWarmth: [
          { warmth: 'cold_start', ...cold },
          { warmth: 'resident', ...resident },
        ],
      },
      profiles: [
        {
          profile: 'chat',
          judged: 5,
          met: 3,
          attainedPercent: 60,
          missed: late(2),
          byWarmth: [
            { warmth: 'cold_start', ...cold, attainedPercent: 0, holds: false, missed: late(1) },
            { warmth: 'resident', ...resident, attainedPercent: 75, holds: false, missed: late(1) },
          ],
        },
      ],
      by: [
        { warmth: 'resident', ...resident, attainedPercent: 75 },
        { warmth: 'cold_start', ...cold, attainedPercent: 0 },
      ],
    });
    expect(account.page({ warmth: 'resident' }, 10_000)).toMatchObject({ warmth: 'resident' });
    expect(windowOf({ window: '5m', warmth: 'resident' })).toMatchObject({
      all: { ...resident, byWarmth: [{ warmth: 'resident', ...resident }] },
      profiles: [{ ...resident, attainedPercent: 75, missed: late(1), byWarmth: [{ warmth: 'resident' }] }],
      by: [{ warmth: 'resident', ...resident }],
    });
    expect(windowOf({ window: '5m', warmth: 'replayed' })).toMatchObject({
      all: { requests: 0, judged: 0, byWarmth: [] },
      profiles: [],
      by: [],
    });
  });
});

describe('the bounds of a job that is not sent yet', () => {
  const profiles = allProfiles({
    long: { ttftMs: 500, ttftPerKilotokenMs: 200, tpotMs: 40 },
    paced: { ttfaMs: 900, itlMs: 35 },
  });

  it('are those of its profile, with what its prompt adds', () => {
    const { account } = world({ profiles, fallback: 'long' });
    expect(account.boundsOf(jobOf({}), 3000)).toEqual({ ttftMs: 1100, tpotMs: 40 });
  });

  it('are those of the profile that it names, by route and by model as for its record', () => {
    const { account } = world({ profiles, routes: { '/v1/chat/completions': 'paced' }, models: { other: 'voice' } });
    expect(account.boundsOf(jobOf({}), 0)).toEqual({ ttftMs: 900, tpotMs: 35 });
    expect(account.boundsOf({ ...jobOf({}), slo: 'long' }, 1000)).toEqual({ ttftMs: 700, tpotMs: 40 });
    expect(account.boundsOf({ ...jobOf({}), target: '/v1/messages', model: 'other' }, 0)).toEqual({ ttftMs: 180 });
  });

  it('are none where it has no profile', () => {
    expect(world().account.boundsOf({ ...jobOf({}), slo: 'none' }, 1000)).toEqual({});
  });
});

describe('a question to the page', () => {
  const read = (text: string) => readSloQuery(new URLSearchParams(text));

  it('is for every window and warmth unless it names one', () => {
    expect(read('')).toEqual({});
    expect(read('window=5m&warmth=prefix_hit')).toEqual({ window: '5m', warmth: 'prefix_hit' });
    expect(read('window=60')).toEqual({ window: '60m' });
  });

  it.each([
    ['window=7', 'window', 'window must be one of 1m, 5m, 60m'],
    ['warmth=warm', 'warmth', 'warmth must be one of cold_start, resident, prefix_hit, replayed, unknown'],
    ['warmth=', 'warmth', 'warmth must be one of cold_start, resident, prefix_hit, replayed, unknown'],
  ])('is refused as %s, rather than answered with something else', (text, param, message) => {
    expect(read(text)).toEqual({ param, message });
  });
});
