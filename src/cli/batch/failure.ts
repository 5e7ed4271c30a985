/**
 * Why a command could not do what it was asked, in words that say what to do about it. Pure; the key is in none of them.
 */
import { apiOffRemedy } from '../../domain/batch-figures.ts';
import { printable } from '../doctor/finding.ts';
import { keyVariable, urlVariable, type Address } from './batch-args.ts';
import { objectOf, textOf } from './batch-object.ts';
import type { Answered, Unreachable } from './wire.ts';

export interface Failure {
  readonly says: string;
  /** Asking again may help: nobody was there, or had no time. */
  readonly passing: boolean;
  readonly retryAfterMs?: number;
  /** What the server answered; absent: nothing. */
  readonly status?: number;
}

const reasons: Readonly<Record<string, string>> = {
  ECONNREFUSED: 'nothing listens there',
  ENOTFOUND: 'there is no such host',
  EAI_AGAIN: "the host's name can't be looked up now",
  ECONNRESET: 'the connection broke',
  EPIPE: 'the connection broke',
  ETIMEDOUT: 'it says nothing',
  EHOSTUNREACH: 'there is no way to that host',
  ENETUNREACH: 'there is no way to that host',
  HPE_INVALID_CONSTANT: 'what answers there is no HTTP server',
};

export function unreachableFailure({ url }: Address, { code, message }: Unreachable): Failure {
  const reason = Object.hasOwn(reasons, code) ? reasons[code] : undefined;
  const certificate = /^(CERT_|DEPTH_ZERO|SELF_SIGNED|UNABLE_TO|ERR_TLS)/.test(code);
  const remedy = certificate
    ? 'NODE_EXTRA_CA_CERTS=FILE names the authority that signed it'
    : `is it running? Another address: --url URL, or ${urlVariable}`;
  const what = printable(reason ?? message);
  return { says: `warmlane is not reachable at ${url}: ${what}; ${remedy}`, passing: !certificate };
}

export function answerFailure({ url, key }: Address, { status, json, retryAfterMs }: Answered): Failure {
  const said = withoutKey(messageIn(json) ?? 'without a reason', key);
  const passing = status === 408 || status === 429 || status >= 500;
  const told = { status, passing, ...(retryAfterMs === undefined ? {} : { retryAfterMs }) };
  if (status === 401) {
    const remedy =
      key === undefined ? `put a key into ${keyVariable}` : `the key in ${keyVariable} or --key is not known`;
    return { says: `${url} lets nobody in without a key (401: ${said}); ${remedy}`, ...told };
  }
  if (status === 403) return { says: `${url} does not allow this with this key (403: ${said})`, ...told };
  return { says: `${url} answered ${status}: ${said}`, ...told };
}

/** Without the API its routes pass to the model servers, which have none. */
export function apiOff({ url }: Address): Failure {
  return { says: `the Batch API is off at ${url}. ${apiOffRemedy}`, passing: false };
}

/** @returns undefined: it is not the admin port of a warmlane that answered */
export function adminPort({ url }: Address, { json }: Answered): Failure | undefined {
  const error = objectOf(objectOf(json)?.['error']);
  if (textOf(error?.['code']) !== 'admin_port') return undefined;
  const said = printable(textOf(error?.['message']) ?? '').slice(0, 300);
  return {
    says: `${url} is not where clients are served. ${said} Give that one with --url or ${urlVariable}`,
    passing: false,
  };
}

/** OpenAI's shape, and what FastAPI and others say instead. */
function messageIn(json: unknown): string | undefined {
  const object = objectOf(json);
  const error = object?.['error'];
  const inner = objectOf(error);
  const text = textOf(inner?.['message']) ?? textOf(error) ?? textOf(object?.['message']) ?? textOf(object?.['detail']);
  return text === undefined ? undefined : printable(text).slice(0, 1000);
}

/** A server may repeat what it was sent. */
function withoutKey(text: string, key: string | undefined): string {
  return key === undefined ? text : text.replaceAll(key, '***');
}
