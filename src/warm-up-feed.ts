/**
 * Gives prefill ahead of time what it works with: the config's prompts as requests, the hottest beginnings of what clients
 * send, and the pipeline as the way to send them. Decides nothing: when and where is `warm-up.ts`, what is hot is
 * `route/hot-prompts.ts`.
 */
import type { Owner } from './admit/owner.ts';
import { warmBody } from './classify/warm-body.ts';
import type { BackendView, FleetSnapshot } from './domain/fleet.ts';
import type { Job } from './domain/job.ts';
import type { RequestRecord } from './domain/record.ts';
import type { WarmUpFigures } from './domain/warm-up-figures.ts';
import type { Pipeline } from './pipeline.ts';
import type { Clock } from './platform/clock.ts';
import { scanJson } from './platform/json-scan.ts';
import { readJsonString } from './platform/json-value.ts';
import type { Log } from './platform/log.ts';
import { createOwnClient, ownHead, ownUpload } from './platform/own-client.ts';
import type { RequestBody } from './platform/upstream/port.ts';
import { serves } from './route/eligible.ts';
import { createHotPrompts } from './route/hot-prompts.ts';
import type { WarmUpSettings } from './route/warm-up-settings.ts';
import { createWarmUp, type WarmRequest, type WarmUpTold } from './warm-up.ts';

export interface WarmUpFeed {
  /** To be told of each client's prompt, before it is sent. */
  saw(job: Job, body: RequestBody): void;
  /** To be told of each finished request. */
  recorded(record: RequestRecord, job: Job | undefined): void;
  fleetChanged(snapshot: FleetSnapshot): void;
  stats(): { readonly backends: readonly WarmUpFigures[]; readonly rememberedBytes: number };
  stop(): void;
}

export interface WarmUpFeedDeps {
  readonly clock: Clock;
  readonly log: Log;
  readonly fleet: () => FleetSnapshot;
  readonly owner: Pick<Owner, 'load' | 'waiting'>;
  /** Asked when something is to be sent. */
  readonly pipeline: () => Pick<Pipeline, 'serve'>;
  readonly makeId: () => string;
  /** alias → model name that backends know, as it holds now */
  readonly aliases: () => Readonly<Record<string, string>>;
}

/** Shorter beginnings are sooner computed than asked for. */
const minTokens = 1000;
const maxBorders = 512;

/** @returns undefined when there is nothing to warm */
export function createWarmUpFeed(settings: WarmUpSettings, deps: WarmUpFeedDeps): WarmUpFeed | undefined {
  const { prompts, hottest } = settings;
  if (prompts.length === 0 && !hottest.enabled) return undefined;
  const { clock, log, owner } = deps;
  const hot = hottest.enabled ? createHotPrompts({ maxBorders, minTokens, maxBytes: hottest.maxBytes }) : undefined;

  function hottestNow(): readonly WarmRequest[] {
    const found = hot?.hottest(hottest.count) ?? [];
    return found.map(({ path, body, messages }, index) => ({ name: `hottest ${index + 1}`, path, body, messages }));
  }

  const warmUp = createWarmUp(settings, {
    clock,
    log,
    prompts: namedPrompts(settings, log),
    hottest: hottestNow,
    isIdle: (backend) => owner.load(backend).jobs === 0 && owner.waiting() === 0,
    serves: (backend, { body }) => couldServe(backend, body, deps),
    send: (request, backend, told) => sendOwn(request, { backend, told, deps }),
  });

  return {
    saw(job, body) {
      if (hot === undefined || job.prefix === undefined || body.kind !== 'held') return;
      // Its prompt begins with what one backend keeps.
      if (job.stickyKey !== undefined) return;
      const wanted = hot.saw(job.prefix);
      if (wanted === undefined) return;
      const path = job.target;
      const made = warmBody(Buffer.concat(body.chunks), path, wanted.messages);
      // Without a list of messages it can't be cut: nothing of it is kept, and it isn't asked for again.
      hot.keep(wanted, path, made?.body);
    },
    recorded: warmUp.recorded,
    fleetChanged: warmUp.fleetChanged,
    stats: () => ({ backends: warmUp.stats(), rememberedBytes: hot?.bytes ?? 0 }),
    stop: warmUp.stop,
  };
}

function namedPrompts({ prompts }: WarmUpSettings, log: Log): readonly WarmRequest[] {
  return prompts.flatMap(({ name, path, body }) => {
    const made = warmBody(Buffer.from(body), path);
    if (made === undefined) log.warn('a prompt can not be brought into caches: it is no JSON object', { prompt: name });
    return made === undefined ? [] : [{ name, path, body: made.body }];
  });
}

const modelKey = new Map([['model', 4096]]);

function couldServe(backend: BackendView, body: Buffer, { fleet, aliases }: WarmUpFeedDeps): boolean {
  const model = readJsonString(scanJson(body, modelKey).fields.get('model'));
  if (model === undefined || fleet().backends.length === 1) return true;
  const known = aliases();
  return serves(backend, Object.hasOwn(known, model) ? known[model] : model);
}

function sendOwn(
  { path, body }: WarmRequest,
  { backend, told, deps }: { readonly backend: string; readonly told: WarmUpTold; readonly deps: WarmUpFeedDeps },
): { abort(): void } {
  const client = createOwnClient();
  const head = ownHead({ requestId: deps.makeId(), target: path, receivedMs: deps.clock.nowMs() });
  deps.pipeline().serve(head, ownUpload(body), client, {
    kind: 'warm_up',
    backend,
    yields() {
      told.madeWay();
      client.leave();
    },
    booked: told.booked,
    over: told.over,
  });
  return { abort: () => client.leave() };
}
