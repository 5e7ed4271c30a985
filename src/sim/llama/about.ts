/**
 * What llama-server says of itself: `/v1/models` and `/props`, key by key as b10434 has them,
 * with simulated values that say so.
 */
import { endMark } from '../chat-template.ts';
import type { LlamaServerSettings } from '../server-settings.ts';
import { defaultParams, paramsJson } from './params.ts';
import { buildInfo } from './words.ts';

export function modelListJson(model: string, contextTokens: number, createdSeconds: number): string {
  const details = {
    parent_model: '',
    format: 'gguf',
    family: '',
    families: [''],
    parameter_size: '',
    quantization_level: '',
  };
  const ollamaLike = {
    name: model,
    model,
    modified_at: '',
    size: '',
    digest: '',
    type: 'model',
    description: '',
    tags: [''],
    capabilities: ['completion'],
    parameters: '',
    details,
  };
  const meta = {
    vocab_type: 2,
    n_vocab: 49_152,
    n_ctx: contextTokens,
    n_ctx_train: contextTokens,
    n_embd: 576,
    n_params: 134_515_008,
    size: 96_576_768,
    ftype: 'simulated',
  };
  const entry = {
    id: model,
    aliases: [model],
    tags: [],
    object: 'model',
    created: createdSeconds,
    owned_by: 'llamacpp',
    meta,
  };
  return JSON.stringify({ models: [ollamaLike], object: 'list', data: [entry] });
}

export function propsJson(settings: LlamaServerSettings, contextTokens: number): string {
  const rest = {
    total_slots: settings.engine.maxSequences,
    model_alias: settings.model,
    model_ftype: 'simulated',
    model_path: 'simulated.gguf',
    modalities: { vision: false, video: false, audio: false },
    media_marker: '<__media__>',
    endpoint_slots: true,
    endpoint_props: false,
    endpoint_metrics: settings.metrics,
    ui: false,
    ui_settings: {},
    chat_template: `simulated: <|im_start|>role\ncontent${endMark}`,
    chat_template_caps: {
      supports_string_content: true,
      supports_system_role: true,
      supports_tool_calls: false,
      supports_tools: false,
    },
    bos_token: '<|im_start|>',
    eos_token: endMark,
    build_info: buildInfo,
    is_sleeping: false,
    cors_proxy_enabled: false,
  };
  const defaults = `"default_generation_settings":{"params":${paramsJson(defaultParams, 'short')},"n_ctx":${contextTokens}}`;
  return `{${defaults},${JSON.stringify(rest).slice(1)}`;
}
