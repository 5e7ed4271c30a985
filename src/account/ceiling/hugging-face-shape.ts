/**
 * The shape of a model from its Hugging Face `config.json`: counted parameters, the bytes that its quantisation leaves of
 * them, and its attention. What the file doesn't tell stays unknown.
 */
import { fieldsOf, countOf, readHfConfig, textOf, type Fields, type HfModel } from './hugging-face-config.ts';
import {
  configuredShape,
  shapeOf,
  unreadFormat,
  withSettings,
  type AttentionShape,
  type ModelShape,
} from './model-shape.ts';
import { countParameters, type ParameterCount } from './parameter-count.ts';
import type { ShapeSettings } from './settings.ts';

/** @returns the shape, and what is wrong with the file if it couldn't be read (the config's own figures hold then) */
export function shapeFromSettings(settings: ShapeSettings): { readonly shape: ModelShape; readonly problem?: string } {
  if (settings.configJson === undefined) return { shape: configuredShape(settings) };
  const model = readHfConfig(settings.configJson);
  if (typeof model === 'string') return { shape: configuredShape(settings), problem: model };
  const count = countParameters(model);
  const stored = storedBytes(model, count);
  const { moe } = model;
  const found = {
    source: 'hugging_face' as const,
    params: count.total,
    activeParams: count.active,
    lookupParams: count.lookup,
    weightBytes: stored?.total,
    weightBytesFrom: stored === undefined ? undefined : ('hugging_face' as const),
    attention: attentionOf(model),
    computesIn: stored?.computesIn,
    unknown: stored === undefined ? [`${unreadFormat}${quantizationName(model)}`] : [],
    ...(moe === undefined
      ? {}
      : {
          experts: {
            count: moe.experts,
            active: moe.active,
            paramsShare: count.experts / count.total,
            bytesShare: stored === undefined ? count.experts / count.total : stored.experts / stored.total,
          },
        }),
  };
  return { shape: shapeOf(withSettings(found, settings)) };
}

function attentionOf(model: HfModel): AttentionShape {
  const { layers, heads, kvHeads, headDim, mla, slidingLayers, slidingTokens } = model;
  return {
    layers,
    heads,
    keyDim: mla === undefined ? headDim : mla.nopeDim + mla.ropeDim,
    valueDim: mla?.valueDim ?? headDim,
    cachedPerLayer: mla === undefined ? 2 * kvHeads * headDim : mla.kvRank + mla.ropeDim,
    bytesPerNumber: 2,
    slidingLayers,
    slidingTokens,
  };
}

interface StoredBytes {
  readonly total: number;
  readonly experts: number;
  readonly computesIn: ModelShape['computesIn'];
}

function storedBytes(model: HfModel, count: ParameterCount): StoredBytes | undefined {
  const full = fullBytes(model.format);
  const packed = model.quantization === undefined ? plain(full) : packing(model.quantization, full);
  if (packed === undefined) return undefined;
  const experts = count.experts * packed.expertBytes;
  return {
    total: count.linear * packed.linearBytes + experts + count.kept * full,
    experts,
    computesIn: packed.computesIn,
  };
}

function fullBytes(format: string | undefined): number {
  return format === 'float32' ? 4 : format?.startsWith('float8') === true ? 1 : 2;
}

interface Packing {
  /** Bytes of one parameter. */
  readonly linearBytes: number;
  readonly expertBytes: number;
  readonly computesIn: ModelShape['computesIn'];
}

function plain(bytes: number, computesIn: ModelShape['computesIn'] = '16bit'): Packing {
  return { linearBytes: bytes, expertBytes: bytes, computesIn };
}

/** Scales of two bytes for each group, and a zero as wide as a weight where there is one. */
function grouped(bits: number, group: number | undefined, zero: boolean): number {
  const scale = group === undefined ? 0 : (2 + (zero ? bits / 8 : 0)) / group;
  return bits / 8 + scale;
}

/** @returns undefined for a method that is not known here */
function packing(quantization: Fields, full: number): Packing | undefined {
  const bits = countOf(quantization['bits']) ?? 4;
  const group = countOf(quantization['group_size']);
  switch (textOf(quantization['quant_method'])) {
    case 'awq':
    case 'gptq':
      return plain(grouped(bits, group, true));
    case 'fp8': {
      const blocks: unknown = quantization['weight_block_size'];
      const [rows, columns] = Array.isArray(blocks) ? blocks.map(countOf) : [];
      const scale = rows === undefined || columns === undefined ? 0 : 4 / (rows * columns);
      return plain(1 + scale, '8bit');
    }
    case 'fbgemm_fp8':
      return plain(1, '8bit');
    case 'mxfp4':
      // Only the experts: attention, router, embedding and output matrix are in `modules_to_not_convert`.
      return { linearBytes: full, expertBytes: 4.25 / 8, computesIn: '16bit' };
    case 'bitsandbytes':
      // Blocks of 64 with a 32-bit maximum; double quantisation packs these into 8 bits.
      if (quantization['load_in_8bit'] === true) return plain(1, '8bit');
      return plain(0.5 + (quantization['bnb_4bit_use_double_quant'] === true ? 0.127 : 0.5) / 8);
    case 'compressed-tensors':
      return compressed(quantization);
    default:
      return undefined;
  }
}

function compressed(quantization: Fields): Packing | undefined {
  const groups = Object.values(fieldsOf(quantization['config_groups']) ?? {});
  const first = fieldsOf(groups[0]);
  const weights = fieldsOf(first?.['weights']);
  const bits = countOf(weights?.['num_bits']);
  if (groups.length !== 1 || bits === undefined) return undefined;
  const activations = fieldsOf(first?.['input_activations']);
  const eight = bits === 8 && countOf(activations?.['num_bits']) === 8;
  return plain(grouped(bits, countOf(weights?.['group_size']), false), eight ? '8bit' : '16bit');
}

function quantizationName(model: HfModel): string {
  return textOf(model.quantization?.['quant_method'])?.slice(0, 40) ?? 'this quantization_config';
}
