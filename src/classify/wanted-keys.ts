/**
 * Which top-level keys of a JSON body mean something to warmlane, and how much of each value is kept.
 * A body is scanned for all of them; each kind of endpoint reads its own, and only those may not come twice.
 */
import { forPieces, removable } from '../platform/json-scan.ts';
import type { BodyReading } from './endpoint-table.ts';
import { prefixKeys } from './prefix-keys.ts';

/** A name of 512 characters, each written as a six-byte escape, and quotes. */
const nameBytes = 3 * 1024 + 256;
const numberBytes = 64;
const flagBytes = 8;
const objectBytes = 16 * 1024;
const placeOnly = 0;

export const wantedKeys: ReadonlyMap<string, number> = new Map([
  ['model', nameBytes],
  ['stream', flagBytes],
  ['stream_options', objectBytes],
  ['n', numberBytes],
  ['n_cmpl', numberBytes],
  ['max_tokens', numberBytes],
  ['max_completion_tokens', numberBytes],
  ['max_output_tokens', numberBytes],
  ['n_predict', numberBytes],
  ['id', nameBytes],
  ['previous_response_id', nameBytes],
  ['conversation', objectBytes],
  ['options', objectBytes],
  ['sampling_params', objectBytes],
  ['parameters', objectBytes],
  ['temperature', numberBytes],
  ['store', flagBytes],
  ['service_tier', numberBytes],
  ['priority', removable],
  ['prompt_cache_key', nameBytes],
  ['user', nameBytes],
  ['metadata', objectBytes],
  ['messages', placeOnly],
  ['prompt', placeOnly],
  ['text', placeOnly],
  ['input_ids', placeOnly],
]);

/** Beside them what says that an answer must be JSON; scanned for only where answers are checked. */
export const wantedKeysWithShape: ReadonlyMap<string, number> = new Map([
  ...wantedKeys,
  ['tools', placeOnly],
  ['functions', placeOnly],
  ['response_format', objectBytes],
  ['text', objectBytes],
]);

/** The keys that a body is scanned for. @param asked whether answers are checked, whether prompts are hashed */
export function keysToScan(asked: { readonly shape: boolean; readonly prefix: boolean }): ReadonlyMap<string, number> {
  const wanted = asked.shape ? wantedKeysWithShape : wantedKeys;
  if (!asked.prefix) return wanted;
  return new Map([...[...prefixKeys].map((key) => [key, forPieces] as const), ...wanted]);
}

const generation = ['model', 'stream', 'n', 'n_cmpl', 'max_tokens', 'max_completion_tokens', 'n_predict'] as const;

const keysByReading: Readonly<Record<BodyReading, ReadonlySet<string>>> = {
  chat: new Set([...generation, 'stream_options']),
  chat_batch: new Set([...generation, 'stream_options', 'messages']),
  completions: new Set([...generation, 'stream_options', 'prompt']),
  invocations: new Set([...generation, 'stream_options', 'messages', 'prompt']),
  native: new Set([...generation, 'prompt', 'text', 'input_ids', 'sampling_params', 'parameters']),
  responses: new Set(['model', 'stream', 'max_output_tokens', 'previous_response_id', 'conversation']),
  messages: new Set(['model', 'stream', 'max_tokens']),
  ollama: new Set(['model', 'stream', 'options']),
  model_only: new Set(['model']),
  generation: new Set(['model', 'id']),
  nothing: new Set(),
};

/** The keys that a kind of endpoint reads. */
export function keysRead(reading: BodyReading): ReadonlySet<string> {
  return keysByReading[reading];
}
