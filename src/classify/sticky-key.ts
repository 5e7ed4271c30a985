/**
 * The name under which one backend keeps something that a request comes back to (decision 9): a response, a stored
 * chat, a conversation. Which backend that is, `route/` remembers.
 */
import { scanJson, type JsonScanResult } from '../platform/json-scan.ts';
import { readJsonString } from '../platform/json-value.ts';
import type { Endpoint } from './endpoint-table.ts';
import { queryValue } from './request-path.ts';

/** Longer names are none that an engine gave. */
const maxChars = 512;

export interface StickySources {
  readonly endpoint: Endpoint;
  readonly query: string;
  readonly scan: JsonScanResult | undefined;
  /** The client's `X-Conversation-Id`. */
  readonly conversationHeader: string | undefined;
}

export function readStickyKey({ endpoint, query, scan, conversationHeader }: StickySources): string | undefined {
  const inBody = fromBody(endpoint, scan);
  // llama-server's resumable streams: GET /v1/stream?conv_id=…, begun with the header.
  const key = endpoint.pathId ?? inBody ?? queryValue(query, 'conv_id') ?? conversationHeader;
  return key === undefined || key === '' || key.length > maxChars ? undefined : key;
}

function fromBody(endpoint: Endpoint, scan: JsonScanResult | undefined): string | undefined {
  if (endpoint.reads === 'generation') return readJsonString(scan?.fields.get('id'));
  if (endpoint.reads !== 'responses') return undefined;
  const previous = readJsonString(scan?.fields.get('previous_response_id'));
  if (previous !== undefined) return previous;
  const conversation = scan?.fields.get('conversation');
  if (conversation?.kind !== 'object' || conversation.value === undefined) return readJsonString(conversation);
  return readJsonString(scanJson(conversation.value, new Map([['id', 4096]])).fields.get('id'));
}
