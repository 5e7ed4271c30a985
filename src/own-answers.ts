/**
 * Answers that warmlane gives itself: refusals in the dialect's shape, the merged list of models, and what is left to do
 * where a bug of ours ended a request. Chooses none of them; `pipeline.ts` does.
 */
import { type Ending, errorText, gone } from './booking.ts';
import { findEndpoint } from './classify/endpoint-table.ts';
import type { RecordMark } from './domain/record.ts';
import type { Refusal } from './domain/refusal.ts';
import type { Passage } from './passage.ts';
import type { Log } from './platform/log.ts';
import { reasonPhrase } from './platform/reason-phrase.ts';
import { errorBody, errorHeaders } from './relay/error-shape.ts';
import { withOwnHeaders } from './relay/own-headers.ts';
import { internalRefusal } from './relay/refusals.ts';

/** Answers with an error of our own making, in the dialect's shape. */
export function refuse(passage: Passage, refusal: Refusal, marks: readonly RecordMark[] = []): Ending {
  const { client, head, job, phase, route } = passage;
  if (client.gone) return gone(phase, 'client_left');
  const body = Buffer.from(errorBody(refusal, job?.format ?? findEndpoint(head.method, head.target).format));
  passage.committed = true;
  const told = { route, times: passage.observer.headTimes(), limits: passage.stay?.headers };
  const headers = withOwnHeaders(errorHeaders(refusal, head.requestId), passage.settings.relay.responseHeaders, told);
  client.head(refusal.status, reasonPhrase(refusal.status), headers, { kind: 'length', bytes: body.length });
  if (head.method !== 'HEAD') client.write(body);
  client.end();
  passage.observer.ownAnswer(head.method === 'HEAD' ? 0 : body.length);
  const { outcome, status, code, reason = code, spokenBy } = refusal;
  return { outcome, status, reason, spokenBy, phase, marks };
}

/** A bug of ours: told in the dialect's words while the client has nothing yet, else cut. */
export function broke(passage: Passage, error: unknown, log: Log): Ending {
  const { head, client, phase } = passage;
  log.error('internal error', { requestId: head.requestId, error: errorText(error) });
  const cut: Ending = { outcome: 'proxy_error', phase, spokenBy: 'warmlane', reason: 'internal' };
  try {
    if (!passage.committed && !client.gone) return refuse(passage, internalRefusal());
    client.cut();
  } catch (again) {
    log.error('internal error', { requestId: head.requestId, error: errorText(again) });
    client.cut();
  }
  return cut;
}

/** The list of models as JSON text, in answer to a request for it. */
export function answerList(passage: Passage, list: string): Ending {
  const { head, client } = passage;
  const body = Buffer.from(list);
  const headers = ['Content-Type', 'application/json; charset=utf-8', 'X-Request-Id', head.requestId];
  if (passage.stay !== undefined) headers.push(...passage.stay.headers);
  passage.committed = true;
  client.head(200, reasonPhrase(200), headers, { kind: 'length', bytes: body.length });
  if (head.method !== 'HEAD') client.write(body);
  client.end();
  passage.observer.responseBytes(body.length);
  return { outcome: 'ok', status: 200, spokenBy: 'warmlane', phase: 'reading_answer' };
}
