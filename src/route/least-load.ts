/**
 * Pure choice of backends for a job: who may take it, best first, with the reason.
 * Never awaits, keeps nothing. The seam for warm routing: same inputs, same kind of answer.
 */
import type { BackendView, FleetSnapshot } from '../domain/fleet.ts';
import type { Job } from '../domain/job.ts';
import type { Refusal } from '../domain/refusal.ts';

/** What admission knows of one backend's load: permits out, and the order in which backends were last used. */
export interface BackendLoad {
  readonly jobs: number;
  readonly slots: number;
  /** Grows with every grant anywhere; the backend with the smallest was used longest ago. */
  readonly lastUsed: number;
}

export interface Target {
  readonly backend: BackendView;
  /** Short machine word for logs and headers. */
  readonly reason: 'only_backend' | 'least_load' | 'sticky' | 'last_resort';
}

export interface RouteRequest {
  readonly job: Job;
  readonly fleet: FleetSnapshot;
  readonly load: (backend: string) => BackendLoad;
  /** Model name as the backends know it (alias resolved). */
  readonly model?: string | undefined;
  /** Backend that holds the state this job refers to. */
  readonly affinity?: string | undefined;
  /** Backends that already failed this job. */
  readonly exclude: readonly string[];
}

/** A prompt of b bytes has at least b/32 tokens in any common tokeniser: what is too long even so can't fit. */
const mostBytesPerToken = 32;

/**
 * Ranked targets, never empty, or the refusal to answer with.
 * Refuses with 404 when several backends are known not to serve the model, with 503 when every backend failed already,
 * or when only one that takes no work might serve it.
 */
export function route(request: RouteRequest): readonly Target[] | Refusal {
  const { fleet, exclude } = request;
  const remaining = fleet.backends.filter((backend) => !exclude.includes(backend.name));
  if (remaining.length === 0) return noBackend(fleet.backends.length);
  if (request.affinity !== undefined) {
    const home = remaining.find((backend) => backend.name === request.affinity);
    if (home !== undefined) return [{ backend: home, reason: 'sticky' }];
  }
  if (fleet.backends.length === 1) return remaining.map((backend) => ({ backend, reason: 'only_backend' as const }));
  const serving = remaining.filter((backend) => serves(backend, request.model));
  if (serving.length === 0) {
    const known = fleet.backends.some((backend) => serves(backend, request.model));
    return known ? noBackend(fleet.backends.length) : modelNotFound(request.model ?? '', fleet.backends);
  }
  const usable = serving.filter((backend) => takesWork(backend));
  if (usable.length === 0 && isUnsure(request, serving)) return modelUnsure(request.model ?? '', fleet.backends);
  const reason = usable.length > 0 ? ('least_load' as const) : ('last_resort' as const);
  const candidates = usable.length > 0 ? usable : serving;
  const fitting = candidates.filter((backend) => !overflows(backend, request.job));
  // Where it fits nowhere, the engine's own error tells the client more than ours could.
  const ranked = (fitting.length > 0 ? fitting : candidates).toSorted((a, b) => compareLoad(a, b, request.load));
  return ranked.map((backend) => ({ backend, reason }));
}

function serves(backend: BackendView, model: string | undefined): boolean {
  return model === undefined || backend.models.length === 0 || backend.models.includes(model);
}

/** Those that take work don't serve the model; the others may, but nobody has heard yet what they serve. */
function isUnsure({ model, fleet }: RouteRequest, serving: readonly BackendView[]): boolean {
  if (model === undefined || serving.some((backend) => backend.models.length > 0)) return false;
  return fleet.backends.some((backend) => takesWork(backend) && !serves(backend, model));
}

/** `unknown` counts as usable: it has not been asked yet, and one request finds out. */
function takesWork(backend: BackendView): boolean {
  return backend.health === 'up' || backend.health === 'unknown';
}

function overflows(backend: BackendView, job: Job): boolean {
  if (backend.contextTokens === undefined || !job.generates) return false;
  return job.bodyBytes / mostBytesPerToken > backend.contextTokens;
}

function compareLoad(a: BackendView, b: BackendView, load: RouteRequest['load']): number {
  const left = load(a.name);
  const right = load(b.name);
  return share(a, left) - share(b, right) || left.jobs - right.jobs || left.lastUsed - right.lastUsed;
}

/** Load as a share of what it can start at once; without a limit, jobs count against a nominal 32. */
function share(backend: BackendView, load: BackendLoad): number {
  if (backend.slots === undefined) return load.jobs / 32;
  return (load.slots + backend.ghostSlots) / Math.max(1, backend.slots);
}

function modelNotFound(model: string, backends: readonly BackendView[]): Refusal {
  return {
    refused: true,
    code: 'model_not_found',
    status: 404,
    type: 'invalid_request_error',
    message: `No backend of this proxy serves the model \`${model}\`. Served here: ${servedBy(backends)}.`,
    param: 'model',
    spokenBy: 'warmlane',
    outcome: 'client_error',
  };
}

function modelUnsure(model: string, backends: readonly BackendView[]): Refusal {
  const silent = backends.filter((backend) => !takesWork(backend) && backend.models.length === 0);
  const names = silent.map(({ name, health }) => `${name} (${health})`).join(', ');
  return {
    refused: true,
    code: 'no_backend',
    status: 503,
    type: 'api_error',
    message: `No backend that takes work serves the model \`${model}\`. Served here: ${servedBy(backends)}. Unknown is what these serve: ${names}.`,
    param: 'model',
    retryAfterSeconds: 1,
    spokenBy: 'warmlane',
    outcome: 'upstream_error',
  };
}

function servedBy(backends: readonly BackendView[]): string {
  const served = [...new Set(backends.flatMap((backend) => backend.models))].toSorted();
  return served.slice(0, 20).join(', ') + (served.length > 20 ? ', …' : '');
}

function noBackend(count: number): Refusal {
  return {
    refused: true,
    code: 'no_backend',
    status: 503,
    type: 'api_error',
    message:
      count === 0
        ? 'No backend is configured. Start warmlane with --backend URL.'
        : 'Every backend that could serve this request has failed it. Try again later.',
    retryAfterSeconds: 1,
    spokenBy: 'warmlane',
    outcome: 'upstream_error',
  };
}
