/**
 * What must be known of a model to say what one of its tokens costs: parameters, bytes, the shape of its attention.
 * Built from the config, a Hugging Face `config.json` or llama-server's own words; what nobody told stays unknown and is
 * named. Holds no formula of time: see `formulas.ts`.
 */
import type { ModelSize } from '../../domain/fleet.ts';
import type { NumberFormat, ShapeSettings } from './settings.ts';

/** Attention and its cache, for one token of context. */
export interface AttentionShape {
  readonly layers: number;
  readonly heads: number;
  /** Width of one head's query and key, and of its value. */
  readonly keyDim: number;
  readonly valueDim: number;
  /** Numbers kept in the cache for one token in one layer: 2 × KV heads × head dim; MLA: rank + rotary part, once. */
  readonly cachedPerLayer: number;
  readonly bytesPerNumber: number;
  /** Layers that look back so far only. */
  readonly slidingLayers: number;
  readonly slidingTokens: number;
}

/** Routed experts; those that every token visits count as dense. */
export interface ExpertShape {
  readonly count: number;
  readonly active: number;
  /** Share of all parameters, and of all weight bytes, that the routed experts are. */
  readonly paramsShare: number;
  readonly bytesShare: number;
}

/** Who says how many bytes the weights take, the strongest word first. */
export type BytesSource =
  /** `weightBytes` of the config */
  | 'config'
  /** the engine, of what it has loaded */
  | 'llama_server'
  /** reckoned: parameters × the format that the config names */
  | 'weight_format'
  /** reckoned from config.json and its quantisation */
  | 'hugging_face';

export interface ModelShape {
  /** Where it comes from. */
  readonly source: 'config' | 'hugging_face' | 'llama_server';
  readonly params?: number;
  /** Parameters that one token goes through. */
  readonly activeParams?: number;
  /** Of these, an input embedding that is looked up and not multiplied; 0 where it is the output's matrix too. */
  readonly lookupParams: number;
  readonly weightBytes?: number;
  readonly weightBytesFrom?: BytesSource;
  readonly experts?: ExpertShape;
  readonly attention?: AttentionShape;
  /** Precision of its matrix products, which chooses the card's peak. */
  readonly computesIn: '16bit' | '8bit';
  /** What could not be found out, and what is missing because of it. */
  readonly unknown: readonly string[];
  /** What was taken for granted. */
  readonly assumed: readonly string[];
}

/** Everything that a source may tell; `shapeOf` draws the conclusions. */
export interface ShapeParts {
  readonly source: ModelShape['source'];
  readonly params?: number | undefined;
  readonly activeParams?: number | undefined;
  readonly lookupParams?: number | undefined;
  readonly weightBytes?: number | undefined;
  readonly weightBytesFrom?: BytesSource | undefined;
  readonly experts?: ExpertShape | undefined;
  readonly attention?: AttentionShape | undefined;
  readonly computesIn?: ModelShape['computesIn'] | undefined;
  readonly unknown?: readonly string[];
  readonly assumed?: readonly string[];
}

/** Bytes of one number. `int4`: groups of 128 with a 16-bit scale and a 4-bit zero; `mxfp4`: blocks of 32 with 8 bits. */
export const bytesOf: Readonly<Record<NumberFormat, number>> = {
  fp32: 4,
  bf16: 2,
  fp16: 2,
  fp8: 1,
  int8: 1,
  int4: 0.5 + 2.5 / 128,
  mxfp4: 4.25 / 8,
};

const noBytes = 'weight bytes: no decode ceiling, no MBU';
/** How the word for a quantisation that nobody here knows begins. */
export const unreadFormat = 'how weights are stored by ';

export function shapeOf(parts: ShapeParts): ModelShape {
  const { params, activeParams, weightBytes, weightBytesFrom, experts, attention } = parts;
  const unknown = [...(parts.unknown ?? [])];
  if (activeParams === undefined) unknown.push('active parameters: no FLOPs, no MFU');
  if (weightBytes === undefined) unknown.push(noBytes);
  if (attention === undefined)
    unknown.push('layers, heads or their width: neither the KV cache nor the FLOPs of attention are counted');
  return {
    source: parts.source,
    lookupParams: parts.lookupParams ?? 0,
    computesIn: parts.computesIn ?? '16bit',
    unknown,
    assumed: parts.assumed ?? [],
    ...(params === undefined ? {} : { params }),
    ...(activeParams === undefined ? {} : { activeParams }),
    ...(weightBytes === undefined ? {} : { weightBytes }),
    ...(weightBytes === undefined || weightBytesFrom === undefined ? {} : { weightBytesFrom }),
    ...(experts === undefined ? {} : { experts }),
    ...(attention === undefined ? {} : { attention }),
  };
}

/** The shape that the config alone gives. */
export function configuredShape(settings: ShapeSettings): ModelShape {
  return shapeOf(withSettings({ source: 'config' }, settings));
}

