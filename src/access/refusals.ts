/**
 * What is told to whoever may not go on: no key, a wrong one, somebody else's model, too much at once. In OpenAI's words, so
 * that its clients raise the right error. Never repeats anything of a key.
 */
import type { Refusal } from '../domain/refusal.ts';

const challenge = ['WWW-Authenticate', 'Bearer realm="warmlane"'] as const;

/** RFC 9110, 15.5.2. */
export function keyMissing(): Refusal {
  return unauthorized(
    'This server asks for an API key and the request has none. Send it as "Authorization: Bearer KEY" (or in x-api-key or api-key); who runs this server gives you one.',
    challenge,
  );
}

export function keyUnknown(): Refusal {
  // RFC 6750, 3.1.
  return unauthorized(
    'The API key of this request is not known here. Check that it is whole and meant for this server; it may have been withdrawn.',
    [challenge[0], `${challenge[1]}, error="invalid_token"`],
  );
}

function unauthorized(message: string, headers: readonly string[]): Refusal {
  return {
    refused: true,
    code: 'invalid_api_key',
    status: 401,
    type: 'invalid_request_error',
    message,
    headers,
    spokenBy: 'warmlane',
    outcome: 'client_error',
  };
}

/** @param model as the client named it; undefined: it named none */
export function modelNotAllowed(model: string | undefined): Refusal {
  return {
    refused: true,
    code: 'model_not_allowed',
    status: 403,
    type: 'invalid_request_error',
    message:
      model === undefined
        ? 'This key may use some models only, and the request names none. Name one of those that GET /v1/models lists.'
        : `This key may not use the model "${model}". GET /v1/models lists those that it may; who runs this server can allow more (auth.keys: models).`,
    param: 'model',
    spokenBy: 'warmlane',
    outcome: 'client_error',
  };
}

/** In the same words whether there is such an id or not. @param id '' where it can't be read */
export function idNotFound(id: string): Refusal {
  const what =
    id === ''
      ? "The request may refer to an earlier answer by an id that can't be read, so nobody knows whose that is. Send a JSON object in UTF-8, with an id as it was given; one conv_id; and a path without dot segments (..), path parameters (;) and encoded marks."
      : `Nothing with the id "${id.slice(0, shownIdChars)}" is known here as this key's own. It may be another tenant's, older than warmlane's last start, or made through another one; send the whole conversation instead.`;
  return {
    refused: true,
    code: 'id_not_found',
    status: 404,
    type: 'invalid_request_error',
    message: what,
    spokenBy: 'warmlane',
    outcome: 'client_error',
  };
}

const shownIdChars = 128;

export type LimitName = 'concurrent' | 'requestsPerMinute' | 'tokensPerMinute';

/** @param waitMs until a request of this size is let in again, as far as is known */
export function overLimit(
  limit: LimitName,
  told: { readonly allowed: number; readonly waitMs: number; readonly headers: readonly string[] },
): Refusal {
  const { allowed, waitMs, headers } = told;
  const seconds = Math.max(1, Math.ceil(waitMs / 1000));
  const what: Readonly<Record<LimitName, string>> = {
    concurrent: `${allowed} ${allowed === 1 ? 'request' : 'requests'} at one time`,
    requestsPerMinute: `${allowed} ${allowed === 1 ? 'request' : 'requests'} a minute`,
    tokensPerMinute: `${allowed} tokens a minute`,
  };
  return {
    refused: true,
    code: 'rate_limit_exceeded',
    status: 429,
    type: limit === 'tokensPerMinute' ? 'tokens' : 'requests',
    message: `Rate limit reached: ${what[limit]} for this key. Try again in ${seconds} s.`,
    retryAfterSeconds: seconds,
    headers,
    spokenBy: 'warmlane',
    reason: `limit_${{ concurrent: 'concurrent', requestsPerMinute: 'requests', tokensPerMinute: 'tokens' }[limit]}`,
    outcome: 'rejected',
  };
}
