/**
 * What an engine prints in an unstreamed answer and leaves out of a stream: nulls, mostly. With it a line's answer is the same
 * object whichever way it was sent. Source: model servers' reference, A2, A3, B4 and B5, and answers of both engines to the same
 * requests. Pure.
 */
import type { Engine } from '../../domain/names.ts';
import { isObject, type JsonObject } from './assembled.ts';

export interface FormOptions {
  readonly engine: Engine | undefined;
  readonly format: 'chat' | 'completions';
}

export function asUnstreamed(whole: JsonObject, { engine, format }: FormOptions): JsonObject {
  if (engine === 'vllm') return format === 'chat' ? vllmChat(whole) : vllmCompletion(whole);
  return engine === 'llama-server' && format === 'chat' ? llamaChat(whole) : whole;
}

const messageNulls = { refusal: null, annotations: null, audio: null, function_call: null, reasoning: null };
const chatChoiceNulls = { logprobs: null, stop_reason: null, token_ids: null, routed_experts: null };
const chatNulls = {
  service_tier: null,
  system_fingerprint: null,
  prompt_logprobs: null,
  prompt_token_ids: null,
  prompt_text: null,
  kv_transfer_params: null,
  ec_transfer_params: null,
  metrics: null,
};
const textChoiceNulls = {
  logprobs: null,
  stop_reason: null,
  token_ids: null,
  prompt_logprobs: null,
  prompt_token_ids: null,
  routed_experts: null,
};
const textNulls = {
  service_tier: null,
  system_fingerprint: null,
  kv_transfer_params: null,
  ec_transfer_params: null,
  metrics: null,
};

function vllmChat(whole: JsonObject): JsonObject {
  const choices = choicesOf(whole).map((choice) => ({
    ...filled(choice, chatChoiceNulls),
    message: filled(isObject(choice.message) ? vllmMessage(choice.message) : {}, messageNulls),
  }));
  return { ...filled(whole, chatNulls), choices, usage: vllmUsage(whole.usage) };
}

/** The stream's role chunk says "" of a text that never comes. */
function vllmMessage(message: JsonObject): JsonObject {
  const isBare = message.content === '' && (message.tool_calls !== undefined || typeof message.reasoning === 'string');
  return isBare ? { ...message, content: null } : message;
}

function vllmCompletion(whole: JsonObject): JsonObject {
  const choices = choicesOf(whole).map((choice) => filled(choice, textChoiceNulls));
  return { ...filled(whole, textNulls), choices, usage: vllmUsage(whole.usage) };
}

function vllmUsage(usage: unknown): unknown {
  if (!isObject(usage)) return usage ?? null;
  const details = usage.prompt_tokens_details;
  const shown = isObject(details) ? filled(details, { created_cache_tokens: null, multimodal_tokens: null }) : details;
  return { ...filled(usage, { completion_tokens_details: null }), prompt_tokens_details: shown ?? null };
}

/** With what it lacks behind what it has. */
function filled(object: JsonObject, nulls: JsonObject): JsonObject {
  const whole = { ...object };
  for (const [key, value] of Object.entries(nulls)) whole[key] ??= value;
  return whole;
}

/** Its stream announces a text with null, and says nothing more of one that stays empty. */
function llamaChat(whole: JsonObject): JsonObject {
  const choices = choicesOf(whole).map((choice) => {
    const { message } = choice;
    if (!isObject(message) || message.content !== null) return choice;
    return { ...choice, message: { ...message, content: '' } };
  });
  return { ...whole, choices };
}

function choicesOf({ choices }: JsonObject): readonly JsonObject[] {
  return Array.isArray(choices) ? choices.filter(isObject) : [];
}
