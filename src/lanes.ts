/**
 * The two lanes at work: every 250 ms, while there is batch work, each backend's controller hears what online users feel and
 * what the engine said last, and what it allows goes to the owner of places; a blocked online request has a batch job taken
 * back. Knows no socket, no config file and no wall clock: `app.ts` composes it, and so does an evaluation on the simulator.
 * Decides nothing by itself: the cap is `admit/batch-cap.ts`, who goes next is `admit/owner.ts`.
 */
import { type BatchCap, type CapSignals, createBatchCap, type EngineSignals } from './admit/batch-cap.ts';
import { reserveNote } from './admit/batch-notes.ts';
import { shareOf } from './admit/batch-room.ts';
import type { LaneSettings } from './admit/lane-settings.ts';
import { glimpse } from './admit/glimpse.ts';
import { createOnlineFeeling, type LiveStream, type OnlineFeeling } from './admit/online-feel.ts';
import type { Owner } from './admit/owner.ts';
import type { EngineReading } from './domain/engine-reading.ts';
import type { BackendView, FleetSnapshot } from './domain/fleet.ts';
import type { Job } from './domain/job.ts';
import type { BackendLanes, BatchRule } from './domain/lanes.ts';
import type { Clock, Timer } from './platform/clock.ts';

export interface Lanes {
  /** What batch may use there now. Asking begins the ticking: there is batch work. */
  batchOn(backend: string): BatchRule;
  /** An online job asks for a place; to be told before it does. */
  onlineAsked(job: Pick<Job, 'model' | 'servedModel'>): void;
  /** A backend refused a request for want of room (429, 503), whoever's it was. */
  busy(backend: string): void;
  /** A generating request is over, as far as it came. */
  ended(stream: LiveStream): void;
  /** There may be other backends, or more is known of one. */
  fleetChanged(): void;
  /** The settings may be others: they hold at once, and who waits by them may start. */
  reconfigured(): void;
  /** There is batch work, or was a moment ago: only then is anything looked at. */
  isTicking(): boolean;
  /**
   * Each backend of the fleet.
   * @param lookNow where nobody looks four times a second for want of batch work, look now; else `pressures` are none there
   */
  state(lookNow?: boolean): readonly BackendLanes[];
  stop(): void;
}

export interface LanesDeps {
  readonly clock: Clock;
  readonly fleet: () => FleetSnapshot;
  /** Asked at each tick: the owner itself asks for `batchOn`. */
  readonly owner: () => LaneOwner;
  /** Shows each generating request that is on its way at a backend. */
  readonly streams: (visit: (stream: LiveStream) => void) => void;
  /** What the engine said last; never asked more often for this. */
  readonly engine: (backend: string) => EngineReading | undefined;
  /** Whether ending a request there frees its place; undefined: nobody knows. */
  readonly abortsWork: (backend: string) => boolean | undefined;
  /** Hears once of each backend on which the settings come to what was hardly meant. */
  readonly warn?: (backend: string, note: string) => void;
  /** In place of the adaptive cap, for comparing others with it. */
  readonly makeCap?: (backend: string, nowMs: number) => BatchCap;
}

/** Of the owner of places. */
export type LaneOwner = Pick<
  Owner,
  'running' | 'wanted' | 'reclaim' | 'reclaimPrompts' | 'reclaimed' | 'depths' | 'capsChanged'
>;

interface Lane {
  readonly url: string;
  readonly cap: BatchCap;
  readonly feeling: OnlineFeeling;
  rule: BatchRule | undefined;
  /** Tightest bound on the pace of the online streams that were seen there last; ms a token. */
  paceMs: number;
  /** The same, of this tick. */
  tickPaceMs: number;
  /**
   * Tightest bound on the time to the first token, of online requests that were sent there and wait for theirs longer than they
   * should; ms. Infinity: none does.
   */
  lateBoundMs: number;
  /** Counter and moment of the reading before. */
  preemptions: number | undefined;
  engine: EngineSignals | undefined;
  /** Batch jobs that were taken back there by the last tick. */
  reclaimedJobs: number;
}

