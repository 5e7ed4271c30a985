/**
 * The view of a backend's ceiling as `/ceiling` writes it: milliseconds, percent and the units of data sheets, since the
 * admin listener cuts numbers to thousandths. Pure.
 */
import type { Hardware } from './cards.ts';
import type { EngineEstimate } from './engine-estimate.ts';
import type { DecodeCeiling } from './formulas.ts';
import { type BackendCeiling, type ModelCeiling, type WindowName, windows } from './view.ts';
import type { WorkView } from './work.ts';

export function ceilingPageOf(view: BackendCeiling) {
  const { hardware, models, engineEstimate, prefill, ...rest } = view;
  return {
    backend: rest.backend,
    attributed: rest.attributed,
    problems: rest.problems,
    missing: rest.missing,
    ...(hardware === undefined ? {} : { hardware: hardwarePage(hardware) }),
    models: models.map(modelPage),
    windows: byWindow((name) => windowPage(rest.windows[name])),
    ...(engineEstimate === undefined ? {} : { engineEstimate: byWindow((name) => estimatePage(engineEstimate[name])) }),
    ...(prefill === undefined ? {} : { prefill }),
  };
}

export type CeilingPage = ReturnType<typeof ceilingPageOf>;

function byWindow<Value>(read: (name: WindowName) => Value): Readonly<Record<WindowName, Value>> {
  // The keys of the table of windows are their names.
  const names = Object.keys(windows) as WindowName[];
  return Object.fromEntries(names.map((name) => [name, read(name)])) as Record<WindowName, Value>;
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

function windowPage({ mfu, mfuWithoutCache, mbu, mbuOfWindow, shareOfCeiling, ...rest }: WorkView) {
  return {
    ...rest,
    mfuPercent: scaled(mfu, 100),
    mfuWithoutCachePercent: scaled(mfuWithoutCache, 100),
    mbuPercent: scaled(mbu, 100),
    mbuOfWindowPercent: scaled(mbuOfWindow, 100),
    ceilingPercent: scaled(shareOfCeiling, 100),
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
