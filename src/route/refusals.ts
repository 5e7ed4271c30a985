/** Routing's own refusals: nobody serves the model, nobody can be asked. */
import type { BackendView } from '../domain/fleet.ts';
import type { Refusal } from '../domain/refusal.ts';

export function modelNotFound(model: string, backends: readonly BackendView[]): Refusal {
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

/** @param silent backends that take no work and whose models nobody has heard */
export function modelUnsure(model: string, backends: readonly BackendView[], silent: readonly BackendView[]): Refusal {
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

/** @param count backends in the fleet */
export function noBackend(count: number): Refusal {
  return {
    refused: true,
    code: 'no_backend',
    status: 503,
    type: 'api_error',
    message:
      count === 0
        ? 'There is no backend, or none was found yet. Name one with --backend URL, or in the config under backends or discovery.'
        : 'Every backend that could serve this request has failed it. Try again later.',
    retryAfterSeconds: 1,
    spokenBy: 'warmlane',
    outcome: 'upstream_error',
  };
}

export function allDrained(): Refusal {
  return {
    refused: true,
    code: 'no_backend',
    status: 503,
    type: 'api_error',
    message: 'Every backend that could serve this request is drained: it takes no new work. Try again later.',
    retryAfterSeconds: 1,
    spokenBy: 'warmlane',
    outcome: 'upstream_error',
  };
}

function servedBy(backends: readonly BackendView[]): string {
  const served = [...new Set(backends.flatMap((backend) => backend.models))].toSorted();
  return served.slice(0, 20).join(', ') + (served.length > 20 ? ', …' : '');
}