/** After the last batch job the ticking goes on for so long: another may come soon. */
const lingerMs = 10_000;
/** A reading older than that tells of another time. */
const staleMs = 10_000;
/** An online stream has a few tokens, and some time in hand, after so many times what one may take. */
const settlePaces = 2;
/** An engine with a cache as full as this starts nobody. */
const blockedKv = 0.95;
/** A model that is asked for under ever new names is looked up anew. */
const maxPools = 256;

/** @param settings asked at each tick; other ones begin anew */
export function createLanes(settings: () => LaneSettings, deps: LanesDeps): Lanes {
  const { clock, fleet } = deps;
  const lanes = new Map<string, Lane>();
  /** By model, who could take its jobs; of one snapshot. */
  const pools = new Map<string, readonly Lane[]>();
  let pooledOf: FleetSnapshot | undefined;
  /** By backend what was said of it last. */
  const noted = new Map<string, string>();
  let made = settings();
  let timer: Timer | undefined;
  let batchMs = -Infinity;
  let stopped = false;

  function laneOf({ name, url }: BackendView): Lane {
    const known = lanes.get(name);
    if (known?.url === url) return known;
    const nowMs = clock.nowMs();
    const lane: Lane = {
      url,
      cap: deps.makeCap?.(name, nowMs) ?? createBatchCap(made, nowMs),
      feeling: createOnlineFeeling(),
      rule: undefined,
      paceMs: made.control.tpotMs,
      tickPaceMs: Infinity,
      lateBoundMs: Infinity,
      preemptions: undefined,
      engine: undefined,
      reclaimedJobs: deps.owner().reclaimed(name).jobs,
    };
    lanes.set(name, lane);
    return lane;
  }

  /** Forgets who left the fleet, and everybody where the settings are others. */
  function follow(snapshot: FleetSnapshot): void {
    const current = settings();
    if (pooledOf === snapshot && made === current) return;
    // A reload makes new objects of what stays the same.
    if (made !== current && JSON.stringify(made) !== JSON.stringify(current)) lanes.clear();
    made = current;
    pooledOf = snapshot;
    pools.clear();
    const names = new Set(snapshot.backends.map(({ name }) => name));
    for (const name of lanes.keys()) if (!names.has(name)) lanes.delete(name);
  }

  /** Only tells: who follows the settings must still see that they are others. */
  function tellNotes(): void {
    const { backends } = fleet();
    for (const name of noted.keys()) if (!backends.some((backend) => backend.name === name)) noted.delete(name);
    for (const backend of backends) {
      const note = reserveNote(backend, settings());
      if (note === undefined || noted.get(backend.name) === note) continue;
      noted.set(backend.name, note);
      deps.warn?.(backend.name, note);
    }
  }

  function poolOf({ model, servedModel }: Pick<Job, 'model' | 'servedModel'>): readonly Lane[] {
    const snapshot = fleet();
    follow(snapshot);
    const name = servedModel ?? model ?? '';
    const known = pools.get(name);
    if (known !== undefined) return known;
    const { backends } = snapshot;
    const pool = backends
      .filter(({ models }) => backends.length === 1 || name === '' || models.length === 0 || models.includes(name))
      .map(laneOf);
    if (pools.size >= maxPools) pools.clear();
    pools.set(name, pool);
    return pool;
  }

  function tick(): void {
    timer = undefined;
    const nowMs = clock.nowMs();
    const owner = deps.owner();
    const { backends } = fleet();
    follow(fleet());
    deps.streams((stream) => look(stream, nowMs));
    const wanted = owner.wanted();
    let isBusy = owner.depths().some(({ lane, jobs }) => lane === 'batch' && jobs > 0);
    let isChanged = false;
    for (const backend of backends) {
      const lane = laneOf(backend);
      const running = owner.running(backend.name);
      isBusy ||= running.batch > 0;
      const before = lane.rule;
      tickLane(lane, backend, { owner, running, onlineWaiting: wanted.get(backend.name) ?? 0, nowMs });
      isChanged ||= before === undefined || lane.rule === undefined || lane.rule.cap > before.cap;
      isChanged ||= (lane.rule?.reserveSlots ?? 0) < (before?.reserveSlots ?? 0);
    }
    if (isBusy) batchMs = nowMs;
    if (nowMs - batchMs < lingerMs) arm();
    if (isChanged) owner.capsChanged();
  }

  interface Moment {
    readonly owner: LaneOwner;
    readonly running: { readonly online: number; readonly batch: number };
    readonly onlineWaiting: number;
    readonly nowMs: number;
  }

  function tickLane(lane: Lane, backend: BackendView, { owner, running, onlineWaiting, nowMs }: Moment): void {
    const { name, slots } = backend;
    takeReading(lane, name, nowMs);
    const signals: { -readonly [key in keyof CapSignals]: CapSignals[key] } = {
      feel: lane.feeling.take(nowMs),
      running,
      onlineWaiting,
    };
    if (lane.engine !== undefined) signals.engine = lane.engine;
    if (slots !== undefined) signals.places = Math.max(1, slots);
    lane.cap.tick(nowMs, signals);
    const now =
      lane.lateBoundMs < Infinity && running.batch > 0 && mayReclaim(name) ? relieve(lane, backend, owner) : 0;
    const { jobs } = owner.reclaimed(name);
    // What still runs is what batch may have, whoever wanted a place: one that was told just now is still among them.
    if (jobs > lane.reclaimedJobs) lane.cap.reclaimed(Math.max(0, running.batch - now), nowMs);
    lane.reclaimedJobs = jobs;
    lane.lateBoundMs = Infinity;
    if (lane.tickPaceMs < Infinity) lane.paceMs = lane.tickPaceMs;
    lane.tickPaceMs = Infinity;
    setRule(lane, name);
  }

  /** @returns how many batch jobs there were told to leave, for an online request that is late */
  function relieve(lane: Lane, backend: BackendView, owner: LaneOwner): number {
    const { jobs } = owner.reclaimPrompts(backend.name, lane.lateBoundMs);
    return jobs === 0 && isHeldUp(lane, backend) ? owner.reclaim(backend.name, 1).jobs : jobs;
  }

  /**
   * An online request that was sent there can't start for what batch jobs hold. Its place it has: who waits for one waits in
   * the owner's queue, and the owner takes places back by itself. An engine that runs fewer than it could has requests
   * waiting for the prompts before them: no place that is taken back helps those.
   */
  function isHeldUp({ engine }: Lane, { slots, maxSequences }: BackendView): boolean {
    if (engine === undefined) return false;
    const isFull = (engine.running ?? Infinity) >= (slots ?? maxSequences ?? 0);
    return (engine.kvUsage ?? 0) >= blockedKv || ((engine.waiting ?? 0) > 0 && isFull);
  }

  function mayReclaim(backend: string): boolean {
    return made.reclaim.enabled && deps.abortsWork(backend) === true;
  }

  /** The same object while it says the same: the owner asks for it at each choice. */
  function setRule(lane: Lane, backend: string): BatchRule {
    const { cap, reserveSlots } = lane.cap.state();
    const { gate } = made.control;
    const settleMs = settlePaces * lane.paceMs;
    const canReclaim = mayReclaim(backend);
    const { rule } = lane;
    if (rule?.cap === cap && rule.reserveSlots === reserveSlots && rule.gate === gate && rule.settleMs === settleMs)
      if (rule.reclaim === canReclaim) return rule;
    return (lane.rule = { cap, reserveSlots, gate, settleMs, reclaim: canReclaim });
  }

  function look(stream: LiveStream, nowMs: number): void {
    const lane = lanes.get(stream.backend);
    if (lane === undefined) return;
    lane.feeling.saw(stream, nowMs);
    const { sentMs, bound } = stream;
    if (stream.lane === 'online') lane.tickPaceMs = Math.min(lane.tickPaceMs, bound.tpotMs);
    const isWaiting = stream.lane === 'online' && stream.streams && stream.firstTokenMs === undefined;
    if (isWaiting && sentMs !== undefined && nowMs - sentMs >= made.reclaim.afterTtftShare * bound.ttftMs)
      lane.lateBoundMs = Math.min(lane.lateBoundMs, bound.ttftMs);
  }

  function takeReading(lane: Lane, backend: string, nowMs: number): void {
    const reading = deps.engine(backend);
    if (reading === undefined || nowMs - reading.atMs > staleMs) {
      lane.engine = undefined;
      return;
    }
    if (lane.engine?.atMs === reading.atMs) return;
    const { kvUsage, waiting, running } = reading.gauges;
    const { preemptions } = reading.counters;
    const engine: { -readonly [key in keyof EngineSignals]: EngineSignals[key] } = { atMs: reading.atMs };
    if (kvUsage !== undefined) engine.kvUsage = kvUsage;
    if (waiting !== undefined) engine.waiting = waiting;
    if (running !== undefined) engine.running = running;
    // An engine that was started anew begins to count anew.
    if (preemptions !== undefined && lane.preemptions !== undefined)
      engine.preempted = Math.max(0, preemptions - lane.preemptions);
    lane.preemptions = preemptions;
    lane.engine = engine;
  }

  function arm(): void {
    if (!stopped) timer ??= clock.timer(made.control.tickMs, tick);
  }

  /** Begins, where nothing was looked at for a while: with what is known at once. */
  function begin(): void {
    batchMs = clock.nowMs();
    if (timer !== undefined || stopped) return;
    follow(fleet());
    for (const backend of fleet().backends) lookFirst(laneOf(backend), backend, 0);
    arm();
  }

  /** What is known at once. */
  function lookFirst(lane: Lane, { name, slots }: BackendView, onlineWaiting: number): void {
    const places = slots === undefined ? {} : { places: Math.max(1, slots) };
    lane.rule = undefined;
    lane.cap.tick(clock.nowMs(), { feel: {}, running: deps.owner().running(name), onlineWaiting, ...places });
  }

  return {
    batchOn(backend) {
      begin();
      const lane = lanes.get(backend);
      return lane === undefined ? nothing : (lane.rule ?? setRule(lane, backend));
    },
    onlineAsked(job) {
      const nowMs = clock.nowMs();
      for (const lane of poolOf(job)) {
        const before = lane.cap.state();
        lane.cap.onlineArrived(nowMs);
        // It had all while nobody was online.
        if (lane.cap.state() !== before) lane.rule = undefined;
      }
    },
    busy(backend) {
      const lane = lanes.get(backend);
      if (lane === undefined) return;
      lane.cap.busy(deps.owner().running(backend).batch, clock.nowMs());
      lane.rule = undefined;
    },
    ended(stream) {
      if (timer !== undefined) lanes.get(stream.backend)?.feeling.ended(stream, clock.nowMs());
    },
    fleetChanged: tellNotes,
    reconfigured() {
      tellNotes();
      const before = made;
      follow(fleet());
      // Else the next batch job begins it.
      if (made === before || timer === undefined) return;
      const owner = deps.owner();
      const wanted = owner.wanted();
      for (const backend of fleet().backends)
        if (!lanes.has(backend.name)) lookFirst(laneOf(backend), backend, wanted.get(backend.name) ?? 0);
      owner.capsChanged();
    },
    isTicking: () => timer !== undefined,
    state(lookNow = false) {
      follow(fleet());
      const states = fleet().backends.map((backend) => {
        const note = reserveNote(backend, made);
        const plain = stateOf(backend, laneOf(backend), { deps, guaranteed: shareOf(backend, made) });
        return note === undefined ? plain : Object.assign(plain, { note });
      });
      return timer === undefined ? states.map(glance(fleet(), lookNow, deps)) : states;
    },
    stop() {
      stopped = true;
      timer?.cancel();
      timer = undefined;
    },
  };
}

