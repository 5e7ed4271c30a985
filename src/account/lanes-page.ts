/** The page `/lanes`: who waits in each lane, and what batch may have of each backend and why. Pure. */
import type { BackendLanes, LaneDepth, Pressures } from '../domain/lanes.ts';

export interface LanesShown {
  readonly backends: readonly BackendLanes[];
  readonly depths: readonly LaneDepth[];
}

export function lanesPage({ backends, depths }: LanesShown, nowMs: number): object {
  return { lanes: depths.map(waitingRoom), backends: backends.map((backend) => standing(backend, nowMs)) };
}

function waitingRoom({ lane, jobs, tokens, tenants, oldestMs }: LaneDepth): object {
  return {
    lane,
    waiting: jobs,
    waitingTokens: tokens,
    tenants,
    ...(oldestMs === undefined ? {} : { oldestMs: Math.round(oldestMs) }),
  };
}

function standing(of: BackendLanes, nowMs: number): object {
  const { lastCut, pressure, abortsWork } = of;
  return {
    backend: of.backend,
    cap: of.cap,
    cause: of.cause,
    causeAgeMs: Math.round(nowMs - of.sinceMs),
    ...(lastCut === undefined ? {} : { lastCut: { cause: lastCut.cause, ageMs: Math.round(nowMs - lastCut.atMs) } }),
    ...(pressure === undefined ? {} : { pressurePercent: percent(pressure) }),
    pressures: percents(of.pressures),
    watched: of.watched,
    reserveSlots: of.reserveSlots,
    guaranteed: of.guaranteed,
    ...(of.note === undefined ? {} : { note: of.note }),
    running: of.running,
    reclaimed: of.reclaimed,
    wastedTokens: of.wastedTokens,
    ...(abortsWork === undefined ? {} : { abortsWork }),
  };
}

const signals = [
  'tpot',
  'itl',
  'ttft',
  'kv',
  'waiting',
  'preemptions',
  'busy',
  'rise',
] as const satisfies (keyof Pressures)[];

function percents(pressures: Pressures): Record<string, number> {
  const shown: Record<string, number> = {};
  for (const signal of signals) {
    const value = pressures[signal];
    if (value !== undefined) shown[`${signal}Percent`] = percent(value);
  }
  return shown;
}

function percent(share: number): number {
  return Math.round(share * 1000) / 10;
}
