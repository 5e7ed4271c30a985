/**
 * The names under which backends keep something that a request comes back to (decision 9): a response, a stored chat, a
 * conversation. Which backend that is, `route/` remembers; whose it is, `kept-answers.ts` asks.
 */
import { unreadId } from '../domain/job.ts';
import { type JsonField, scanJson, type JsonScanResult } from '../platform/json-scan.ts';
import { readJsonString } from '../platform/json-value.ts';
import type { Endpoint } from './endpoint-table.ts';
import type { Referring } from './kept-paths.ts';
import { queryValues } from './request-path.ts';

/** Longer names are none that an engine gave. */
const maxChars = 512;
/** Of one name in a query, which every server reads as one: what comes more often is somebody's try. */
const maxQueryIds = 4;

export interface StickySources {
  readonly endpoint: Endpoint;
  readonly query: string;
  readonly scan: JsonScanResult | undefined;
  /** Length of the body, as far as it is known. */
  readonly bodyBytes: number;
  /** The client's `X-Conversation-Id`. */
  readonly conversationHeader: string | undefined;
}

export interface References {
  /** The first of all, the header's last: where the request belongs. */
  readonly key?: string;
  /** All but the header's. */
  readonly ids: readonly string[];
}

const none: References = { ids: [] };

export function readReferences(sources: StickySources): References {
  const { endpoint, query, conversationHeader: header } = sources;
  const ids: string[] = [];
  add(ids, endpoint.pathId);
  for (const id of endpoint.morePathIds ?? []) ids.push(id.length > maxChars ? unreadId : id);
  const { reads, refersBy } = endpoint;
  if (reads === 'generation' || reads === 'responses') fromBody(ids, reads, sources);
  if (query !== '') fromQuery(ids, query);
  const key = ids[0] ?? header;
  // By a reading that isn't the plain one: it must be the asker's own, but takes the request nowhere.
  if (refersBy !== undefined) fromBody(ids, refersBy, sources);
  if (ids.length === 0 && header === undefined) return none;
  return key === undefined || key === unreadId || key.length > maxChars ? { ids } : { key, ids };
}

/** llama-server's resumable streams: GET /v1/stream?conv_id=…, begun with the header. Of two a server takes either. */
function fromQuery(ids: string[], query: string): void {
  const named = queryValues(query, 'conv_id');
  if (named.length > maxQueryIds) ids.push(unreadId);
  else for (const id of named) add(ids, id);
}

function add(ids: string[], id: string | undefined): void {
  if (id !== undefined && id !== '') ids.push(id.length > maxChars ? unreadId : id);
}

/** A string that was too long to be kept, or isn't one of JSON, is an id all the same. */
function addField(ids: string[], field: JsonField | undefined): void {
  if (field?.kind === 'string') add(ids, readJsonString(field) ?? 'x'.repeat(maxChars + 1));
}

function fromBody(ids: string[], by: Referring, { scan, bodyBytes }: StickySources): void {
  if (scan === undefined) {
    // Another encoding of JSON, say: servers may read it.
    if (bodyBytes > 0) ids.push(unreadId);
    return;
  }
  if (by === 'generation') return addField(ids, scan.fields.get('id'));
  addField(ids, scan.fields.get('previous_response_id'));
  const conversation = scan.fields.get('conversation');
  if (conversation?.kind !== 'object') return addField(ids, conversation);
  if (conversation.value === undefined) ids.push(unreadId);
  else addField(ids, scanJson(conversation.value, new Map([['id', 4096]])).fields.get('id'));
}