/** It isn't in the fleet. */
const nothing: BatchRule = { cap: 0, reserveSlots: 0, gate: true, reclaim: false };

/** Nobody looks while there is no batch work: what was found at the last look holds no more. */
function glance({ backends }: FleetSnapshot, look: boolean, deps: LanesDeps): (state: BackendLanes) => BackendLanes {
  const nowMs = deps.clock.nowMs();
  const byBackend = look ? streamsByBackend(deps) : undefined;
  const wanted = deps.owner().wanted();
  return (state) => {
    const reading = deps.engine(state.backend);
    const slots = backends.find(({ name }) => name === state.backend)?.slots ?? Infinity;
    const onlineWaiting = wanted.get(state.backend) ?? 0;
    const { pressure: _before, ...rest } = state;
    const seen = {
      streams: byBackend?.get(state.backend) ?? [],
      engine: reading === undefined || nowMs - reading.atMs > staleMs ? undefined : reading.gauges,
      running: state.running,
      onlineWaiting,
    };
    return {
      ...rest,
      cap: Math.min(state.cap, Math.max(1, slots)),
      reserveSlots: state.running.online + onlineWaiting === 0 ? 0 : state.reserveSlots,
      watched: false,
      ...(look ? glimpse(seen, nowMs) : { pressures: {} }),
    };
  };
}

