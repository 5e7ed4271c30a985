/** What is wrong with a request to the Files or Batch API, as a value, and as OpenAI's clients read it. */
import type { RouteReply } from '../../platform/own-route.ts';
import { type StoreError, type StoreFault } from '../store/port.ts';

export interface Fault {
  readonly fault: true;
  readonly status: number;
  readonly type: 'invalid_request_error' | 'rate_limit_error' | 'api_error';
  readonly code: string;
  readonly message: string;
  /** Name of the parameter that is wrong. */
  readonly param?: string;
  readonly headers?: Readonly<Record<string, string>>;
}

/** OpenAI's clients repeat 409, 429 and 5xx by themselves; this says that it would be of no use. */
export const noRetry = { 'X-Should-Retry': 'false' } as const;

export function isFault(value: unknown): value is Fault {
  return typeof value === 'object' && value !== null && 'fault' in value;
}

/** 400, or another status of the client's. */
export function badRequest(said: {
  readonly message: string;
  readonly code: string;
  readonly param?: string;
  readonly status?: number;
  readonly headers?: Readonly<Record<string, string>>;
}): Fault {
  return { fault: true, type: 'invalid_request_error', ...said, status: said.status ?? 400 };
}

export function missing(param: string): Fault {
  return badRequest({
    message: `Missing required parameter: '${param}'.`,
    code: 'missing_required_parameter',
    param,
  });
}

export function notFound(what: string, param: string): Fault {
  return badRequest({ status: 404, message: what, code: 'not_found', param });
}

export function tooLarge(message: string, code: string, param: string): Fault {
  return badRequest({ status: 413, message, code, param });
}

const retryAfterSeconds = 5;

/** What the store or the shelf said, for a client: it is told whether to come again, not where the files lie. */
export function storeFault({ fault }: StoreError): Fault {
  const { status, code, message } = storeFaults[fault];
  const headers = status === 503 ? { 'Retry-After': String(retryAfterSeconds) } : noRetry;
  return { fault: true, type: 'api_error', status, code, message, headers };
}

const storeFaults: Readonly<
  Record<StoreFault, { readonly status: number; readonly code: string; readonly message: string }>
> = {
  full: {
    status: 507,
    code: 'storage_full',
    message: 'There is no room left on the disk where files and batches are kept.',
  },
  away: { status: 503, code: 'storage_unavailable', message: "The storage of files and batches can't be reached now." },
  busy: { status: 503, code: 'storage_busy', message: 'The storage of files and batches is busy now.' },
  lost: { status: 503, code: 'storage_busy', message: 'The storage of files and batches is busy now.' },
  broken: {
    status: 500,
    code: 'storage_broken',
    message: "The storage of files and batches failed. warmlane's log tells why, under this request id.",
  },
};

export function faultReply({ status, type, code, message, param, headers }: Fault): RouteReply {
  const error = { message, type, param: param ?? null, code, source: 'warmlane' };
  return { status, headers: { ...jsonHeaders, ...headers }, body: JSON.stringify({ error }) };
}

export function jsonReply(value: object): RouteReply {
  return { status: 200, headers: jsonHeaders, body: JSON.stringify(value) };
}

const jsonHeaders = { 'Content-Type': 'application/json; charset=utf-8' } as const;
