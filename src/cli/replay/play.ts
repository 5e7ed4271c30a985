/**
 * Plays a workload against simulated engines behind the router, as the pipeline would: ask for a permit, submit, tell of the first
 * token and of the end, settle. No network: what a request waits for is the router's queue and the engine.
 */
import {
  createOwner,
  type Ask,
  type AskPlace,
  type Choice,
  type Granted,
  type LoadView,
  type Permit,
  type RankedTarget,
} from '../../admit/owner.ts';
import type { FleetSnapshot } from '../../domain/fleet.ts';
import { isRefusal, type Refusal } from '../../domain/refusal.ts';
import type { AnswerTold, Errand } from '../../domain/routing.ts';
import type { Clock } from '../../platform/clock.ts';
import type { SequenceEnd } from '../../sim/sequence.ts';
import { createSimFleet, type SimFleet, type SimFleetSettings } from '../../sim/fleet/sim-fleet.ts';
import { createVirtualClock } from '../../sim/virtual-clock.ts';
import { createFigures, type PlayFigures, type Slo } from './figures.ts';
import type { Workload } from './workload.ts';

/** What stands between asks and backends: the shipped routing, or another one to compare it with. */
export interface Router {
  choose(ask: Ask, load: (backend: string) => LoadView, place?: AskPlace): Choice | Refusal;
  sent?(ask: Ask, target: RankedTarget, granted?: Granted): Errand | undefined;
}

export interface RouterDeps {
  readonly clock: Clock;
  readonly fleet: () => FleetSnapshot;
  /** the engines themselves, for a router that knows more than one can */
  readonly engines: SimFleet['engines'];
}

export type MakeRouter = (deps: RouterDeps) => Router;

export interface PlaySettings {
  readonly fleet: SimFleetSettings;
  /** 2: everything that comes at a time of its own comes twice as fast */
  readonly scale: number;
  readonly slo: Slo;
  /** Changes what the router hears of an answer; for routers that are to be misled. */
  readonly tell?: (told: AnswerTold) => AnswerTold;
}

export function play(workload: Workload, makeRouter: MakeRouter, settings: PlaySettings): PlayFigures {
  const clock = createVirtualClock();
  const fleet = createSimFleet(settings.fleet, { clock });
  const router = makeRouter({ clock, fleet: fleet.snapshot, engines: fleet.engines });
  // Nobody is turned away: what a policy can't serve in time must show in its times.
  const owner = createOwner(
    { maxQueuedJobs: Number.MAX_SAFE_INTEGER, queueTimeoutMs: 0 },
    {
      clock,
      fleet: fleet.snapshot,
      choose: router.choose,
      ...(router.sent === undefined ? {} : { sent: router.sent }),
    },
  );
  const figures = createFigures(settings, workload.items.length);
  const beganMs = clock.nowMs();
  const { items, followers } = workload;
  let left = items.length;

  function arrive(index: number): void {
    const item = items[index];
    if (item === undefined) return;
    const askedMs = clock.nowMs();
    owner.ask({ job: item.job, exclude: [], again: false }, (result) => {
      if (isRefusal(result)) done(index, () => figures.refused());
      else serve(index, { permit: result, askedMs });
    });
  }

  function serve(index: number, { permit, askedMs }: { readonly permit: Permit; readonly askedMs: number }): void {
    const item = items[index];
    const engine = fleet.engines.get(permit.backend.name);
    if (item === undefined || engine === undefined) throw new Error(`no engine ${permit.backend.name}`);
    const sentMs = clock.nowMs();
    let lastMs = 0;
    engine.submit(
      { prompt: item.prompt, choices: [{ outputTokens: item.request.outputTokens, endsBy: 'stop' }] },
      {
        token(_choice, position, atMs) {
          if (position === 0) permit.decoding();
          else figures.gap(atMs - lastMs);
          lastMs = atMs;
        },
        ended(end) {
          const told = toldBy(end, sentMs);
          permit.errand?.ended(settings.tell?.(told) ?? told);
          permit.settle();
          done(index, () =>
            figures.answered(end, { askedMs, backend: permit.backend.name, note: permit.errand?.note }),
          );
        },
      },
    );
  }

  function done(index: number, count: () => void): void {
    count();
    left -= 1;
    for (const next of followers.get(index) ?? [])
      clock.timer(items[next]?.request.after?.delayMs ?? 0, () => arrive(next));
  }

  /** One arrival's timer at a time: a trace of a million requests is no million timers. */
  function arriveFrom(index: number): void {
    let at = index;
    while (at < items.length && items[at]?.request.after !== undefined) at += 1;
    const item = items[at];
    if (item === undefined) return;
    clock.timer(beganMs + item.request.atMs / settings.scale - clock.nowMs(), () => {
      arrive(at);
      arriveFrom(at + 1);
    });
  }

  arriveFrom(0);
  // A router may keep timers of its own for ever: it is over when everybody has an answer.
  while (left > 0 && clock.step());
  return figures.end({ seconds: (clock.nowMs() - beganMs) / 1000, engines: fleet.engines });
}

function toldBy(end: SequenceEnd, sentMs: number): AnswerTold {
  const { firstTokenMs, lastTokenMs, outputTokens } = end;
  if (firstTokenMs === undefined || lastTokenMs === undefined) return { computed: false };
  const told = {
    computed: true,
    promptTokens: end.promptTokens,
    cachedTokens: end.cachedTokens,
    outputTokens,
    upstreamTtftMs: firstTokenMs - sentMs,
  };
  return outputTokens < 2 ? told : { ...told, tpotMs: (lastTokenMs - firstTokenMs) / (outputTokens - 1) };
}
