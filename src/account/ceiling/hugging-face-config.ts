/**
 * Reads a Hugging Face `config.json` into one neutral description, for the architectures that are known here. Another one
 * is refused by name: guessing its shape would give figures that look right. Counts nothing; see `parameter-count.ts`.
 */

export interface MlaWidths {
  /** Absent: queries are not compressed. */
  readonly queryRank?: number;
  readonly kvRank: number;
  readonly nopeDim: number;
  readonly ropeDim: number;
  readonly valueDim: number;
}

export interface MoeWidths {
  readonly experts: number;
  readonly active: number;
  readonly width: number;
  /** Width of what every token visits beside the routed experts; 0: nothing. */
  readonly sharedWidth: number;
  /** A gate in front of the shared part (qwen2_moe). */
  readonly sharedGate: boolean;
  readonly layers: number;
  /** Router and experts have biases (gpt_oss). */
  readonly biased: boolean;
  /** A correction of the router's scores, one number for each expert (deepseek_v3). */
  readonly scoreBias: boolean;
}

export interface HfModel {
  readonly type: string;
  readonly hidden: number;
  readonly layers: number;
  readonly vocabulary: number;
  readonly heads: number;
  readonly kvHeads: number;
  readonly headDim: number;
  /** Width of a dense feed-forward layer. */
  readonly width: number;
  readonly tied: boolean;
  readonly queryKeyValueBias: boolean;
  readonly outputBias: boolean;
  readonly queryKeyNorm: boolean;
  readonly normsPerLayer: number;
  /** One number for each head (gpt_oss). */
  readonly sinks: boolean;
  readonly moe?: MoeWidths;
  readonly mla?: MlaWidths;
  readonly slidingLayers: number;
  readonly slidingTokens: number;
  /** As `dtype` or `torch_dtype` names it. */
  readonly format: string | undefined;
  readonly quantization: Fields | undefined;
}

export type Fields = Readonly<Record<string, unknown>>;

/** @returns the model, or one sentence that says why its shape can't be read */
export function readHfConfig(json: unknown): HfModel | string {
  const outer = fieldsOf(json);
  if (outer === undefined) return 'config.json is no JSON object';
  // Models that also see or hear keep the language model's part apart.
  const inner = fieldsOf(outer['text_config']) ?? outer;
  const type = textOf(inner['model_type']) ?? textOf(outer['model_type']);
  if (type === undefined) return 'config.json has no model_type';
  const traits = Object.hasOwn(architectures, type) ? architectures[type] : undefined;
  if (traits === undefined)
    return `config.json is of a model_type that is not known here (${type.slice(0, 40)}); give the shape itself`;
  const need = (key: string) => countOf(inner[key]);
  const hidden = need('hidden_size');
  const layers = need('num_hidden_layers');
  const vocabulary = need('vocab_size') ?? traits.vocabulary;
  const heads = need('num_attention_heads') ?? traits.heads;
  const width = need('intermediate_size');
  if (
    hidden === undefined ||
    layers === undefined ||
    vocabulary === undefined ||
    heads === undefined ||
    width === undefined
  )
    return 'config.json lacks hidden_size, num_hidden_layers, num_attention_heads, intermediate_size or vocab_size';
  const moe = traits.moe?.(inner, layers);
  if (moe === 'missing') return 'config.json lacks the number or the width of its experts';
  const mla = traits.mla === true ? readMla(inner) : undefined;
  if (mla === 'missing') return 'config.json lacks kv_lora_rank or the head widths of its latent attention';
  const biased = inner['attention_bias'];
  return {
    type,
    hidden,
    layers,
    vocabulary,
    heads,
    kvHeads: need('num_key_value_heads') ?? traits.kvHeads ?? heads,
    headDim: need('head_dim') ?? traits.headDim ?? Math.floor(hidden / heads),
    width,
    tied: flagOf(inner['tie_word_embeddings'] ?? outer['tie_word_embeddings']) ?? traits.tied ?? false,
    queryKeyValueBias: traits.queryKeyValueBias ?? biased === true,
    outputBias: biased === true,
    queryKeyNorm: traits.queryKeyNorm ?? false,
    normsPerLayer: traits.normsPerLayer ?? 2,
    sinks: traits.sinks ?? false,
    ...(moe === undefined ? {} : { moe }),
    ...(mla === undefined ? {} : { mla }),
    ...slidingOf(inner, layers, traits),
    format: textOf(inner['dtype'] ?? inner['torch_dtype'] ?? outer['dtype'] ?? outer['torch_dtype']),
    quantization: fieldsOf(outer['quantization_config'] ?? inner['quantization_config']),
  };
}

/** What an architecture fixes, and its defaults for keys that its files leave out. */
interface Traits {
  readonly tied?: boolean;
  readonly vocabulary?: number;
  readonly heads?: number;
  readonly kvHeads?: number;
  readonly headDim?: number;
  readonly queryKeyValueBias?: boolean;
  readonly queryKeyNorm?: boolean;
  readonly normsPerLayer?: number;
  readonly sinks?: boolean;
  readonly mla?: boolean;
  readonly moe?: (fields: Fields, layers: number) => MoeWidths | 'missing';
  /** Every so many layers one that sees all, where `layer_types` doesn't say; absent: a window holds for all layers. */
  readonly wholeEvery?: number;
  /** `sliding_window` counts only where this key is true. */
  readonly slidingSwitch?: string;
}

const plainMoe = { sharedWidth: 0, sharedGate: false, biased: false, scoreBias: false };

