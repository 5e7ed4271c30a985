/**
 * Reads a request to one of vLLM's generating routes: what to generate, and in which form to tell it.
 * Values in, values out; refusals as vLLM words them.
 */
import type { GenerationAsk } from '../generation.ts';
import {
  isJsonObject,
  readFlag,
  readNumber,
  readObject,
  readString,
  readStrings,
  type JsonObject,
} from '../json-fields.ts';
import { readConversation, readPlainPrompts } from '../prompt-fields.ts';
import type { VllmServerSettings } from '../server-settings.ts';
import {
  emptyPrompt,
  invalidField,
  promptTooLong,
  tooManyOutputTokens,
  unknownModel,
  type VllmRefusal,
} from './words.ts';

export type VllmRoute = 'chat' | 'completions' | 'responses' | 'messages';

export interface VllmAsk {
  readonly generation: GenerationAsk;
  readonly route: VllmRoute;
  readonly stream: boolean;
  readonly includeUsage: boolean;
  /** Usage on every event. */
  readonly continuousUsage: boolean;
  readonly returnTokenIds: boolean;
  /** Tokens an event, after the first. */
  readonly streamInterval: number;
  readonly maxTokens: number;
  readonly body: JsonObject;
}

const maxChoices = 128;

export function readVllmAsk(
  route: VllmRoute,
  body: JsonObject,
  from: { readonly settings: VllmServerSettings; readonly priorityHeader?: string },
): VllmAsk | { readonly refusal: VllmRefusal } {
  const { settings } = from;
  const model = readString(body, 'model');
  if (model !== undefined && model !== settings.model) return { refusal: unknownModel(model, settings.model) };
  const prompts = readPrompts(route, body);
  if (!Array.isArray(prompts)) return { refusal: invalidField(prompts.missing, 'Field required') };
  const stream = readFlag(body, 'stream');
  const options = readObject(body, 'stream_options');
  if (!stream && isJsonObject(body['stream_options']))
    return { refusal: invalidField('stream_options', 'Stream options can only be defined when `stream=True`.') };
  const choices = readNumber(body, 'n') ?? 1;
  if (!Number.isInteger(choices) || choices < 1 || choices > maxChoices)
    return { refusal: invalidField('n', `n must be between 1 and ${maxChoices}`) };
  if (prompts.some((prompt) => prompt.length === 0)) return { refusal: emptyPrompt };
  const longest = Math.max(...prompts.map((prompt) => prompt.length));
  if (longest >= settings.contextTokens) return { refusal: promptTooLong(settings.contextTokens) };
  const room = settings.contextTokens - longest;
  const asked = askedTokens(route, body);
  if (asked !== undefined && asked < 1)
    return { refusal: invalidField('max_tokens', `max_tokens must be at least 1, got ${asked}.`) };
  if (asked !== undefined && asked > room)
    return { refusal: tooManyOutputTokens(asked, settings.contextTokens, longest) };
  const maxTokens = asked ?? (route === 'completions' ? Math.min(16, room) : room);
  const seed = readNumber(body, 'seed');
  const priority = readPriority(body, from.priorityHeader);
  const salt = readString(body, 'cache_salt');
  return {
    route,
    stream,
    includeUsage: readFlag(options, 'include_usage'),
    continuousUsage: readFlag(options, 'include_usage') && readFlag(options, 'continuous_usage_stats'),
    returnTokenIds: readFlag(body, 'return_token_ids'),
    streamInterval: Math.max(1, readNumber(body, 'stream_interval') ?? 1),
    maxTokens,
    body,
    generation: {
      prompts,
      choices,
      maxTokens,
      ignoreEnd: readFlag(body, 'ignore_eos'),
      stops: readStrings(body, route === 'messages' ? 'stop_sequences' : 'stop'),
      holdBack: 'always',
      temperature: readNumber(body, 'temperature') ?? 1,
      ...(seed === undefined ? {} : { seed }),
      ...(priority === undefined ? {} : { priority }),
      ...(salt === undefined ? {} : { salt }),
    },
  };
}

/** A header that is no whole number is ignored, as vLLM does. */
function readPriority(body: JsonObject, header: string | undefined): number | undefined {
  const fromHeader = header === undefined ? Number.NaN : Number(header);
  return Number.isInteger(fromHeader) ? fromHeader : readNumber(body, 'priority');
}

function askedTokens(route: VllmRoute, body: JsonObject): number | undefined {
  if (route === 'responses') return readNumber(body, 'max_output_tokens');
  return readNumber(body, 'max_completion_tokens') ?? readNumber(body, 'max_tokens');
}

/** Token ids of each prompt. */
function readPrompts(route: VllmRoute, body: JsonObject): Uint32Array[] | { readonly missing: string } {
  if (route === 'completions') {
    return readPlainPrompts(body['prompt'])?.map((prompt) => prompt.ids) ?? { missing: 'prompt' };
  }
  const prompt = readConversation(route, body);
  return prompt === undefined ? { missing: route === 'responses' ? 'input' : 'messages' } : [prompt.ids];
}
