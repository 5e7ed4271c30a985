/**
 * SLO attainment and goodput from what was said of each request when it ended: nothing is judged again here. Per profile:
 * who met it, what broke it and where; and which tokens were of use. Bounded.
 */
import { Sketch } from '../../platform/sketch.ts';
import { spreadOf, type Spread } from './figures.ts';
import type { Row } from './row.ts';
import { otherName, ownText, Tally } from './tally.ts';

export interface SloResult {
  readonly profile: string;
  /** requests that were judged by it, and met it */
  readonly requests: number;
  readonly met: number;
  /** met / requests */
  readonly attainment: number;
  /** output tokens of the judged, and of those that met it */
  readonly outputTokens: number;
  readonly metTokens: number;
  /** sum of what smooth goodput gives each; absent when the lines have none */
  readonly benefitTokens?: number;
  /** not met and no bound broken: failed before anything could be judged */
  readonly failed: number;
  /** bounds that broke, one entry for each bound and phase, the most frequent first */
  readonly breaches: readonly SloBreachResult[];
}

export interface SloBreachResult {
  readonly bound: string;
  readonly phase: string;
  readonly requests: number;
  /** ms over the limit */
  readonly over: Spread;
}

export interface UsefulResult {
  /** answers that came whole; of these: checked, of no use */
  readonly answers: number;
  readonly checked: number;
  readonly useless: number;
  readonly uselessBy: Readonly<Record<string, number>>;
  readonly retries: number;
  readonly outputTokens: number;
  /** of answers that came whole and weren't found useless */
  readonly usefulTokens: number;
}

export interface SloSums {
  add(row: Row): void;
  results(): readonly SloResult[];
  useful(): UsefulResult;
}

const mostProfiles = 50;
const mostBreaches = 200;

interface Profile {
  requests: number;
  met: number;
  outputTokens: number;
  metTokens: number;
  benefitTokens: number | undefined;
  failed: number;
  readonly breaches: Map<string, { readonly bound: string; readonly phase: string; readonly over: Sketch }>;
}

export function createSloSums(): SloSums {
  const profiles = new Map<string, Profile>();
  const uselessBy = new Tally();
  const use = { answers: 0, checked: 0, useless: 0, retries: 0, outputTokens: 0, usefulTokens: 0 };
  return {
    add(row) {
      if (row.slo !== undefined) judge(profileOf(profiles, row.slo), row);
      const { useless, outputTokens = 0 } = row;
      const ok = row.outcome === 'ok';
      const ofUse = ok && (useless === undefined || useless.length === 0);
      if (ok) use.answers += 1;
      if (useless !== undefined) use.checked += 1;
      if (ok && !ofUse) use.useless += 1;
      for (const reason of useless ?? []) uselessBy.add(reason);
      if (row.retry) use.retries += 1;
      use.outputTokens += outputTokens;
      if (ofUse) use.usefulTokens += outputTokens;
    },
    results: () =>
      [...profiles].map(([name, profile]) => resultOf(name, profile)).toSorted((a, b) => b.requests - a.requests),
    useful: () => ({ ...use, uselessBy: uselessBy.toJson() }),
  };
}

function profileOf(profiles: Map<string, Profile>, name: string): Profile {
  const key = profiles.has(name) || profiles.size < mostProfiles ? name : otherName;
  const known = profiles.get(key);
  if (known !== undefined) return known;
  const made: Profile = {
    requests: 0,
    met: 0,
    outputTokens: 0,
    metTokens: 0,
    benefitTokens: undefined,
    failed: 0,
    breaches: new Map(),
  };
  profiles.set(ownText(key), made);
  return made;
}

function judge(profile: Profile, row: Row): void {
  const { outputTokens = 0, benefitTokens, sloBroke } = row;
  profile.requests += 1;
  profile.outputTokens += outputTokens;
  if (benefitTokens !== undefined) profile.benefitTokens = (profile.benefitTokens ?? 0) + benefitTokens;
  if (row.sloMet === true) {
    profile.met += 1;
    profile.metTokens += outputTokens;
    return;
  }
  if (sloBroke.length === 0) profile.failed += 1;
  for (const { bound, phase, valueMs, limitMs } of sloBroke) {
    const key = `${bound}:${phase}`;
    let breach = profile.breaches.get(key);
    if (breach === undefined) {
      if (profile.breaches.size >= mostBreaches) continue;
      breach = { bound: ownText(bound), phase: ownText(phase), over: new Sketch() };
      profile.breaches.set(ownText(key), breach);
    }
    breach.over.add(Math.max(0, valueMs - limitMs) / 1000);
  }
}

function resultOf(profile: string, sums: Profile): SloResult {
  const { requests, met, outputTokens, metTokens, benefitTokens, failed, breaches } = sums;
  return {
    profile,
    requests,
    met,
    attainment: met / requests,
    outputTokens,
    metTokens,
    ...(benefitTokens === undefined ? {} : { benefitTokens }),
    failed,
    breaches: [...breaches.values()]
      .flatMap(({ bound, phase, over }) => {
        const spread = spreadOf(over);
        return spread === undefined ? [] : [{ bound, phase, requests: over.count, over: spread }];
      })
      .toSorted((a, b) => b.requests - a.requests),
  };
}
