/**
 * The page `/slo`: what may be asked, profiles, and for each window rates, attainment and what missed, together and by
 * warmth. Pure; absent is not zero: what nobody was judged by has no attainment.
 */
import { type Warmth, warmths } from '../../domain/names.ts';
import { type GoodputSums, joinSums, noSums } from '../goodput-sums.ts';
import type { Goodput, GoodputCell, GoodputWindow, Missed } from '../goodput.ts';
import type { Retries } from '../retries.ts';
import { readWindow, windowMessage, type WindowName, windowNames } from '../window-lengths.ts';
import type { WrongQuery } from '../windows-view.ts';
import type { SloProfile, SloSettings } from './slo-settings.ts';

export interface SloView {
  readonly goodput: Goodput;
  readonly settings: SloSettings;
  /** Requests whose header named no profile that there is. */
  readonly unknownNames: () => number;
  /** Absent while repetitions aren't looked for. */
  readonly retries?: Pick<Retries, 'size' | 'forgotten'>;
}

export interface SloQuery {
  /** Absent: every one. */
  readonly window?: WindowName;
  /** Absent: all, together and each by itself. */
  readonly warmth?: Warmth;
}

export const sloParams = ['window', 'warmth'] as const;

/** @param query of `sloParams` only, each once */
export function readSloQuery(query: URLSearchParams): SloQuery | WrongQuery {
  const [windowText, warmthText] = [query.get('window'), query.get('warmth')];
  const window = windowText === null ? undefined : readWindow(windowText);
  if (windowText !== null && window === undefined) return { param: 'window', message: windowMessage };
  const warmth = warmths.find((one) => one === warmthText);
  if (warmthText !== null && warmth === undefined)
    return { param: 'warmth', message: `warmth must be one of ${warmths.join(', ')}` };
  return { ...(window === undefined ? {} : { window }), ...(warmth === undefined ? {} : { warmth }) };
}

export function sloPage(view: SloView, { window, warmth }: SloQuery, nowMs: number): object {
  const { goodput, settings } = view;
  const profiles = new Map(settings.profiles.map((profile) => [profile.name, profile]));
  const asked = window === undefined ? windowNames : [window];
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
    ...(warmth === undefined ? {} : { warmth }),
    windows: asked.map((one) => windowView(only(goodput.read(one, nowMs), warmth), profiles)),
  };
}

function only(window: GoodputWindow, warmth: Warmth | undefined): GoodputWindow {
  if (warmth === undefined) return window;
  const { cells, missed } = window;
  return {
    ...window,
    cells: cells.filter((cell) => cell.warmth === warmth),
    missed: missed.filter((one) => one.warmth === warmth),
  };
}

function windowView({ window, coveredMs, cells, missed }: GoodputWindow, profiles: ReadonlyMap<string, SloProfile>) {
  const names = [...new Set(cells.map(({ profile }) => profile))].filter((name) => name !== '');
  return {
    window,
    coveredMs,
    all: { ...rates(sumOf(cells), coveredMs), byWarmth: byWarmth(cells, (of) => rates(sumOf(of), coveredMs)) },
    profiles: names.map((name) => {
      const judged = cells.filter(({ profile }) => profile === name);
      const reasons = missed.filter(({ profile }) => profile === name);
      const figures = (of: readonly GoodputCell[], why: readonly Missed[]) => {
        const sums = sumOf(of);
        return { ...held(sums, profiles.get(name)), ...rates(sums, coveredMs), missed: missedView(why) };
      };
      return {
        profile: name,
        ...figures(judged, reasons),
        byWarmth: byWarmth(judged, (of, warmth) =>
          figures(
            of,
            reasons.filter((one) => one.warmth === warmth),
          ),
        ),
      };
    }),
    by: cells.map(({ profile, model, backend, lane, warmth, sums }) => ({
      profile: named(profile),
      model: named(model),
      backend: named(backend),
      lane,
      warmth,
      ...held(sums, profiles.get(profile)),
      ...rates(sums, coveredMs),
    })),
  };
}

/** JSON leaves out what is undefined. */
function named(name: string): string | undefined {
  return name === '' ? undefined : name;
}

/** Only the populations that occur. */
function byWarmth(cells: readonly GoodputCell[], view: (of: readonly GoodputCell[], warmth: Warmth) => object) {
  return warmths.flatMap((warmth) => {
    const of = cells.filter((cell) => cell.warmth === warmth);
    return of.length === 0 ? [] : [{ warmth, ...view(of, warmth) }];
  });
}

/** By bound and phase, whatever the warmth; the most frequent first. */
function missedView(missed: readonly Missed[]) {
  const joined = new Map<string, { bound: Missed['bound']; phase: Missed['phase']; requests: number }>();
  for (const { bound, phase, requests } of missed) {
    const id = `${bound} ${phase}`;
    const before = joined.get(id)?.requests ?? 0;
    joined.set(id, { bound, phase, requests: before + requests });
  }
  return [...joined.values()].toSorted((a, b) => b.requests - a.requests);
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
