/**
 * Objectives and use, put together: what is said of each finished request, and what the windows keep of it. State, but no
 * timer and no effect: `accounting.ts` gives it records and the time.
 */
import type { Assessment } from '../../domain/assessment.ts';
import type { Job } from '../../domain/job.ts';
import type { RequestRecord } from '../../domain/record.ts';
import { createGoodput } from '../goodput.ts';
import { createRetries } from '../retries.ts';
import { type SloQuery, sloPage } from './goodput-view.ts';
import { judge } from './judge.ts';
import { createSloMatcher } from './match.ts';
import { type Count, countSlo } from './slo-counts.ts';
import type { SloProfile, SloSettings } from './slo-settings.ts';

export interface SloAccount {
  /** What can be said of a record; before anybody else counts it. Once per record: a repetition is found against all before. */
  assess(record: RequestRecord, job: Job | undefined): Pick<Assessment, 'slo' | 'retry'> | undefined;
  /** Takes an assessed record into the windows and the counters. */
  add(record: RequestRecord, nowMs: number): void;
  page(asked: SloQuery, nowMs: number): object;
  /** What a job's profile allows, before it is sent. @param promptTokens those to be computed */
  boundsOf(job: Job, promptTokens: number): JobBounds;
  /** Targets as shares, for those profiles that configuration or a request has used. */
  targets(): Iterable<{ readonly profile: string; readonly share: number }>;
}

/** ms; absent: its profile doesn't say, or it has none. */
export interface JobBounds {
  readonly ttftMs?: number;
  readonly tpotMs?: number;
}

export interface SloAccountDeps {
  readonly aliases: Readonly<Record<string, string>>;
  readonly startMs: number;
  readonly count: Count;
  /** A bounded label, so that made-up names don't push out those that backends serve (C189). */
  readonly modelLabel: (model: string | undefined) => string;
}

/**
 * Labels keep what clients make up to some dozens of models. A cell is about 100 bytes for each of the 39 slots that it is
 * in: twice as many of them, the worst case, are 15 MB.
 */
const maxCells = 2048;
/** About 150 bytes each. */
const maxRemembered = 8192;

export function createSloAccount(settings: SloSettings, deps: SloAccountDeps): SloAccount {
  const { aliases, startMs, count, modelLabel } = deps;
  const match = createSloMatcher(settings, aliases);
  const goodput = createGoodput({ maxCells }, startMs);
  const { checks, fallback } = settings;
  const retries = checks.retries ? createRetries({ withinMs: checks.retryWithinMs, maxRemembered }) : undefined;
  const used = new Set([...Object.values(settings.routes), ...Object.values(settings.models)]);
  if (fallback !== undefined) used.add(fallback);
  let unknownNames = 0;

  return {
    assess(record, job) {
      const { profile, unknownName } = match(record, job);
      if (unknownName === true) {
        unknownNames += 1;
        count('warmlane.slo.unknown_profiles', {});
      }
      const slo = profile === undefined ? undefined : judge(record, profile);
      const fingerprint = job?.fingerprint;
      const retry = fingerprint !== undefined && retries?.add(fingerprint, record) === true;
      if (slo === undefined && !retry) return undefined;
      return { ...(slo === undefined ? {} : { slo }), ...(retry ? { retry } : {}) };
    },
    add(record, nowMs) {
      const { slo } = record.assessment ?? {};
      if (slo !== undefined) used.add(slo.profile);
      const named = record.model ?? record.responseModel;
      const model = modelLabel(named);
      goodput.add(record, named === undefined ? '' : model, nowMs);
      countSlo(record, { model, count });
    },
    page: (asked, nowMs) =>
      sloPage(
        {
          goodput,
          settings,
          unknownNames: () => unknownNames,
          ...(retries === undefined ? {} : { retries }),
        },
        asked,
        nowMs,
      ),
    boundsOf(job, promptTokens) {
      const { endpoint, model, target, lane } = job;
      const path = target.split('?', 1)[0] ?? target;
      const { profile } = match(model === undefined ? { endpoint, path, lane } : { endpoint, path, lane, model }, job);
      return profile === undefined ? noBounds : jobBounds(profile, promptTokens / 1000);
    },
    *targets() {
      for (const { name, percent } of settings.profiles)
        if (used.has(name)) yield { profile: name, share: percent / 100 };
    },
  };
}

const noBounds: JobBounds = {};

/** Of a profile that bounds gaps alone, those stand for the pace; of one that bounds the first word of an answer, that. */
function jobBounds(profile: SloProfile, kilotokens: number): JobBounds {
  const { ttftMs = profile.ttfaMs, tpotMs = profile.itlMs } = profile;
  const ttftAddition = (profile.ttftMs === undefined ? profile.ttfaPerKilotokenMs : profile.ttftPerKilotokenMs) ?? 0;
  const tpotAddition = (profile.tpotMs === undefined ? profile.itlPerKilotokenMs : profile.tpotPerKilotokenMs) ?? 0;
  const bounds: { -readonly [key in keyof JobBounds]: JobBounds[key] } = {};
  if (ttftMs !== undefined) bounds.ttftMs = ttftMs + ttftAddition * kilotokens;
  if (tpotMs !== undefined) bounds.tpotMs = tpotMs + tpotAddition * kilotokens;
  return bounds;
}
