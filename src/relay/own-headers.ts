/**
 * What warmlane says of its own work in the head of an answer: where the request went and why, and where the time went so far
 * (`Server-Timing`, https://www.w3.org/TR/server-timing/). Pure; which of it is said is set by `responseHeaders`. Beside it
 * what its client has left of its limits.
 */
import { lowerName } from '../platform/header-name.ts';
import { numberText } from '../platform/number-text.ts';
import type { RelaySettings } from './settings.ts';

/** Where a request went. */
export interface RouteTold {
  readonly backend: string;
  readonly reason: string;
  /** of the prompt, predicted to come from the backend's cache; absent where nothing is known of it */
  readonly predictedTokens?: number | undefined;
}

/** What is known when a head is committed, in ms; absent: it did not happen, or isn't known. */
export interface TimesTold {
  /** waiting for a place, in warmlane */
  readonly queueMs?: number | undefined;
  readonly connectMs?: number | undefined;
  /** warmlane's own work before sending */
  readonly overheadMs?: number | undefined;
  /** request sent → the backend's head */
  readonly upstreamMs?: number | undefined;
}

const routingNames: ReadonlySet<string> = new Set([
  'x-warmlane-backend',
  'x-warmlane-reason',
  'x-warmlane-predicted-cached-tokens',
]);

/**
 * @param rawHeaders of the answer, raw names and values in turn
 * @returns them with warmlane's own behind. A backend's Server-Timing stays, ours is a line of its own: the two are one list
 * (RFC 9110, 5.3). What a backend that is a warmlane itself says of its own routing is replaced.
 */
export function withOwnHeaders(
  rawHeaders: readonly string[],
  { routing, serverTiming }: RelaySettings['responseHeaders'],
  told: {
    readonly route: RouteTold | undefined;
    readonly times: TimesTold | undefined;
    /** `x-ratelimit-*`, raw names and values in turn; they take the place of a backend's. */
    readonly limits?: readonly string[] | undefined;
  },
): string[] {
  const { route, times, limits } = told;
  const isOurs = routing && route !== undefined;
  const isLimited = limits !== undefined && limits.length > 0;
  const headers = isOurs || isLimited ? withoutOwn(rawHeaders, isOurs, isLimited) : [...rawHeaders];
  if (isOurs) {
    headers.push('X-Warmlane-Backend', route.backend, 'X-Warmlane-Reason', route.reason);
    const { predictedTokens } = route;
    if (predictedTokens !== undefined)
      headers.push('X-Warmlane-Predicted-Cached-Tokens', String(Math.round(predictedTokens)));
  }
  const timing = serverTiming && times !== undefined ? timingText(times) : '';
  if (timing !== '') headers.push('Server-Timing', timing);
  if (isLimited) headers.push(...limits);
  return headers;
}

function withoutOwn(rawHeaders: readonly string[], routing: boolean, limits: boolean): string[] {
  const kept: string[] = [];
  for (let i = 0; i + 1 < rawHeaders.length; i += 2) {
    const name = lowerName(rawHeaders[i] ?? '');
    if (routing && routingNames.has(name)) continue;
    if (limits && name.startsWith('x-ratelimit-')) continue;
    kept.push(rawHeaders[i] ?? '', rawHeaders[i + 1] ?? '');
  }
  return kept;
}

function timingText({ queueMs, connectMs, overheadMs, upstreamMs }: TimesTold): string {
  let text = '';
  const add = (name: string, ms: number | undefined) => {
    if (ms !== undefined) text += `${text === '' ? '' : ', '}${name};dur=${numberText(Math.round(ms * 1000) / 1000)}`;
  };
  add('queue', queueMs);
  add('connect', connectMs);
  add('overhead', overheadMs);
  add('upstream', upstreamMs);
  return text;
}
