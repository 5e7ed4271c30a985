/**
 * How much a body asks for: parallel choices and the bound on output tokens, in each dialect's spelling.
 * A value that engines refuse counts as not stated; nothing here is invented for what a client left out.
 */
import { scanJson, type JsonField, type JsonScanResult } from '../platform/json-scan.ts';
import { readJsonInteger } from '../platform/json-value.ts';
import type { BodyReading } from './endpoint-table.ts';

/** Keys inside `options` (Ollama), `sampling_params` (SGLang, vLLM's token route) and `parameters` (TGI). */
const nestedKeys = new Map([
  ['n', 64],
  ['num_predict', 64],
  ['max_tokens', 64],
  ['max_new_tokens', 64],
]);

type Lookup = (key: string) => JsonField | undefined;

const limitKeys = [
  'n_predict',
  'max_completion_tokens',
  'max_tokens',
  'max_output_tokens',
  'num_predict',
  'max_new_tokens',
];

export interface AskedCounts {
  /** Engine slots taken: `n` times the prompts of the request. */
  readonly choices: number;
  readonly maxOutputTokens?: number;
}

/** @param keys the keys that the endpoint reads */
export function readCounts(scan: JsonScanResult, reading: BodyReading, keys: ReadonlySet<string>): AskedCounts {
  const own = (key: string) => (keys.has(key) ? scan.fields.get(key) : undefined);
  const levels: Lookup[] = [own];
  for (const key of ['options', 'sampling_params', 'parameters']) {
    const field = own(key);
    if (field !== undefined) levels.push(nested(field));
  }
  const choices = Math.min(Number.MAX_SAFE_INTEGER, parallel(levels) * prompts(own, reading));
  const maxOutputTokens = outputLimit(levels);
  return maxOutputTokens === undefined ? { choices } : { choices, maxOutputTokens };
}

function nested({ kind, value }: JsonField): Lookup {
  if (kind !== 'object' || value === undefined) return () => undefined;
  const { fields } = scanJson(value, nestedKeys);
  return (key) => fields.get(key);
}

/** llama-server takes `n_cmpl` before `n`, others know only `n`: the larger is what may be taken. */
function parallel(levels: readonly Lookup[]): number {
  let most = 1;
  for (const find of levels) {
    most = Math.max(most, readJsonInteger(find('n')) ?? 1, readJsonInteger(find('n_cmpl')) ?? 1);
  }
  return most;
}

function prompts(find: Lookup, reading: BodyReading): number {
  if (reading === 'chat_batch') return listLength(find('messages'));
  return Math.max(listLength(find('prompt')), listLength(find('text')), listLength(find('input_ids')));
}

/** `["a","b"]` and `[[1,2],[3]]` are lists of prompts; an array with numbers in it is one prompt in tokens. */
function listLength(field: JsonField | undefined): number {
  const elements = field?.elements;
  return elements === undefined || elements.numbers > 0 ? 1 : Math.max(1, elements.count);
}

/** The largest limit stated, whichever of them the engine prefers; none if one of them is no limit (−1). */
function outputLimit(levels: readonly Lookup[]): number | undefined {
  let largest: number | undefined;
  for (const find of levels) {
    for (const key of limitKeys) {
      const field = find(key);
      if (field === undefined || field.kind === 'null') continue;
      const limit = readJsonInteger(field);
      if (limit === undefined || limit < 0) return undefined;
      largest = Math.max(largest ?? 0, limit);
    }
  }
  return largest;
}
