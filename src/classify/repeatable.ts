/**
 * Whether the same request gets the same answer again, so that an earlier one may stand for it: greedy decoding, one choice,
 * nothing kept of it at the backend. Reads what the body says; what an engine does when nothing is said is not assumed. Pure.
 *
 * Tools don't matter here: the calls that a model asks for are carried out by the client. The Responses API is another matter,
 * its servers run some tools themselves: there only a client that says so gets an earlier answer.
 */
import type { EndpointKind } from '../domain/names.ts';
import { scanJson, type JsonField, type JsonScanResult } from '../platform/json-scan.ts';

export interface RepeatableSources {
  readonly kind: EndpointKind;
  readonly generates: boolean;
  readonly scan: JsonScanResult | undefined;
  readonly choices: number;
  /** It refers to something that a backend keeps. */
  readonly sticky: boolean;
}

/** Places beside the top where dialects have their sampling options: Ollama, SGLang and vLLM's token route, TGI. */
const nestedIn = ['options', 'sampling_params', 'parameters'] as const;
const nestedKeys = new Map([['temperature', 64]]);
/** The same text has one vector and one score. */
const computed: ReadonlySet<EndpointKind> = new Set<EndpointKind>(['embeddings', 'rerank']);

/** @returns `always`, or `on_request` where a client must say that any answer will do; undefined: never */
export function readRepeatable({
  kind,
  generates,
  scan,
  choices,
  sticky,
}: RepeatableSources): 'always' | 'on_request' | undefined {
  if (scan === undefined || sticky) return undefined;
  if (computed.has(kind)) return 'always';
  if (!generates || kind === 'audio' || kind === 'other') return undefined;
  // Two of a key: who knows which one counts.
  if (scan.duplicates.includes('temperature') || scan.duplicates.includes('store')) return undefined;
  const { fields } = scan;
  if (kind === 'responses') {
    const refers = isThere(fields.get('previous_response_id')) || isThere(fields.get('conversation'));
    return refers || fields.get('store')?.kind !== 'false' ? undefined : 'on_request';
  }
  const store = fields.get('store');
  if (isThere(store) && store?.kind !== 'false') return undefined;
  return choices === 1 && isGreedy(fields) ? 'always' : 'on_request';
}

/** Zero wherever it is said, and said at least once. */
function isGreedy(fields: ReadonlyMap<string, JsonField>): boolean {
  const said = [fields.get('temperature')];
  for (const key of nestedIn) {
    const field = fields.get(key);
    if (field?.kind === 'object' && field.value !== undefined)
      said.push(scanJson(field.value, nestedKeys).fields.get('temperature'));
  }
  const given = said.filter(isThere);
  return given.length > 0 && given.every(isZero);
}

function isZero(field: JsonField | undefined): boolean {
  return field?.kind === 'number' && field.value !== undefined && Number(field.value.toString('latin1')) === 0;
}

function isThere(field: JsonField | undefined): boolean {
  return field !== undefined && field.kind !== 'null';
}
