/**
 * The view of a backend's ceiling as `/ceiling` writes it: milliseconds, percent and the units of data sheets, since the
 * admin listener cuts numbers to thousandths. Pure.
 */
import { type WindowName, windowNames } from '../window-lengths.ts';
import type { Hardware } from './cards.ts';
import type { EngineEstimate } from './engine-estimate.ts';
import type { DecodeCeiling } from './formulas.ts';
import type { PrefillView } from './prefill-rate.ts';
import type { CeilingProblem } from './problems.ts';
import type { BackendCeiling, ModelCeiling } from './view.ts';
import type { WorkView } from './work.ts';

export function ceilingPageOf(view: BackendCeiling) {
  const { hardware, models, engineEstimate, prefill, ...rest } = view;
  return {
    backend: rest.backend,
    attributed: rest.attributed,
    problems: rest.problems.map(problemPage),
    missing: rest.missing,
    ...(hardware === undefined ? {} : { hardware: hardwarePage(hardware) }),
    models: models.map(modelPage),
    windows: byWindow((name) => windowPage(rest.windows[name])),
    ...(engineEstimate === undefined ? {} : { engineEstimate: byWindow((name) => estimatePage(engineEstimate[name])) }),
    ...(prefill === undefined ? {} : { prefill: prefillPage(prefill) }),
  };
}

export type CeilingPage = ReturnType<typeof ceilingPageOf>;

function byWindow<Value>(read: (name: WindowName) => Value): Readonly<Record<WindowName, Value>> {
  // One entry for each name.
  return Object.fromEntries(windowNames.map((name) => [name, read(name)])) as Record<WindowName, Value>;
}

/** Of all cards together. */
function hardwarePage({ card, count, halfFlops, fp8Flops, bandwidth, memoryBytes, pricePerHour }: Hardware) {
  return {
    card,
    count,
    halfTflops: scaled(halfFlops, 1e-12),
    fp8Tflops: scaled(fp8Flops, 1e-12),
    bandwidthGBps: scaled(bandwidth, 1e-9),
    memoryGiB: scaled(memoryBytes, 2 ** -30),
    pricePerHour,
  };
}

function modelPage({ oneUser, ...model }: ModelCeiling) {
  return { ...model, oneUser: oneUser === undefined ? undefined : stepPage(oneUser) };
}

function stepPage({ bytes, stepSeconds, tokensPerSecond, limit }: DecodeCeiling) {
  return { bytesPerStep: bytes, stepMs: stepSeconds * 1000, tokensPerSecond, limit };
}

function problemPage({ kind, message, share, windows }: CeilingProblem) {
  return { kind, message, percent: scaled(share, 100), windows };
}

function prefillPage({ cachedUnknownShare, ...prefill }: PrefillView) {
  return { ...prefill, cachedUnknownPercent: scaled(cachedUnknownShare, 100) };
}

function windowPage({ mfu, mfuWithoutCache, mbu, mbuOfWindow, shareOfCeiling, decodingShare, ...rest }: WorkView) {
  return {
    ...rest,
    mfuPercent: scaled(mfu, 100),
    mfuWithoutCachePercent: scaled(mfuWithoutCache, 100),
    mbuPercent: scaled(mbu, 100),
    mbuOfWindowPercent: scaled(mbuOfWindow, 100),
    ceilingPercent: scaled(shareOfCeiling, 100),
    decodingPercent: 100 * decodingShare,
  };
}

function estimatePage(estimate: EngineEstimate | undefined) {
  if (estimate === undefined) return undefined;
  const { mfu, mbu, ...rest } = estimate;
  return { ...rest, mfuPercent: scaled(mfu, 100), mbuPercent: scaled(mbu, 100) };
}

/** An absent value stays absent: JSON leaves it out. */
function scaled(value: number | undefined, by: number): number | undefined {
  return value === undefined ? undefined : value * by;
}
