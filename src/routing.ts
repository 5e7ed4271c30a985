/**
 * Routing as a whole: what is believed to be cached, how fast the backends are, where sessions were, and from these the pure
 * choice for each job; and what is learnt when its answer ends. Knows no socket, no file and no wall clock, so that a replay
 * of a trace runs the same code. `admit/owner.ts` asks it, `app.ts` and `cli/replay` compose it.
 */
import type { Ask, AskPlace, Choice, Granted, LoadView, RankedTarget } from './admit/owner.ts';
import { comesAsStream } from './classify/edit-body.ts';
import type { BackendView, FleetSnapshot } from './domain/fleet.ts';
import type { Job } from './domain/job.ts';
import { isRefusal, type Refusal } from './domain/refusal.ts';
import type { AnswerTold, Errand, PolicyName, RouteNote } from './domain/routing.ts';
import type { Clock, Timer } from './platform/clock.ts';
import { routeJobOf, weightOf } from './route/candidate.ts';
import { eligible, serves } from './route/eligible.ts';
import { createFleetChanges } from './route/fleet-changes.ts';
import { noteOf } from './route/note.ts';
import { leastLoad } from './route/policies/least-load.ts';
import { createPolicy } from './route/policies/policies.ts';
import type { Candidate, EngineSpeed, Policy } from './route/policy.ts';
import { createPrefillLoad, type PrefillLoad } from './route/prefill-load.ts';
import { type Decision, route } from './route/route.ts';
import { createSessions } from './route/sessions.ts';
import type { RouteSettings } from './route/settings.ts';
import { createSpeeds, type Speeds } from './route/speeds.ts';
import type { FlushReason, Look, Visit, WarmIndex } from './route/warm/port.ts';
import { createWarmIndex } from './route/warm/warm-index.ts';

export type RoutingAsk = Pick<Ask, 'job' | 'exclude' | 'affinity'>;

type LoadOf = (backend: string) => LoadView;

/** A job that waits is chosen for whenever anything changes; what is held of its prompt is looked up no more often than this. */
const waiterLookMs = 50;

export interface Routing {
  /** Pure but for reading what was learnt: asking changes nothing. */
  choose(ask: RoutingAsk, load: LoadOf, place?: AskPlace): Choice | Refusal;
  /** The job goes there now: its prompt counts as held there, and its answer will be learnt from. */
  sent(ask: RoutingAsk, target: RankedTarget, granted?: Granted): Errand | undefined;
  /** Some backend that takes work, besides those in `exclude`, could take the job. */
  hasOther(job: Job, exclude: readonly string[], load: LoadOf): boolean;
  /** What was believed of those that left or were started anew is dropped. Called at each choice as well. */
  fleetChanged(): void;
  readonly index: WarmIndex;
  speed(backend: BackendView): EngineSpeed;
  policyName(model: string | undefined): PolicyName;
}

export interface RoutingDeps {
  readonly clock: Clock;
  readonly fleet: () => FleetSnapshot;
  /** In place of its own. */
  readonly index?: WarmIndex;
  /** What was believed of a backend was dropped. */
  readonly flushed?: (backend: string, why: FlushReason) => void;
  /** Model as the backends know it; as the job names it unless given. */
  readonly modelOf?: (job: Job) => string | undefined;
  /** In place of the settings' policies, for comparing others with them. */
  readonly policy?: Policy;
}

interface Pool {
  readonly name: PolicyName;
  readonly policy: Policy;
}

/** A decision and what it was made of, kept until the next one. */
interface Made {
  readonly ask: RoutingAsk;
  readonly look: Look | undefined;
  readonly promptTokens: number;
  readonly decision: Decision;
}

interface WaiterLook {
  readonly look: Look | undefined;
  readonly snapshot: FleetSnapshot;
  readonly atMs: number;
}

