/**
 * Who may take a job at all: serves its model, takes work, has not failed it, has room for its prompt, keeps what it refers to.
 * Pure. Orders nobody: that is a policy's part.
 */
import type { BackendView, FleetSnapshot } from '../domain/fleet.ts';
import type { Job } from '../domain/job.ts';
import type { Refusal } from '../domain/refusal.ts';
import type { ConsideredBackend, RouteReason } from '../domain/routing.ts';
import { allDrained, modelNotFound, modelUnsure, noBackend } from './refusals.ts';

export interface EligibleRequest {
  readonly job: Job;
  readonly fleet: FleetSnapshot;
  /** Model name as the backends know it (alias resolved). */
  readonly model?: string | undefined;
  /** Backend that holds the state this job refers to. */
  readonly affinity?: string | undefined;
  /** Backends that already failed this job. */
  readonly exclude: readonly string[];
  /** As far as its bytes tell; absent: only bodyBytes are known. */
  readonly promptTokens?: number | undefined;
  /** Permits out on a backend. */
  readonly jobsOn: (backend: string) => number;
}

export interface Left {
  readonly backend: BackendView;
  readonly why: NonNullable<ConsideredBackend['left']>;
}

export interface Eligible {
  /** Never empty. */
  readonly backends: readonly BackendView[];
  /** Said of all of them, where there is nothing for a policy to say. */
  readonly reason?: RouteReason & ('only_backend' | 'sticky' | 'last_resort');
  readonly left: readonly Left[];
}

/** A prompt of b bytes has at least b/32 tokens in any common tokeniser: what is too long even so can't fit. */
const mostBytesPerToken = 32;
/** A prompt counted by its bytes may have that much less of tokens. */
const countedAtLeast = 0.8;

/**
 * Refuses with 404 when several backends are known not to serve the model, with 503 when every backend failed already,
 * or when only one that takes no work might serve it.
 */
export function eligible(request: EligibleRequest): Eligible | Refusal {
  const { fleet, exclude, model } = request;
  const left: Left[] = [];
  const remaining = part(fleet.backends, left, 'failed_before', ({ name }) => !exclude.includes(name));
  if (remaining.length === 0) return noBackend(fleet.backends.length);
  if (request.affinity !== undefined) {
    const home = remaining.find((backend) => backend.name === request.affinity);
    if (home !== undefined) return { backends: [home], reason: 'sticky', left };
  }
  if (fleet.backends.length === 1) {
    return remaining.some(isDrained) ? allDrained() : { backends: remaining, reason: 'only_backend', left };
  }
  const able = part(remaining, left, 'other_model', (backend) => serves(backend, model));
  if (able.length === 0) {
    const known = fleet.backends.some((backend) => serves(backend, model));
    return known ? noBackend(fleet.backends.length) : modelNotFound(model ?? '', fleet.backends);
  }
  const serving = part(able, left, 'takes_no_work', (backend) => !isDrained(backend));
  if (serving.length === 0) return allDrained();
  const usable = serving.filter(takesWork);
  if (usable.length === 0) {
    if (isUnsure(request, serving)) {
      const silent = fleet.backends.filter((backend) => !takesWork(backend) && backend.models.length === 0);
      return modelUnsure(model ?? '', fleet.backends, silent);
    }
    return { backends: fitting(serving, request, left), reason: 'last_resort', left };
  }
  for (const backend of serving) if (!takesWork(backend)) left.push({ backend, why: 'takes_no_work' });
  return { backends: tried(fitting(usable, request, left), request, left), left };
}

function part(
  backends: readonly BackendView[],
  left: Left[],
  why: Left['why'],
  stays: (backend: BackendView) => boolean,
): readonly BackendView[] {
  if (backends.every(stays)) return backends;
  const staying: BackendView[] = [];
  for (const backend of backends) {
    if (stays(backend)) staying.push(backend);
    else left.push({ backend, why });
  }
  return staying;
}

/** Where a prompt fits nowhere, the engine's own error tells the client more than ours could. */
function fitting(backends: readonly BackendView[], request: EligibleRequest, left: Left[]): readonly BackendView[] {
  if (!backends.some((backend) => !overflows(backend, request))) return backends;
  return part(backends, left, 'too_small', (backend) => !overflows(backend, request));
}

/** A backend on trial has one job at a time, while another can take the next one. */
function tried(backends: readonly BackendView[], request: EligibleRequest, left: Left[]): readonly BackendView[] {
  const isBusy = (backend: BackendView) => backend.onTrial === true && request.jobsOn(backend.name) > 0;
  if (!backends.some((backend) => !isBusy(backend))) return backends;
  return part(backends, left, 'takes_no_work', (backend) => !isBusy(backend));
}

export function serves(backend: BackendView, model: string | undefined): boolean {
  return model === undefined || backend.models.length === 0 || backend.models.includes(model);
}

/** Those that take work don't serve the model; the others may, but nobody has heard yet what they serve. */
function isUnsure({ model, fleet }: EligibleRequest, serving: readonly BackendView[]): boolean {
  if (model === undefined || serving.some((backend) => backend.models.length > 0)) return false;
  return fleet.backends.some((backend) => takesWork(backend) && !serves(backend, model));
}

/** Whoever runs it asked that it get no new work: not even as the last resort. */
function isDrained({ health, healthReason }: BackendView): boolean {
  return health === 'draining' && healthReason === 'asked';
}

/** `unknown` counts as usable: it has not been asked yet, and one request finds out. */
function takesWork(backend: BackendView): boolean {
  return backend.health === 'up' || backend.health === 'unknown';
}

function overflows(backend: BackendView, { job, promptTokens }: EligibleRequest): boolean {
  if (backend.contextTokens === undefined || !job.generates) return false;
  if (promptTokens !== undefined && promptTokens * countedAtLeast > backend.contextTokens) return true;
  return job.bodyBytes / mostBytesPerToken > backend.contextTokens;
}
