import { describe, expect, it } from 'vitest';
import { shapeFromSettings } from '../../../../src/account/ceiling/hugging-face-shape.ts';
import { configuredShape, llamaShape } from '../../../../src/account/ceiling/model-shape.ts';
import { createShapeBook } from '../../../../src/account/ceiling/shape-book.ts';
import type { ShapeSettings } from '../../../../src/account/ceiling/settings.ts';
import { readModelList } from '../../../../src/fleet/facts.ts';
import { loadRecorded } from '../../../support/recorded.ts';
import { deepseekV3, gptOss120, gptOss20, llama3, mixtral, published } from './known-models.ts';

const read = (configJson: unknown) => shapeFromSettings({ model: 'm', configJson });
const billions = (value: number | undefined) => (value ?? Number.NaN) / 1e9;

describe('a shape from config.json', () => {
  const models = published.map(([name, configJson, total, active]) => ({ name, configJson, total, active }));
  it.each(models)('of $name has its published parameters', ({ configJson, total, active }) => {
    const { shape, problem } = read(configJson);
    expect(problem).toBeUndefined();
    expect(billions(shape.params)).toBeCloseTo(total, total < 2 ? 1 : 2);
    expect(billions(shape.activeParams)).toBeCloseTo(active ?? billions(shape.activeParams), 2);
    expect(shape.unknown).toEqual([]);
  });

  it('of gpt-oss has the published active parameters, which leave the input embedding out', () => {
    for (const [configJson, active] of [
      [gptOss120, 5.13],
      [gptOss20, 3.61],
    ] as const) {
      const { activeParams = 0, lookupParams } = read(configJson).shape;
      expect(billions(activeParams - lookupParams)).toBeCloseTo(active, 2);
    }
  });

  it('of SmolLM2 135M has exactly the parameters that llama-server counts', () => {
    const shape = read({
      ...llama3,
      hidden_size: 576,
      intermediate_size: 1536,
      num_hidden_layers: 30,
      num_attention_heads: 9,
      num_key_value_heads: 3,
      vocab_size: 49_152,
      tie_word_embeddings: true,
    }).shape;
    expect(shape.params).toBe(134_515_008);
    expect(shape.lookupParams).toBe(0);
  });

  it.each([
    ['BF16', undefined, 16.06],
    ['AWQ in groups of 128', { quant_method: 'awq', bits: 4, group_size: 128 }, 5.73],
    ['GPTQ 8 bit', { quant_method: 'gptq', bits: 8, group_size: 128 }, 9.24],
    ['FP8', { quant_method: 'fp8' }, 9.08],
    ['bitsandbytes NF4', { quant_method: 'bitsandbytes', load_in_4bit: true, bnb_4bit_use_double_quant: true }, 5.7],
    [
      'compressed-tensors W4A16',
      {
        quant_method: 'compressed-tensors',
        config_groups: { group_0: { weights: { num_bits: 4, type: 'int', group_size: 128 }, input_activations: null } },
        ignore: ['lm_head'],
      },
      5.7,
    ],
  ])('of Llama 3 8B in %s weighs what it must', (_name, quantization, gigabytes) => {
    const { shape } = read({ ...llama3, quantization_config: quantization });
    expect(billions(shape.weightBytes)).toBeCloseTo(gigabytes, 1);
  });

  it('of MXFP4 packs the experts alone: gpt-oss-120b has 60.8 GiB', () => {
    expect((read(gptOss120).shape.weightBytes ?? 0) / 2 ** 30).toBeCloseTo(60.7, 0);
  });

  it('computes in 8 bits only where activations are quantised too', () => {
    const eightBit = { weights: { num_bits: 8, type: 'float' }, input_activations: { num_bits: 8, type: 'float' } };
    const compressed = (group: object) => ({ quant_method: 'compressed-tensors', config_groups: { group_0: group } });
    expect(read(deepseekV3).shape.computesIn).toBe('8bit');
    expect(read({ ...llama3, quantization_config: compressed(eightBit) }).shape.computesIn).toBe('8bit');
    expect(read({ ...llama3, quantization_config: { quant_method: 'awq', bits: 4 } }).shape.computesIn).toBe('16bit');
    expect(read(llama3).shape.computesIn).toBe('16bit');
  });

  it('of an unknown quantisation has no bytes, and says so', () => {
    const { shape } = read({ ...llama3, quantization_config: { quant_method: 'quip-next' } });
    expect(shape.params).toBeDefined();
    expect(shape.weightBytes).toBeUndefined();
    expect(shape.unknown.join()).toContain('quip-next');
  });

  it.each([
    [{ ...llama3, model_type: 'mamba' }, 'mamba'],
    [{ ...llama3, hidden_size: undefined }, 'hidden_size'],
    [{ ...mixtral, num_local_experts: undefined }, 'experts'],
    [{ ...deepseekV3, kv_lora_rank: 'x' }, 'kv_lora_rank'],
    [{}, 'model_type'],
    [[], 'no JSON object'],
    [null, 'no JSON object'],
  ])('that can’t be read is refused by name, and what the config says holds', (configJson, word) => {
    const { shape, problem } = shapeFromSettings({ model: 'm', configJson, params: 7e9, weightFormat: 'bf16' });
    expect(problem).toContain(word);
    expect(shape).toMatchObject({ source: 'config', params: 7e9, activeParams: 7e9, weightBytes: 14e9 });
  });

  it('sees which layers slide', () => {
    const sliding = (configJson: object) => read(configJson).shape.attention?.slidingLayers;
    expect(sliding({ ...llama3, model_type: 'mistral', sliding_window: 4096 })).toBe(32);
    expect(sliding({ ...llama3, model_type: 'qwen2', sliding_window: 4096, use_sliding_window: false })).toBe(0);
    expect(sliding({ ...llama3, model_type: 'gemma2', sliding_window: 4096, num_hidden_layers: 42 })).toBe(21);
    expect(sliding(gptOss120)).toBe(18);
    expect(sliding({ ...mixtral, sliding_window: null })).toBe(0);
  });
});

