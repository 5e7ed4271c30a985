/**
 * The names under which backends keep something that a request comes back to (decision 9): a response, a stored chat, a
 * conversation. Which backend that is, `route/` remembers; whose it is, `kept-answers.ts` asks.
 */
import { unreadId } from '../domain/job.ts';
import { type JsonField, scanJson, type JsonScanResult } from '../platform/json-scan.ts';
import { readJsonString } from '../platform/json-value.ts';
import type { Endpoint } from './endpoint-table.ts';
import { queryValues } from './request-path.ts';

/** Longer names are none that an engine gave. */
const maxChars = 512;

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
  fromBody(ids, sources);
  // llama-server's resumable streams: GET /v1/stream?conv_id=…, begun with the header. Of two a server takes either.
  if (query !== '') for (const id of queryValues(query, 'conv_id')) add(ids, id);
  if (ids.length === 0 && header === undefined) return none;
  const key = ids[0] ?? header;
  return key === undefined || key === unreadId || key.length > maxChars ? { ids } : { key, ids };
}

function add(ids: string[], id: string | undefined): void {
  if (id !== undefined && id !== '') ids.push(id.length > maxChars ? unreadId : id);
}

/** A string that was too long to be kept, or isn't one of JSON, is an id all the same. */
function addField(ids: string[], field: JsonField | undefined): void {
  if (field?.kind === 'string') add(ids, readJsonString(field) ?? 'x'.repeat(maxChars + 1));
}

function fromBody(ids: string[], { endpoint, scan, bodyBytes }: StickySources): void {
  if (endpoint.reads !== 'generation' && endpoint.reads !== 'responses') return;
  if (scan === undefined) {
    // Another encoding of JSON, say: servers may read it.
    if (bodyBytes > 0) ids.push(unreadId);
    return;
  }
  if (endpoint.reads === 'generation') return addField(ids, scan.fields.get('id'));
  addField(ids, scan.fields.get('previous_response_id'));
  const conversation = scan.fields.get('conversation');
  if (conversation?.kind !== 'object') return addField(ids, conversation);
  if (conversation.value === undefined) ids.push(unreadId);
  else addField(ids, scanJson(conversation.value, new Map([['id', 4096]])).fields.get('id'));
}