const architectures: Readonly<Record<string, Traits>> = {
  llama: {},
  mistral: {},
  ministral: {},
  mixtral: { moe: (fields, layers) => moeOf(fields, { ...plainMoe, layers, width: fields['intermediate_size'] }) },
  qwen2: { queryKeyValueBias: true, slidingSwitch: 'use_sliding_window' },
  qwen3: { queryKeyNorm: true, slidingSwitch: 'use_sliding_window' },
  qwen2_moe: {
    queryKeyValueBias: true,
    slidingSwitch: 'use_sliding_window',
    moe: (fields, layers) =>
      moeOf(fields, {
        ...plainMoe,
        layers: sparseLayers(fields, layers),
        width: fields['moe_intermediate_size'],
        sharedWidth: countOf(fields['shared_expert_intermediate_size']) ?? 0,
        sharedGate: true,
      }),
  },
  qwen3_moe: {
    queryKeyNorm: true,
    slidingSwitch: 'use_sliding_window',
    moe: (fields, layers) =>
      moeOf(fields, { ...plainMoe, layers: sparseLayers(fields, layers), width: fields['moe_intermediate_size'] }),
  },
  deepseek_v2: { mla: true, moe: (fields, layers) => deepseekMoe(fields, layers, false) },
  deepseek_v3: { mla: true, moe: (fields, layers) => deepseekMoe(fields, layers, true) },
  gpt_oss: {
    queryKeyValueBias: true,
    sinks: true,
    wholeEvery: 2,
    moe: (fields, layers) => moeOf(fields, { ...plainMoe, layers, width: fields['intermediate_size'], biased: true }),
  },
  gemma: { tied: true, headDim: 256 },
  gemma2: { tied: true, headDim: 256, normsPerLayer: 4, wholeEvery: 2 },
  gemma3_text: {
    tied: true,
    heads: 8,
    kvHeads: 4,
    headDim: 256,
    vocabulary: 262_208,
    queryKeyNorm: true,
    normsPerLayer: 4,
    wholeEvery: 6,
  },
};

function deepseekMoe(fields: Fields, layers: number, scoreBias: boolean): MoeWidths | 'missing' {
  const width = countOf(fields['moe_intermediate_size']);
  const dense = wholeOf(fields['first_k_dense_replace']) ?? 0;
  const sharedWidth = (wholeOf(fields['n_shared_experts']) ?? 0) * (width ?? 0);
  return moeOf(fields, { ...plainMoe, layers: layers - dense, width, sharedWidth, scoreBias });
}

type MoeRest = Omit<MoeWidths, 'experts' | 'active' | 'width'> & { readonly width: unknown };

function moeOf(fields: Fields, { width, ...rest }: MoeRest): MoeWidths | 'missing' {
  const experts = countOf(fields['num_local_experts'] ?? fields['num_experts'] ?? fields['n_routed_experts']);
  const active = countOf(fields['num_experts_per_tok'] ?? fields['experts_per_token']);
  const wide = countOf(width);
  if (experts === undefined || active === undefined || wide === undefined || rest.layers < 1) return 'missing';
  return { experts, active, width: wide, ...rest };
}

/** Qwen: every `decoder_sparse_step`-th layer has experts, but for those named in `mlp_only_layers`. */
function sparseLayers(fields: Fields, layers: number): number {
  const step = countOf(fields['decoder_sparse_step']) ?? 1;
  const named: unknown = fields['mlp_only_layers'];
  const dense: readonly unknown[] = Array.isArray(named) ? named : [];
  let count = 0;
  for (let layer = 0; layer < layers; layer += 1) if (!dense.includes(layer) && (layer + 1) % step === 0) count += 1;
  return count;
}

function readMla(fields: Fields): MlaWidths | 'missing' {
  const kvRank = countOf(fields['kv_lora_rank']);
  const nopeDim = countOf(fields['qk_nope_head_dim']);
  const ropeDim = countOf(fields['qk_rope_head_dim']);
  const valueDim = countOf(fields['v_head_dim']);
  if (kvRank === undefined || nopeDim === undefined || ropeDim === undefined || valueDim === undefined)
    return 'missing';
  const queryRank = countOf(fields['q_lora_rank']);
  return { kvRank, nopeDim, ropeDim, valueDim, ...(queryRank === undefined ? {} : { queryRank }) };
}

function slidingOf(fields: Fields, layers: number, traits: Traits): Pick<HfModel, 'slidingLayers' | 'slidingTokens'> {
  const none = { slidingLayers: 0, slidingTokens: 0 };
  const slidingTokens = countOf(fields['sliding_window']);
  if (slidingTokens === undefined) return none;
  if (traits.slidingSwitch !== undefined && fields[traits.slidingSwitch] !== true) return none;
  const types: unknown = fields['layer_types'];
  if (Array.isArray(types)) {
    const sliding = types.filter((one) => one === 'sliding_attention').length;
    return { slidingLayers: Math.min(sliding, layers), slidingTokens };
  }
  const every = countOf(fields['sliding_window_pattern']) ?? traits.wholeEvery;
  return { slidingLayers: every === undefined ? layers : layers - Math.floor(layers / every), slidingTokens };
}

export function fieldsOf(value: unknown): Fields | undefined {
  // A parsed JSON value that is neither null nor an array is a plain object with string keys.
  return typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as Fields) : undefined;
}

export function textOf(value: unknown): string | undefined {
  return typeof value === 'string' && value !== '' ? value : undefined;
}

/** A whole number above zero. */
export function countOf(value: unknown): number | undefined {
  return typeof value === 'number' && Number.isSafeInteger(value) && value > 0 ? value : undefined;
}

function wholeOf(value: unknown): number | undefined {
  return value === 0 ? 0 : countOf(value);
}

function flagOf(value: unknown): boolean | undefined {
  return typeof value === 'boolean' ? value : undefined;
}
