/**
 * Plays online requests and an endless batch against simulated engines behind the owner, the lanes and the router, on a virtual clock, as
 * the pipeline would: ask, submit, tell of the first token and of the end, settle; and leave when a place is taken back. No network.
 */
import type { LiveStream } from '../../../src/admit/online-feel.ts';
import { createOwner, type Owner, type Permit } from '../../../src/admit/owner.ts';
import type { EngineReading } from '../../../src/domain/engine-reading.ts';
import { isRefusal } from '../../../src/domain/refusal.ts';
import type { AnswerTold } from '../../../src/domain/routing.ts';
import { createLanes } from '../../../src/lanes.ts';
import { routeDefaults } from '../../../src/route/settings.ts';
import { createRouting } from '../../../src/routing.ts';
import type { EngineHandle } from '../../../src/sim/engine.ts';
import { createSimFleet } from '../../../src/sim/fleet/sim-fleet.ts';
import type { SequenceEnd } from '../../../src/sim/sequence.ts';
import { createVirtualClock } from '../../../src/sim/virtual-clock.ts';
import type { Candidate } from './candidates.ts';
import { createFigures, type LaneFigures } from './figures.ts';
import { createGaps, type Gaps } from './gaps.ts';
import type { Lived } from './recovery.ts';
import { type LaneSetting, slo } from './settings.ts';
import type { Work } from './workload.ts';

/** A request on its backend, kept as it goes on. */
export type Call = { readonly requestId: string } & { -readonly [Key in keyof LiveStream]: LiveStream[Key] };

export interface StageDeps {
  readonly seconds: number;
  readonly online: readonly Work[];
  readonly nextLine: () => Work;
}

export interface Play {
  readonly figures: LaneFigures;
  readonly lived: Lived;
}

/** Lines that stand in the queue at any moment. */
const linesWaiting = 16;
/** As seldom as warmlane asks engines. */
const scrapeMs = 2000;
const sampleMs = 250;
/** What came in time is waited for so long, so that a rule that starves online shows it. */
const afterwardsMs = 60_000;

interface Line {
  readonly work: Work;
  readonly sinceMs: number;
  readonly times: number;
  readonly promptsTaken: number;
  /** of its prompt, at the backends where it was before */
  readonly computedTokens: number;
}

