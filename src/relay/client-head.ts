/**
 * The head of an answer as its client gets it: the backend's headers, warmlane's own beside them, and how the end will be told.
 * Made once, when the head is committed. Pure.
 */
import type { ClientFraming } from '../platform/client-port.ts';
import type { UpstreamHead } from '../platform/upstream/port.ts';
import type { RelayRequest } from './attempt.ts';
import { type TimesTold, withOwnHeaders } from './own-headers.ts';
import { clientHeaders, framingFor, mediumOf } from './response-head.ts';
import type { RelaySettings } from './settings.ts';

export interface CommittedHead {
  /** Raw names and values in turn. */
  readonly headers: readonly string[];
  readonly framing: ClientFraming;
}

export function committedHead(
  head: UpstreamHead,
  { job, strip, head: asked, route, limits }: Pick<RelayRequest, 'job' | 'strip' | 'head' | 'route' | 'limits'>,
  how: { readonly settings: Pick<RelaySettings, 'responseHeaders'>; readonly times: TimesTold },
): CommittedHead {
  const medium = mediumOf(head);
  // What was asked for as a stream and doesn't say what it is goes out like one: its bytes come later (C104).
  const stream = medium === 'sse' || medium === 'ndjson' || (job.stream && medium === 'untold' && head.status < 300);
  const headers = clientHeaders(head, stream, asked.requestId);
  return {
    headers: withOwnHeaders(headers, how.settings.responseHeaders, { route, times: how.times, limits }),
    framing: framingFor(head, strip && stream),
  };
}

/** What of a backend's head is asked for once it was passed on. */
export function bareHead({ status, reason, httpVersion, framing }: UpstreamHead): UpstreamHead {
  return { status, reason, rawHeaders: [], httpVersion, framing };
}