export function createRouting(settings: RouteSettings, deps: RoutingDeps): Routing {
  const { clock, fleet } = deps;
  const index = deps.index ?? createOwnIndex(settings, deps);
  const modelOf = deps.modelOf ?? (({ model }: Job) => model);
  const speeds = createSpeeds();
  const prefillLoad = createPrefillLoad({ nowMs: () => clock.nowMs() });
  const sessions = createSessions(settings, { nowMs: () => clock.nowMs() });
  const changes = createFleetChanges({
    clock,
    restarted: (backend) => index.flush(backend, 'restarted'),
    removed(backend) {
      index.flush(backend, 'removed');
      speeds.forget(backend);
      prefillLoad.forget(backend);
    },
  });
  const poolOf = createPools(settings, deps.policy);
  const waiterLooks = new WeakMap<Job, WaiterLook>();
  let latest: Made | undefined;

  function lookAt({ job }: RoutingAsk, snapshot: FleetSnapshot, model: string | undefined): Look | undefined {
    if (job.prefix === undefined || !job.generates) return undefined;
    const { backends } = snapshot;
    const isServing = (backend: BackendView) => backends.length === 1 || serves(backend, model);
    return index.look(job.prefix, backends.every(isServing) ? backends : backends.filter(isServing), model);
  }

  function lookFor(ask: RoutingAsk, place: AskPlace | undefined, snapshot: FleetSnapshot): Look | undefined {
    const model = modelOf(ask.job);
    if (place === undefined || place.waitedMs === 0) return lookAt(ask, snapshot, model);
    const atMs = clock.nowMs();
    const known = waiterLooks.get(ask.job);
    if (known?.snapshot === snapshot && atMs - known.atMs < waiterLookMs) return known.look;
    const look = lookAt(ask, snapshot, model);
    waiterLooks.set(ask.job, { look, snapshot, atMs });
    return look;
  }

  function decide(ask: RoutingAsk, load: LoadOf, place: AskPlace | undefined): Made | Refusal {
    const snapshot = fleet();
    changes.seen(snapshot);
    const { job, exclude, affinity } = ask;
    const model = modelOf(job);
    const look = lookFor(ask, place, snapshot);
    const nowMs = clock.nowMs();
    const sessionHome = job.session === undefined ? undefined : sessions.home(sessionOf(job, job.session));
    const routeJob = routeJobOf({
      job,
      promptTokens: look?.promptTokens,
      outputTokens: speeds.outputTokens(model),
      sessionHome,
      waitedMs: place?.waitedMs ?? 0,
    });
    const candidate = (backend: BackendView): Candidate => {
      const { name } = backend;
      const held = load(name);
      const speed = speeds.of(backend);
      return {
        backend,
        jobs: held.jobs,
        slots: held.slots,
        lastUsed: held.lastUsed,
        pendingTokens: held.pendingTokens,
        pendingJobs: held.pendingJobs,
        decoding: held.decoding,
        contextTokens: held.contextTokens,
        heldTokens: look?.held.get(name)?.tokens ?? 0,
        heldAge: look?.held.get(name)?.age ?? 1,
        indexTokens: index.heldTokens(name),
        fullShare: index.fullShare(name),
        speed,
        networkSeconds: speeds.networkSeconds(name),
        weight: weightOf(backend, nowMs, settings.slowStartMs),
        seenSlots: speeds.seenSlots(name),
        aheadJobs: place?.ahead.get(name) ?? 0,
        prefillShare: prefillLoad.share(name, speed.prefillTokensPerSecond),
      };
    };
    const decision = route({
      job,
      fleet: snapshot,
      model,
      affinity,
      exclude,
      promptTokens: look?.promptTokens,
      jobsOn: (backend) => load(backend).jobs,
      policy: policyFor(poolOf(model), job),
      routeJob,
      candidate,
    });
    return isRefusal(decision) ? decision : { ask, look, promptTokens: routeJob.promptTokens, decision };
  }

  return {
    index,
    speed: (backend) => speeds.of(backend),
    policyName: (model) => poolOf(model).name,
    fleetChanged: () => changes.seen(fleet()),
    choose(ask, load, place) {
      const made = decide(ask, load, place);
      if (isRefusal(made)) return made;
      latest = made;
      const { ranked, hold, againMs } = made.decision;
      return againMs === undefined ? { ranked, hold } : { ranked, hold, againMs };
    },
    hasOther(job, exclude, load) {
      const snapshot = fleet();
      if (snapshot.backends.every(({ name }) => exclude.includes(name))) return false;
      const jobsOn = (backend: string) => load(backend).jobs;
      const found = eligible({ job, exclude, fleet: snapshot, model: modelOf(job), jobsOn });
      return !isRefusal(found) && found.reason !== 'last_resort';
    },
    sent(ask, { backend }, granted) {
      const { job } = ask;
      const model = modelOf(job);
      const made = latest?.ask === ask ? latest : undefined;
      const look = made === undefined ? lookAt(ask, fleet(), model) : made.look;
      const promptTokens = made?.promptTokens ?? look?.promptTokens ?? Math.ceil(job.bodyBytes / 4);
      const uncachedTokens = Math.max(1, promptTokens - (look?.held.get(backend.name)?.tokens ?? 0));
      const policy = poolOf(model).name;
      const note = look && noteOf({ policy, look, decision: made?.decision, backend: backend.name });
      const visit = job.prefix === undefined ? undefined : index.visit(backend, job.prefix, model);
      if (job.session !== undefined) sessions.served(sessionOf(job, job.session), backend.name);
      return createErrand(
        { job, backend, model, note, visit, promptTokens, uncachedTokens, granted },
        { clock, speeds, prefillLoad, fleet },
      );
    },
  };
}

function createOwnIndex({ index, caches }: RouteSettings, { clock, flushed }: RoutingDeps): WarmIndex {
  const nowMs = () => clock.nowMs();
  return createWarmIndex(
    { maxEntries: index.maxEntries, policies: caches },
    flushed === undefined ? { nowMs } : { nowMs, flushed },
  );
}

/** What yields no tokens has no prefix to be near to: it goes by load, or in turn where everything does. */
function policyFor({ name, policy }: Pool, job: Job): Policy {
  return job.generates || name === 'round-robin' ? policy : leastLoad;
}

