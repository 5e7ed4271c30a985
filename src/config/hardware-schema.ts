/**
 * The part of the schema that says what the ceiling needs: the cards behind a backend, and the shapes of models. All of it
 * may be left out. Like `schema.ts` it reads no file and looks nothing up.
 */
import * as v from 'valibot';

import { cardNames, numberFormats } from '../account/ceiling/settings.ts';
import * as field from './field.ts';

/** Longest list of shapes: one for each model of a large fleet. */
const maxShapes = 1000;
const maxCount = 4096;

/** Of one backend. */
export const hardware = field.section(
  {
    gpu: v.exactOptional(
      field.oneOf(cardNames, 'A card of the table in deploy/ceiling.md; the figures below beat the table.'),
    ),
    count: v.exactOptional(
      field.wholeNumber(
        { unit: 'cards', min: 1, max: maxCount },
        'Cards that work on one model together; 1 unless given.',
      ),
    ),
    peakTflops: v.exactOptional(
      field.positive('TFLOP/s', 1e6, 'Peak of one card, dense, at the precision that the model computes in.'),
    ),
    bandwidthGBps: v.exactOptional(field.positive('GB/s', 1e6, 'Memory bandwidth of one card, 10^9 bytes a second.')),
    memoryGiB: v.exactOptional(field.positive('GiB', 1e6, 'Memory of one card.')),
    pricePerHour: v.exactOptional(
      field.positive('units of money', 1e9, 'Price of the whole backend for an hour, in any currency.'),
    ),
  },
  'Its cards, for the ceiling: MFU, MBU and cost.',
);

const number = (says: string, most = 1e6) =>
  v.exactOptional(field.wholeNumber({ unit: 'things', min: 1, max: most }, says));

const shape = field.section(
  {
    model: field.text(512, 'The model as requests or answers name it.'),
    configFile: v.exactOptional(
      field.text(4096, 'Its Hugging Face config.json; relative to this file. What stands below beats it.'),
    ),
    params: v.exactOptional(field.positive('parameters', 1e15, 'All parameters, such as 8.03e9.')),
    activeParams: v.exactOptional(
      field.positive('parameters', 1e15, 'Parameters that one token goes through, of a mixture of experts.'),
    ),
    layers: number('Layers.'),
    heads: number('Attention heads.'),
    kvHeads: number('Heads of keys and values.'),
    headDim: number('Width of one head.'),
    weightBytes: v.exactOptional(
      field.positive(
        'bytes',
        1e15,
        'All weights as they lie in memory; beats what the engine says and what can be reckoned.',
      ),
    ),
    weightFormat: v.exactOptional(
      field.oneOf(
        numberFormats,
        'Format of the weights: with params it gives weightBytes where no engine tells them, and it chooses the peak.',
      ),
    ),
    kvFormat: v.exactOptional(field.oneOf(numberFormats, 'Format of the KV cache; 16 bits unless given.')),
    experts: number('Routed experts in a layer.'),
    activeExperts: number('Routed experts that one token visits.'),
    kvLoraRank: number('Latent attention (MLA): width of the compressed keys and values.'),
    ropeHeadDim: number('Latent attention (MLA): width of the rotary part.'),
  },
  'One model.',
);

export const shapes = v.pipe(
  field.list(shape, maxShapes, 'Shapes of models, for the ceiling. llama-server tells parameters and bytes by itself.'),
  v.rawCheck(({ dataset, addIssue }) => {
    if (!dataset.typed) return;
    const seen = new Set<string>();
    for (const [index, one] of dataset.value.entries()) {
      if (seen.has(one.model)) {
        const path: [v.ArrayPathItem] = [
          { type: 'array', origin: 'value', input: dataset.value, key: index, value: one },
        ];
        addIssue({ message: 'this model has a shape above; keep one', path });
      }
      seen.add(one.model);
    }
  }),
);