function streamsByBackend({ streams }: LanesDeps): ReadonlyMap<string, readonly LiveStream[]> {
  const found = new Map<string, LiveStream[]>();
  streams((stream) => {
    const own = found.get(stream.backend);
    if (own === undefined) found.set(stream.backend, [stream]);
    else own.push(stream);
  });
  return found;
}

function stateOf(
  { name }: BackendView,
  lane: Lane,
  { deps: { owner, abortsWork }, guaranteed }: { readonly deps: LanesDeps; readonly guaranteed: number },
): BackendLanes {
  const { cap, cause, sinceMs, pressure, pressures, reserveSlots, lastCut } = lane.cap.state();
  const works = abortsWork(name);
  const reclaimed = owner().reclaimed(name);
  return {
    backend: name,
    cap,
    cause,
    sinceMs,
    pressures,
    reserveSlots,
    watched: true,
    guaranteed,
    running: owner().running(name),
    reclaimed: reclaimed.jobs,
    wastedTokens: reclaimed.lostTokens,
    ...(pressure === undefined ? {} : { pressure }),
    ...(works === undefined ? {} : { abortsWork: works }),
    ...(lastCut === undefined ? {} : { lastCut }),
  };
}

/** What a request's SLO allows, before it is sent; ms. @param promptTokens those to be computed */
export type SloBounds = (job: Job, promptTokens: number) => { readonly ttftMs?: number; readonly tpotMs?: number };

/** About so many bytes of a request make a prompt token. */
const bytesPerToken = 4;

/** The lanes as the pipeline knows them. */
export function lanesTold(lanes: Lanes, settings: () => LaneSettings, sloBounds: SloBounds) {
  return {
    onlineAsked: lanes.onlineAsked,
    busy: lanes.busy,
    ended: lanes.ended,
    isTicking: lanes.isTicking,
    boundOf(job: Job, promptTokens: number) {
      const { control } = settings();
      const { ttftMs = control.ttftMs, tpotMs = control.tpotMs } = sloBounds(job, promptTokens);
      return { ttftMs, tpotMs };
    },
    ttftBoundMs: (job: Job) => sloBounds(job, job.bodyBytes / bytesPerToken).ttftMs,
    maxReclaims: () => (settings().reclaim.enabled ? settings().reclaim.maxTimes : 0),
    priorities() {
      const { enginePriority, trustClientPriority } = settings().control;
      return { tellsEngines: enginePriority, trustsClients: trustClientPriority };
    },
  };
}