function sessionOf({ model = '' }: Job, session: string): string {
  return `${model}\n${session}`;
}

function createPools(settings: RouteSettings, instead: Policy | undefined): (model: string | undefined) => Pool {
  const made = (name: PolicyName): Pool => ({ name, policy: instead ?? createPolicy(name, settings.cost) });
  const usual = made(settings.policy);
  const byModel = new Map<string, Pool>();
  for (const { models, policy } of settings.pools) {
    const pool = made(policy);
    for (const model of models) byModel.set(model, pool);
  }
  return (model) => (model === undefined ? usual : (byModel.get(model) ?? usual));
}

/** A prompt that takes so many times as long as it should, and more, waits for something else: an image, a grammar, a dead engine. */
const overdueFactor = 2;
const overdueMs = 1000;

function timerOf(
  granted: Granted,
  { isUnseen, prefillMs, clock }: { readonly isUnseen: boolean; readonly prefillMs: number; readonly clock: Clock },
): Timer {
  if (isUnseen) return clock.timer(prefillMs, granted.computed);
  return clock.timer(overdueFactor * prefillMs + overdueMs, granted.overdue);
}

interface ErrandDeps {
  readonly clock: Clock;
  readonly speeds: Speeds;
  readonly prefillLoad: PrefillLoad;
  readonly fleet: () => FleetSnapshot;
}

interface ErrandParts {
  readonly job: Job;
  readonly backend: BackendView;
  readonly model: string | undefined;
  readonly note: RouteNote | undefined;
  readonly visit: Visit | undefined;
  readonly promptTokens: number;
  readonly uncachedTokens: number;
  readonly granted: Granted | undefined;
}

function createErrand(parts: ErrandParts, { clock, speeds, prefillLoad, fleet }: ErrandDeps): Errand {
  const { job, backend, model, note, visit, promptTokens, uncachedTokens, granted } = parts;
  const { pendingTokens = 0, decoding = 0, contextTokens = 0 } = granted?.load ?? {};
  // An answer that isn't read event by event shows no first token: its prompt is taken for computed after the time it needs.
  const isUnseen = granted !== undefined && (!comesAsStream(job, backend.engine) || !job.measured);
  const msPerToken = 1000 / speeds.of(backend).prefillTokensPerSecond;
  const promptMs = uncachedTokens * msPerToken;
  const prefillMs = (pendingTokens + uncachedTokens) * msPerToken;
  const timer = granted && timerOf(granted, { isUnseen, prefillMs, clock });
  // What it shows after it left tells nothing of one that has its name now.
  const isHere = () => fleet().backends.some(({ name, url }) => name === backend.name && url === backend.url);
  let isOpen = true;
  /** Of all prompts there, computed before its own first token; undefined until that. */
  let computedBefore: number | undefined;
  let computedMs: number | undefined;
  prefillLoad.add(backend.name, uncachedTokens);
  const ended: Errand['ended'] = (told) => {
    if (!isOpen) return;
    isOpen = false;
    timer?.cancel();
    visit?.end(told);
    granted?.used?.(told);
    if (!isHere()) return;
    const unforeseen = computedTokens(told, { promptTokens, uncachedTokens }) - uncachedTokens;
    prefillLoad.correct(backend.name, unforeseen, clock.nowMs() - (computedMs ?? sentMs));
    if (!told.computed) return;
    const now = granted?.load;
    speeds.learn(backend, model, {
      told,
      sent: {
        promptTokens,
        uncachedTokens,
        pendingTokens,
        choices: job.choices,
        streams: (decoding + (now?.decoding ?? 0)) / 2 + job.choices,
        contextTokens: (contextTokens + (now?.contextTokens ?? 0)) / 2 + promptTokens * job.choices,
        prefillTokens:
          computedBefore === undefined ? 0 : Math.max(0, prefillLoad.computed(backend.name) - computedBefore),
      },
    });
  };
  const sentMs = clock.nowMs();
  const computed = () => {
    if (!isUnseen) timer?.cancel();
    visit?.computed();
    computedMs ??= clock.nowMs();
    if (computedBefore === undefined) {
      prefillLoad.done(backend.name, uncachedTokens);
      computedBefore = prefillLoad.computed(backend.name);
    }
    if (granted === undefined || isUnseen || backend.slots !== undefined || !isHere()) return;
    speeds.began(backend, { ttftMs: clock.nowMs() - sentMs, expectedMs: prefillMs, streams: granted.load.decoding });
  };
  return note === undefined
    ? { promptTokens, uncachedTokens, promptMs, computed, ended }
    : { note, promptTokens, uncachedTokens, promptMs, computed, ended };
}

/** What the prompt cost in the end: as told, else as it was thought to. */
function computedTokens(
  { computed, promptTokens, cachedTokens }: AnswerTold,
  sent: { readonly promptTokens: number; readonly uncachedTokens: number },
): number {
  if (!computed) return 0;
  if (cachedTokens === undefined) return sent.uncachedTokens;
  return Math.max(0, (promptTokens ?? sent.promptTokens) - cachedTokens);
}
