/**
 * Counts as the engines spell them: usage of OpenAI, Responses and Anthropic, llama-server's timings, vLLM's metrics.
 * Pure. A number that isn't there, or isn't a count, stays absent.
 */
import {
  compact,
  countAt,
  durationAt,
  objectAt,
  type EngineTimes,
  type JsonObject,
  type Timings,
  type Usage,
} from './facts.ts';

/**
 * Reads a `usage` object of any dialect. Anthropic's `input_tokens` leaves out what came from or went into the cache, so
 * that is added; the others' include it.
 */
export function readUsage(json: JsonObject): Usage {
  const input = countAt(json, 'input_tokens');
  const cacheRead = countAt(json, 'cache_read_input_tokens');
  const cacheMade = countAt(json, 'cache_creation_input_tokens');
  const promptDetails = objectAt(json, 'prompt_tokens_details') ?? objectAt(json, 'input_tokens_details');
  const outputDetails = objectAt(json, 'completion_tokens_details') ?? objectAt(json, 'output_tokens_details');
  const prompt =
    countAt(json, 'prompt_tokens') ?? (input === undefined ? undefined : input + (cacheRead ?? 0) + (cacheMade ?? 0));
  const output = countAt(json, 'completion_tokens') ?? countAt(json, 'output_tokens');
  const reasoning = countAt(outputDetails, 'reasoning_tokens') ?? countAt(json, 'reasoning_tokens');
  const cached = countAt(promptDetails, 'cached_tokens') ?? cacheRead;
  const usage: { -readonly [key in keyof Usage]: Usage[key] } = {};
  if (prompt !== undefined) usage.prompt = prompt;
  if (output !== undefined) usage.output = output;
  if (reasoning !== undefined) usage.reasoning = reasoning;
  if (cached !== undefined) usage.cached = cached;
  return usage;
}

export function readTimings(json: JsonObject): Timings {
  return compact<Timings>({
    cached: countAt(json, 'cache_n'),
    promptNew: countAt(json, 'prompt_n'),
    predicted: countAt(json, 'predicted_n'),
    promptMs: durationAt(json, 'prompt_ms'),
  });
}

/** vLLM with `--enable-per-request-metrics`: its time to first token counts from scheduling, so it is the prefill. */
export function readEngineTimes(json: JsonObject): EngineTimes {
  return compact<EngineTimes>({
    queueMs: durationAt(json, 'queue_time_ms'),
    prefillMs: durationAt(json, 'time_to_first_token_ms'),
  });
}
