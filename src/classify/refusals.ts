/** What classification refuses by its own rules. */
import type { Refusal } from '../domain/refusal.ts';
import type { ControlKey } from './settings.ts';

export function bodyTooLarge(maxBodyBytes: number): Refusal {
  return {
    refused: true,
    code: 'body_too_large',
    status: 413,
    type: 'invalid_request_error',
    message: `The request body is larger than ${maxBodyBytes} bytes (clients.maxBodyBytes of this proxy).`,
    spokenBy: 'warmlane',
    outcome: 'client_error',
  };
}

export function bodiesMemoryFull(): Refusal {
  return {
    refused: true,
    code: 'bodies_memory_full',
    status: 503,
    type: 'api_error',
    message: 'This proxy holds as many request bodies as it may (clients.maxHeldBytes). Try again later.',
    retryAfterSeconds: 1,
    spokenBy: 'warmlane',
    outcome: 'rejected',
  };
}

/** @param key the repeated key, one of those that warmlane reads */
export function duplicateKey(key: string): Refusal {
  return {
    refused: true,
    code: 'duplicate_key',
    status: 400,
    type: 'invalid_request_error',
    message: `The request body has "${key}" more than once (upper and lower case count as the same). Send it once: servers differ in which one they take.`,
    param: key,
    spokenBy: 'warmlane',
    outcome: 'client_error',
  };
}

/** @param backend whose engine would read a `priority` there */
export function priorityUnread(backend: string): Refusal {
  return {
    refused: true,
    code: 'body_unreadable',
    status: 400,
    type: 'invalid_request_error',
    message: `This proxy takes "priority" out of bodies on their way to "${backend}" and can't read this one. Send the JSON in UTF-8, not compressed; or have lanes.control.trustClientPriority set in its config, which leaves the field where it is.`,
    spokenBy: 'warmlane',
    outcome: 'client_error',
  };
}

export function routeClosed(key: ControlKey): Refusal {
  return {
    refused: true,
    code: 'route_closed',
    status: 403,
    type: 'permission_error',
    message: `This route changes the model server for everybody, so this proxy keeps it closed. Opened in its config by routes.open: [${key}].`,
    spokenBy: 'warmlane',
    outcome: 'client_error',
  };
}

/** For an upload that must be routed by its model, which did not come before the file. */
export function modelAfterFile(): Refusal {
  return {
    refused: true,
    code: 'model_after_file',
    status: 400,
    type: 'invalid_request_error',
    message:
      'Put the form field "model" before the file: this proxy chooses the backend by it and does not hold whole files.',
    param: 'model',
    spokenBy: 'warmlane',
    outcome: 'client_error',
  };
}
