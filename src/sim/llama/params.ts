/**
 * The generation settings that llama-server echoes, in `/props`, `/slots` and the last event of its native stream.
 * Only the fields that a request can set here vary; the rest are the server's defaults.
 */
import { float } from './timings.ts';

export interface EchoedParams {
  /** −1: not set; then the server says 4294967295. */
  readonly seed: number;
  readonly temperature: number;
  readonly maxTokens: number;
  readonly ignoreEos: boolean;
  readonly stream: boolean;
  readonly stops: readonly string[];
  readonly timingsPerToken: boolean;
  readonly isChat: boolean;
}

export const defaultParams: EchoedParams = {
  seed: -1,
  temperature: 0.8,
  maxTokens: -1,
  ignoreEos: false,
  stream: false,
  stops: [],
  timingsPerToken: false,
  isChat: false,
};

const samplers = '["penalties","dry","top_n_sigma","top_k","typ_p","top_p","min_p","xtc","temperature"]';

/** Shown in the native stream's last event only. */
const fullOnly = new Set([
  'dry_sequence_breakers',
  'stop',
  'logit_bias',
  'grammar',
  'grammar_lazy',
  'grammar_triggers',
  'preserved_tokens',
]);

/** @param form `full` for the native stream, `short` for `/slots` and `/props` @returns JSON */
export function paramsJson(params: EchoedParams, form: 'full' | 'short'): string {
  const fields: readonly (readonly [key: string, json: string])[] = [
    ['seed', String(params.seed < 0 ? 4_294_967_295 : params.seed)],
    ['temperature', single(params.temperature)],
    ['dynatemp_range', '0.0'],
    ['dynatemp_exponent', '1.0'],
    ['top_k', '40'],
    ['top_p', single(0.95)],
    ['min_p', single(0.05)],
    ['top_n_sigma', '-1.0'],
    ['xtc_probability', '0.0'],
    ['xtc_threshold', single(0.1)],
    ['typical_p', '1.0'],
    ['repeat_last_n', '64'],
    ['repeat_penalty', '1.0'],
    ['presence_penalty', '0.0'],
    ['frequency_penalty', '0.0'],
    ['dry_multiplier', '0.0'],
    ['dry_base', '1.75'],
    ['dry_allowed_length', '2'],
    ['dry_penalty_last_n', '64'],
    ['dry_sequence_breakers', '["\\n",":","\\"","*"]'],
    ['mirostat', '0'],
    ['mirostat_tau', '5.0'],
    ['mirostat_eta', single(0.1)],
    ['adaptive_target', '-1.0'],
    ['adaptive_decay', single(0.9)],
    ['stop', JSON.stringify(params.stops)],
    ['max_tokens', String(params.maxTokens)],
    ['n_predict', String(params.maxTokens)],
    ['n_keep', '0'],
    ['n_discard', '0'],
    ['ignore_eos', String(params.ignoreEos)],
    ['stream', String(params.stream)],
    ['logit_bias', '[]'],
    ['n_probs', '0'],
    ['min_keep', '0'],
    ['grammar', '""'],
    ['grammar_lazy', 'false'],
    ['grammar_triggers', '[]'],
    ['preserved_tokens', '[]'],
    ['chat_format', params.isChat ? '"peg-native"' : '"Content-only"'],
    ['reasoning_format', '"deepseek"'],
    ['reasoning_in_content', 'false'],
    ['generation_prompt', params.isChat ? '"<|im_start|>assistant\\n"' : '""'],
    ['samplers', samplers],
    ['speculative.types', '"none"'],
    ['timings_per_token', String(params.timingsPerToken)],
    ['post_sampling_probs', 'false'],
    ['backend_sampling', 'false'],
    ['lora', '[]'],
  ];
  const shown = form === 'full' ? fields : fields.filter(([key]) => !fullOnly.has(key));
  return `{${shown.map(([key, json]) => `"${key}":${json}`).join(',')}}`;
}

/** A C float as JSON shows it. */
function single(value: number): string {
  return float(Math.fround(value));
}
