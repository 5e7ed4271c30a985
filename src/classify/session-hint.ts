/**
 * Which session a request says that it belongs to, and where it says so: `prompt_cache_key`, a header, `user`, Anthropic's
 * `metadata.user_id`, in this order. A hint for routing, opaque and private: for comparing only.
 */
import { scanJson, type JsonField, type JsonScanResult } from '../platform/json-scan.ts';
import { readJsonString } from '../platform/json-value.ts';

/** Longer ones are dropped: none that a client means to be compared is. */
const maxChars = 256;
const userIdKeys = new Map([['user_id', 1600]]);

export const defaultSessionHeaders: readonly string[] = ['x-session-id'];

export interface SessionSources {
  readonly scan: JsonScanResult | undefined;
  /** Whether the body is Anthropic's, whose `metadata` has a meaning. */
  readonly isMessages: boolean;
  header(name: string): string | undefined;
  /** In lower case; the first that is there counts. */
  readonly headers: readonly string[];
}

/** @returns at most 256 characters; undefined when nothing is said */
export function readSessionHint({ scan, isMessages, header, headers }: SessionSources): string | undefined {
  const key = hint('key:', readJsonString(scan?.fields.get('prompt_cache_key')));
  if (key !== undefined) return key;
  for (const name of headers) {
    const named = hint('header:', header(name)?.trim());
    if (named !== undefined) return named;
  }
  const user = hint('user:', readJsonString(scan?.fields.get('user')));
  if (user !== undefined || !isMessages) return user;
  return hint('user:', userId(scan?.fields.get('metadata')));
}

function userId(metadata: JsonField | undefined): string | undefined {
  if (metadata?.kind !== 'object' || metadata.value === undefined) return undefined;
  return readJsonString(scanJson(metadata.value, userIdKeys).fields.get('user_id'));
}

function hint(source: string, text: string | undefined): string | undefined {
  if (text === undefined || text === '' || source.length + text.length > maxChars) return undefined;
  return source + text;
}