export function playLanes(setting: LaneSetting, candidate: Candidate, deps: StageDeps): Play {
  const clock = createVirtualClock();
  const seed = setting.engine.seed + (candidate.engineSeed ?? 0);
  const settings = { ...setting.engine, scheduling: candidate.scheduling, seed };
  const fleet = createSimFleet({ backends: setting.backends, engine: settings, tellsCapacity: true }, { clock });
  const views = fleet.snapshot();
  const slots = setting.tellsPlaces ? { slots: settings.maxSequences } : {};
  const snapshot = { ...views, backends: views.backends.map((view) => ({ ...view, ...slots })) };
  const names = snapshot.backends.map(({ name }) => name);
  // Late binding is bound to the objective: a quarter of it, as the default is of the default one.
  const cost = { ...routeDefaults.cost, holdMs: slo.ttftMs / 4 };
  const routing = createRouting({ ...routeDefaults, cost }, { clock, fleet: () => snapshot });
  const beganMs = clock.nowMs();
  const endMs = beganMs + deps.seconds * 1000;
  const figures = createFigures({ clock, names, beganMs, endMs });
  const calls = new Set<Call>();
  const readings = new Map<string, EngineReading>();
  const { makeCap, lanes: laneSettings } = candidate;
  let linesQueued = 0;
  const gaps = new Map<string, Gaps>();
  const gapsOf = (backend: string) => {
    const known = gaps.get(backend) ?? createGaps();
    gaps.set(backend, known);
    return known;
  };
  const lanes = createLanes(() => laneSettings, {
    clock,
    fleet: () => snapshot,
    owner: () => owner,
    streams: (visit) => calls.forEach(visit),
    engine: (backend) => readings.get(backend),
    abortsWork: () => true,
    ...(makeCap === undefined
      ? {}
      : {
          makeCap: (backend: string, beganAtMs: number) =>
            makeCap({ beganMs: beganAtMs, gaps: gapsOf(backend), nowMs: clock.nowMs }),
        }),
  });
  // Nobody is turned away: what a rule can't serve in time must show in its times.
  const owner: Owner = createOwner(
    { maxQueuedJobs: Number.MAX_SAFE_INTEGER, queueTimeoutMs: 0, lanes: laneSettings },
    { clock, fleet: () => snapshot, choose: routing.choose, sent: routing.sent, batchOn: lanes.batchOn },
  );

  function begin(work: Work, about: { readonly permit: Permit; readonly askedMs: number }, ended: Ended) {
    const { permit, askedMs } = about;
    const engine = fleet.engines.get(permit.backend.name);
    if (engine === undefined) throw new Error(`no engine ${permit.backend.name}`);
    const { lane } = work.job;
    const call: Call = {
      requestId: work.job.requestId,
      backend: permit.backend.name,
      lane,
      streams: true,
      askedMs,
      sentMs: clock.nowMs(),
      firstTokenMs: undefined,
      lastTokenMs: undefined,
      tokens: 0,
      events: 0,
      promptTokens: work.prompt.tokenCount,
      bound: slo,
    };
    calls.add(call);
    const handle = engine.submit(
      {
        prompt: work.prompt,
        choices: [{ outputTokens: work.outputTokens, endsBy: 'stop' }],
        priority: lane === 'online' ? 0 : 10,
      },
      {
        token(_choice, position, atMs) {
          figures.token(call, atMs);
          if (makeCap !== undefined && lane === 'online' && call.lastTokenMs !== undefined)
            gapsOf(call.backend).add(atMs - call.lastTokenMs, atMs);
          call.lastTokenMs = atMs;
          call.tokens = position + 1;
          call.events = position + 1;
          if (position > 0) return;
          call.firstTokenMs = atMs;
          permit.decoding();
        },
        ended(end) {
          calls.delete(call);
          lanes.ended(call);
          permit.errand?.ended(toldBy(end, call.sentMs ?? askedMs));
          permit.settle();
          ended(end, call);
        },
      },
    );
    return { call, handle };
  }

  function arrive(work: Work): void {
    const askedMs = clock.nowMs();
    lanes.onlineAsked(work.job);
    owner.ask({ job: work.job, exclude: [], again: false }, (result) => {
      if (!isRefusal(result)) begin(work, { permit: result, askedMs }, figures.answered);
    });
  }

  function askLine(line: Line): void {
    const { work, times, promptsTaken } = line;
    const askedMs = clock.nowMs();
    let running: { readonly call: Call; readonly handle: EngineHandle } | undefined;
    const reclaim = {
      loses() {
        if (running === undefined || (staysOnceBegun && running.call.tokens > 0)) return undefined;
        return work.prompt.tokenCount + running.call.tokens;
      },
      take: () => running?.handle.abort(),
    };
    linesQueued += 1;
    const { maxTimes } = laneSettings.reclaim;
    const staysOnceBegun = times - promptsTaken >= maxTimes;
    const ask = { job: work.job, exclude: [], again: times > 0, patient: true, promptsTaken };
    owner.ask(maxTimes > 0 ? { ...ask, reclaim } : ask, (result) => {
      linesQueued -= 1;
      if (isRefusal(result)) throw new Error(`a line was refused: ${result.message}`);
      figures.lineBegan(clock.nowMs() - askedMs);
      running = begin(work, { permit: result, askedMs }, (end) => {
        const computedAgain = Math.max(
          0,
          Math.min(line.computedTokens, end.computedTokens + end.cachedTokens) - end.cachedTokens,
        );
        figures.computedAgain(computedAgain);
        if (end.reason === 'aborted') {
          figures.takenBack(end);
          const computedTokens = Math.max(line.computedTokens, end.cachedTokens + end.computedTokens);
          const next = promptsTaken + (end.firstTokenMs === undefined ? 1 : 0);
          clock.timer(0, () => askLine({ ...line, times: times + 1, promptsTaken: next, computedTokens }));
        } else figures.lineEnded();
        feed();
      });
      feed();
    });
  }

  let feeding = false;
  /** In a turn of its own: an answer may come while another is asked for. */
  function feed(): void {
    if (feeding || candidate.kind === 'online only' || candidate.kind === 'again') return;
    feeding = true;
    clock.timer(0, () => {
      feeding = false;
      while (linesQueued < linesWaiting)
        askLine({ work: deps.nextLine(), sinceMs: clock.nowMs(), times: 0, promptsTaken: 0, computedTokens: 0 });
    });
  }

  function scrape(): void {
    for (const [name, engine] of fleet.engines) {
      const { running, waiting, kvUsage, counters } = engine.view();
      const gauges = { running, waiting, kvUsage };
      readings.set(name, { atMs: clock.nowMs(), gauges, counters: { preemptions: counters.preemptions } });
    }
    clock.timer(scrapeMs, scrape);
  }

  function sample(): void {
    const oldestMs = owner.depths().find(({ lane }) => lane === 'batch')?.oldestMs;
    figures.sample(calls, oldestMs);
    clock.timer(sampleMs, sample);
  }

  function arriveFrom(index: number): void {
    const work = deps.online[index];
    if (work === undefined) return;
    clock.timer(beganMs + work.atMs - clock.nowMs(), () => {
      arrive(work);
      arriveFrom(index + 1);
    });
  }

  scrape();
  arriveFrom(0);
  feed();
  sample();
  clock.runUntil(endMs + afterwardsMs);
  lanes.stop();
  return { figures: figures.end({ online: deps.online, engines: fleet.engines }), lived: figures.lived(deps.online) };
}

type Ended = (end: SequenceEnd, call: Call) => void;

function toldBy(end: SequenceEnd, sentMs: number): AnswerTold {
  const { firstTokenMs, lastTokenMs, outputTokens, promptTokens, cachedTokens } = end;
  if (firstTokenMs === undefined || lastTokenMs === undefined) return { computed: false };
  const told = { computed: true, promptTokens, cachedTokens, outputTokens, upstreamTtftMs: firstTokenMs - sentMs };
  return outputTokens < 2 ? told : { ...told, tpotMs: (lastTokenMs - firstTokenMs) / (outputTokens - 1) };
}
