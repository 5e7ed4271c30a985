/**
 * The page `/slo`: profiles, and for each window rates, attainment and what missed. Pure; absent is not zero: what nobody was
 * judged by has no attainment.
 */
import { type GoodputSums, joinSums, noSums } from '../goodput-sums.ts';
import { type Goodput, type GoodputCell, type GoodputWindow, type WindowMinutes, windowMinutes } from '../goodput.ts';
import type { Retries } from '../retries.ts';
import type { SloProfile, SloSettings } from './slo-settings.ts';

export interface SloView {
  readonly goodput: Goodput;
  readonly settings: SloSettings;
  /** Requests whose header named no profile that there is. */
  readonly unknownNames: () => number;
  /** Absent while repetitions aren't looked for. */
  readonly retries?: Pick<Retries, 'size' | 'forgotten'>;
}

/** @param minutes one window; undefined: all */
export function sloPage(view: SloView, minutes: WindowMinutes | undefined, nowMs: number): object {
  const { goodput, settings } = view;
  const profiles = new Map(settings.profiles.map((profile) => [profile.name, profile]));
  const asked = minutes === undefined ? windowMinutes : [minutes];
  return {
    default: settings.fallback,
    routes: settings.routes,
    models: settings.models,
    checks: settings.checks,
    profiles: settings.profiles,
    unknownNames: view.unknownNames(),
    overflowed: goodput.overflowed,
    ...(view.retries === undefined
      ? {}
      : { failedRemembered: view.retries.size, failedForgotten: view.retries.forgotten }),
    windows: asked.map((one) => windowView(goodput.read(one, nowMs), profiles)),
  };
}

/** `1`, `5`, `60`, with an `m` or without, and `1h`. @returns undefined: there is no such window */
export function windowOf(text: string): WindowMinutes | undefined {
  const minutes = text === '1h' ? 60 : Number(/^(\d{1,2})m?$/.exec(text)?.[1]);
  return windowMinutes.find((one) => one === minutes);
}

function windowView({ minutes, coveredMs, cells, missed }: GoodputWindow, profiles: ReadonlyMap<string, SloProfile>) {
  return {
    minutes,
    coveredMs,
    all: rates(sumOf(cells), coveredMs),
    profiles: [...new Set(cells.map(({ profile }) => profile))]
      .filter((name) => name !== '')
      .map((name) => {
        const sums = sumOf(cells.filter(({ profile }) => profile === name));
        return {
          profile: name,
          ...held(sums, profiles.get(name)),
          ...rates(sums, coveredMs),
          missed: missed
            .filter(({ profile }) => profile === name)
            .map(({ bound, phase, requests }) => ({ bound, phase, requests })),
        };
      }),
    by: cells.map(({ profile, model, backend, lane, sums }) => ({
      ...(profile === '' ? {} : { profile }),
      ...(model === '' ? {} : { model }),
      ...(backend === '' ? {} : { backend }),
      lane,
      ...held(sums, profiles.get(profile)),
      ...rates(sums, coveredMs),
    })),
  };
}

function held({ judged, met }: GoodputSums, profile: SloProfile | undefined) {
  if (profile === undefined || judged === 0) return {};
  const attainedPercent = (100 * met) / judged;
  return { targetPercent: profile.percent, attainedPercent, holds: attainedPercent + 1e-9 >= profile.percent };
}

function rates(sums: GoodputSums, coveredMs: number) {
  const perSecond = (count: number) => (coveredMs > 0 ? (count * 1000) / coveredMs : 0);
  return {
    requests: sums.requests,
    requestsPerSecond: perSecond(sums.requests),
    tokensPerSecond: perSecond(sums.tokens),
    usefulTokensPerSecond: perSecond(sums.usefulTokens),
    useless: sums.useless,
    retries: sums.retries,
    judged: sums.judged,
    ...(sums.judged === 0
      ? {}
      : {
          met: sums.met,
          goodputRequestsPerSecond: perSecond(sums.met),
          goodputTokensPerSecond: perSecond(sums.metTokens),
          smoothGoodputTokensPerSecond: perSecond(sums.benefitTokens),
        }),
  };
}

function sumOf(cells: readonly GoodputCell[]): GoodputSums {
  const total = noSums();
  for (const { sums } of cells) joinSums(total, sums);
  return total;
}