/** What the config says of a model beats what its files say. */
export function withSettings(found: ShapeParts, settings: ShapeSettings): ShapeParts {
  const params = settings.params ?? found.params;
  const mixed = settings.experts !== undefined || found.experts !== undefined;
  const activeParams = settings.activeParams ?? found.activeParams ?? (mixed ? undefined : params);
  const perNumber = settings.weightFormat === undefined ? undefined : bytesOf[settings.weightFormat];
  const reckoned = perNumber === undefined || params === undefined ? undefined : params * perNumber;
  const bytes = bytesIn(settings, found, reckoned);
  return {
    ...found,
    params,
    activeParams,
    ...bytes,
    experts: expertsOf(settings, { params, activeParams }) ?? found.experts,
    attention: attentionOf(settings, found.attention),
    computesIn: settings.weightFormat === undefined ? found.computesIn : precisionOf(settings.weightFormat),
  };
}

type Bytes = Pick<ShapeParts, 'weightBytes' | 'weightBytesFrom'>;

/** A figure of the config's own, then the engine's word for what it has loaded, then what can be reckoned. */
function bytesIn(settings: ShapeSettings, found: ShapeParts, reckoned: number | undefined): Bytes {
  if (settings.weightBytes !== undefined) return { weightBytes: settings.weightBytes, weightBytesFrom: 'config' };
  const told = found.weightBytesFrom === 'llama_server';
  if (reckoned !== undefined && !told) return { weightBytes: reckoned, weightBytesFrom: 'weight_format' };
  return { weightBytes: found.weightBytes, weightBytesFrom: found.weightBytesFrom };
}

/** The same shape with the bytes that the engine tells of what it has loaded, unless the config gives them itself. */
export function withEngineBytes(shape: ModelShape, { weightBytes }: ModelSize): ModelShape {
  if (weightBytes === undefined || shape.weightBytesFrom === 'config') return shape;
  const unknown = shape.unknown.filter((one) => one !== noBytes && !one.startsWith(unreadFormat));
  return { ...shape, weightBytes, weightBytesFrom: 'llama_server', unknown };
}

function precisionOf(format: NumberFormat): ModelShape['computesIn'] {
  return format === 'fp8' || format === 'int8' ? '8bit' : '16bit';
}

/** Total T = D + X, active A = D + X·k/E: so the routed experts have X = (T − A) / (1 − k/E). */
function expertsOf(
  { experts: count, activeExperts: active }: ShapeSettings,
  { params, activeParams }: { params: number | undefined; activeParams: number | undefined },
): ExpertShape | undefined {
  if (count === undefined || active === undefined || params === undefined || activeParams === undefined)
    return undefined;
  if (active >= count || activeParams >= params) return undefined;
  const share = (params - activeParams) / (1 - active / count) / params;
  return { count, active, paramsShare: share, bytesShare: share };
}

function attentionOf(settings: ShapeSettings, found: AttentionShape | undefined): AttentionShape | undefined {
  const { kvHeads, headDim, kvLoraRank, ropeHeadDim } = settings;
  const layers = settings.layers ?? found?.layers;
  const heads = settings.heads ?? found?.heads;
  const keyDim = headDim ?? found?.keyDim;
  const valueDim = headDim ?? found?.valueDim;
  const compressed = kvLoraRank === undefined ? undefined : kvLoraRank + (ropeHeadDim ?? 0);
  const whole = kvHeads === undefined || keyDim === undefined ? undefined : 2 * kvHeads * keyDim;
  const cachedPerLayer = compressed ?? whole ?? found?.cachedPerLayer;
  if (layers === undefined || heads === undefined || keyDim === undefined) return undefined;
  if (valueDim === undefined || cachedPerLayer === undefined) return undefined;
  return {
    layers,
    heads,
    keyDim,
    valueDim,
    cachedPerLayer,
    bytesPerNumber: settings.kvFormat === undefined ? (found?.bytesPerNumber ?? 2) : bytesOf[settings.kvFormat],
    slidingLayers: found?.slidingLayers ?? 0,
    slidingTokens: found?.slidingTokens ?? 0,
  };
}

/** llama-server tells neither layers nor experts: the model is taken for dense, and the shape says so. */
export function llamaShape(meta: ModelSize, settings?: ShapeSettings): ModelShape {
  const found: ShapeParts = {
    source: 'llama_server',
    params: meta.params,
    activeParams: meta.params,
    weightBytes: meta.weightBytes,
    weightBytesFrom: meta.weightBytes === undefined ? undefined : 'llama_server',
    assumed: ['a dense model: llama-server does not tell of experts; give activeParams if it has them'],
  };
  if (settings === undefined) return shapeOf(found);
  const told = settings.activeParams !== undefined || settings.experts !== undefined;
  const parts = withSettings(told ? { ...found, activeParams: undefined, assumed: [] } : found, settings);
  return shapeOf(parts);
}
