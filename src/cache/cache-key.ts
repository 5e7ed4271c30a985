/**
 * The key of an answer: SHA-256 over everything that may change it, and over who asked (decision 18). Two requests have one
 * key only if they are the same bytes of the same tenant. Pure; keeps nothing, and nothing can be read back out of a key.
 */
import { createHash } from 'node:crypto';

export interface KeyParts {
  readonly method: string;
  /** path with query, as received */
  readonly target: string;
  /** as the backend knows it, its alias resolved */
  readonly model: string | undefined;
  /** Every value that it has: servers differ in which of two `Authorization` counts. */
  readonly header: (name: string) => string | undefined;
  /** whose key warmlane itself has checked: it stands for the client's keys, which no backend sees */
  readonly tenant?: string | undefined;
  /** tells tenants apart besides the usual credentials; lower case */
  readonly tenantHeaders: readonly string[];
  readonly body: readonly Buffer[];
}

const keys = ['authorization', 'x-api-key', 'api-key'] as const;
/** Other credentials, and names of accounts that providers know. Without any of them all clients are one tenant. */
const credentials = ['cookie', 'openai-organization', 'openai-project'] as const;

/** Servers answer differently by these: form, version of the dialect, cross-origin headers. */
const answerShaping = [
  'accept',
  'content-type',
  'origin',
  'openai-beta',
  'anthropic-version',
  'anthropic-beta',
] as const;

export function cacheKey({ method, target, model, header, tenant, tenantHeaders, body }: KeyParts): string {
  // In one text: each update of the hash costs about a microsecond.
  let text = part('warmlane answer 2') + part(method) + part(target) + part(model) + part(tenant);
  for (const name of keys) text += tenant === undefined ? part(header(name)) : part(undefined);
  for (const name of credentials) text += part(header(name));
  for (const name of answerShaping) text += part(header(name));
  for (const name of tenantHeaders) text += part(name) + part(header(name));
  const hash = createHash('sha256');
  hash.update(`${text.length}:${text}`);
  for (const chunk of body) hash.update(chunk);
  return hash.digest('base64');
}

/** With its length before it: no two lists of texts run together to the same one. Absent is not empty. */
function part(text: string | undefined): string {
  return text === undefined ? '-:' : `${text.length}:${text}`;
}
