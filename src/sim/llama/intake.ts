/**
 * Reads a request to one of llama-server's generating routes: what to generate, and in which form to tell it.
 * Lenient as the real one: unknown models, roles and fields are accepted.
 */
import type { GenerationAsk } from '../generation.ts';
import { readFlag, readNumber, readObject, readString, readStrings, type JsonObject } from '../json-fields.ts';
import { promptOfText, readConversation, readPlainPrompts, type ReadPrompt } from '../prompt-fields.ts';
import type { EchoedParams } from './params.ts';
import { invalidRequest, promptTooLong, type LlamaRefusal } from './words.ts';

export type LlamaRoute = 'chat' | 'completions' | 'native' | 'infill' | 'responses' | 'messages';

export interface LlamaAsk {
  readonly route: LlamaRoute;
  readonly stream: boolean;
  readonly includeUsage: boolean;
  readonly timingsPerToken: boolean;
  readonly returnProgress: boolean;
  /** Overrides the server's; 0: no pings. */
  readonly pingIntervalMs?: number;
  /** The prompts' texts, echoed by the native routes. */
  readonly texts: readonly string[];
  readonly params: EchoedParams;
  readonly generation: GenerationAsk;
}

export interface LlamaLimits {
  readonly slots: number;
  readonly contextTokens: number;
}

export function readLlamaAsk(
  route: LlamaRoute,
  body: JsonObject,
  limits: LlamaLimits,
): LlamaAsk | { readonly refusal: LlamaRefusal } {
  const prompts = readPrompts(route, body);
  if ('refusal' in prompts) return prompts;
  const choices = readNumber(body, 'n') ?? 1;
  if (!Number.isInteger(choices) || choices < 1 || choices > limits.slots) {
    return {
      refusal: invalidRequest(`Field 'n': Value must be between 1 <= value <= ${limits.slots}, but got ${choices}`),
    };
  }
  const longest = Math.max(...prompts.map((prompt) => prompt.ids.length));
  if (longest >= limits.contextTokens) return { refusal: promptTooLong(longest, limits.contextTokens) };
  if (prompts.some((prompt) => prompt.ids.length === 0)) return { refusal: invalidRequest('the prompt is empty') };
  const asked = askedTokens(route, body);
  const room = limits.contextTokens - longest;
  const seed = readNumber(body, 'seed');
  const temperature = readNumber(body, 'temperature') ?? 0.8;
  const stops = readStrings(body, route === 'messages' ? 'stop_sequences' : 'stop');
  const ping = readNumber(body, 'sse_ping_interval');
  return {
    route,
    stream: readFlag(body, 'stream'),
    includeUsage: readFlag(readObject(body, 'stream_options'), 'include_usage'),
    timingsPerToken: readFlag(body, 'timings_per_token'),
    returnProgress: readFlag(body, 'return_progress'),
    ...(ping === undefined ? {} : { pingIntervalMs: Math.max(0, ping) * 1000 }),
    texts: prompts.map((prompt) => prompt.text),
    params: {
      seed: seed ?? -1,
      temperature,
      maxTokens: asked ?? -1,
      ignoreEos: readFlag(body, 'ignore_eos'),
      stream: readFlag(body, 'stream'),
      stops,
      timingsPerToken: readFlag(body, 'timings_per_token'),
      isChat: route === 'chat' || route === 'responses' || route === 'messages',
    },
    generation: {
      prompts: prompts.map((prompt) => prompt.ids),
      choices,
      // None asked for makes one all the same.
      maxTokens: asked === undefined || asked < 0 ? room : Math.min(room, Math.max(1, asked)),
      ignoreEnd: readFlag(body, 'ignore_eos'),
      stops,
      holdBack: 'looks_like',
      temperature,
      ...(seed === undefined || seed < 0 ? {} : { seed }),
    },
  };
}

function askedTokens(route: LlamaRoute, body: JsonObject): number | undefined {
  if (route === 'responses') return readNumber(body, 'max_output_tokens');
  return readNumber(body, 'max_tokens') ?? readNumber(body, 'max_completion_tokens') ?? readNumber(body, 'n_predict');
}

function readPrompts(route: LlamaRoute, body: JsonObject): readonly ReadPrompt[] | { readonly refusal: LlamaRefusal } {
  if (route === 'completions' || route === 'native') {
    return readPlainPrompts(body['prompt']) ?? { refusal: invalidRequest("'prompt' is required") };
  }
  if (route === 'infill') {
    const [prefix, suffix] = [readString(body, 'input_prefix'), readString(body, 'input_suffix')];
    if (prefix === undefined) return { refusal: invalidRequest('"input_prefix" is required') };
    if (suffix === undefined) return { refusal: invalidRequest('"input_suffix" is required') };
    const middle = readString(body, 'prompt') ?? '';
    return [promptOfText(`<|fim_prefix|>${prefix}<|fim_suffix|>${suffix}<|fim_middle|>${middle}`)];
  }
  const prompt = readConversation(route, body);
  if (prompt !== undefined) return [prompt];
  const message = `'${route === 'responses' ? 'input' : 'messages'}' is required`;
  // On the Anthropic route the missing field is met too late and becomes the server's own error.
  return { refusal: invalidRequest(message, route === 'messages' ? 500 : 400) };
}