describe('a shape from the config', () => {
  it('beats the file, number by number', () => {
    const { shape } = shapeFromSettings({
      model: 'm',
      configJson: llama3,
      weightBytes: 5e9,
      kvFormat: 'fp8',
      layers: 16,
    });
    expect(shape).toMatchObject({ source: 'hugging_face', weightBytes: 5e9 });
    expect(shape.attention).toMatchObject({ layers: 16, bytesPerNumber: 1, heads: 32 });
  });

  it('names what it doesn’t know', () => {
    expect(configuredShape({ model: 'm' }).unknown).toHaveLength(3);
    const mixture = configuredShape({ model: 'm', params: 46.7e9, experts: 8, activeExperts: 2, weightBytes: 1 });
    expect(mixture.activeParams).toBeUndefined();
    expect(mixture.unknown.join()).toContain('active parameters');
  });
});

describe('a shape from llama-server', () => {
  const meta = readModelList({
    status: 200,
    headers: {},
    body: loadRecorded('llama-server', 'models').body.toString(),
  })?.modelSize;

  it('is read from its list of models, and taken for dense, which it says', () => {
    expect(meta).toEqual({ params: 134_515_008, weightBytes: 96_576_768 });
    const shape = llamaShape(meta ?? {});
    expect(shape).toMatchObject({ source: 'llama_server', params: 134_515_008, activeParams: 134_515_008 });
    expect(shape.attention).toBeUndefined();
    expect(shape.unknown).toHaveLength(1);
    expect(shape.assumed.join()).toContain('dense');
  });

  it('is completed by the config', () => {
    const shape = llamaShape(meta ?? {}, { model: 'smollm2', layers: 30, heads: 9, kvHeads: 3, headDim: 64 });
    expect(shape).toMatchObject({ params: 134_515_008, attention: { layers: 30, cachedPerLayer: 384 } });
    expect(shape.unknown).toEqual([]);
    expect(llamaShape(meta ?? {}, { model: 'm', activeParams: 1e8 })).toMatchObject({ activeParams: 1e8, assumed: [] });
  });
});

describe('the shape of a request’s model', () => {
  const book = createShapeBook([
    { model: 'base', params: 8e9 },
    { model: 'half', layers: 30, heads: 9, kvHeads: 3, headDim: 64 },
    { model: 'broken', configJson: {} },
  ]);

  it('is found by the names of answer and request, then by what the backend serves', () => {
    expect(book.find(['base'], undefined)?.params).toBe(8e9);
    expect(book.find([undefined, 'x', 'base'], undefined)?.params).toBe(8e9);
    expect(book.find(['adapter'], { models: ['base', 'adapter'], oneBase: true })?.params).toBe(8e9);
    expect(book.find(['other'], { models: ['base', 'other'], oneBase: false })).toBeUndefined();
    expect(book.find(['anything'], { models: ['base'], oneBase: false })?.params).toBe(8e9);
  });

  it('is the engine’s own word where the config has none or only a part, and the same object each time', () => {
    const served = { models: ['half'], oneBase: true, size: { params: 1e9, weightBytes: 2e9 } };
    expect(book.find(['half'], served)).toMatchObject({ params: 1e9, attention: { layers: 30 } });
    expect(book.find(['half'], served)).toBe(book.find(['half'], served));
    expect(book.find(['x'], { models: ['x'], oneBase: true, size: served.size })?.source).toBe('llama_server');
    expect(book.shapesOf({ models: ['x'], oneBase: true, size: served.size })).toHaveLength(1);
  });

  it('has the bytes that the engine loaded, not those of the file that describes it; weightBytes of the config beats both', () => {
    const served = { models: ['m'], oneBase: true, size: { params: 134_515_008, weightBytes: 96_576_768 } };
    const found = (settings: Omit<ShapeSettings, 'model'>) =>
      createShapeBook([{ model: 'm', ...settings }]).find(['m'], served);
    const told = { weightBytes: 96_576_768, weightBytesFrom: 'llama_server' };
    expect(found({ configJson: llama3 })).toMatchObject({ source: 'hugging_face', attention: { layers: 32 }, ...told });
    expect(found({ params: 134_515_008, weightFormat: 'bf16' })).toMatchObject({ source: 'config', ...told });
    expect(found({ layers: 30, weightFormat: 'bf16' })).toMatchObject({ source: 'llama_server', ...told });
    const own = { weightBytes: 5e9, weightBytesFrom: 'config' };
    expect(found({ configJson: llama3, weightBytes: 5e9 })).toMatchObject(own);
    expect(found({ layers: 30, weightBytes: 5e9 })).toMatchObject(own);
    const unread = found({ configJson: { ...llama3, quantization_config: { quant_method: 'quip-next' } } });
    expect(unread).toMatchObject({ ...told, unknown: [] });
    const alone = createShapeBook([{ model: 'm', configJson: llama3 }]).find(['m'], undefined);
    expect(alone?.weightBytesFrom).toBe('hugging_face');
    const reckoned = createShapeBook([{ model: 'm', configJson: llama3, weightFormat: 'int8' }]).find(['m'], undefined);
    expect(reckoned?.weightBytesFrom).toBe('weight_format');
  });

  it('comes with the problem of its file', () => {
    expect(book.problems).toEqual([{ model: 'broken', message: 'config.json has no model_type' }]);
  });
});
