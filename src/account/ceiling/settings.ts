/**
 * What the config says of cards and models, for the ceiling. Types and the names of known cards; no figures and no sums.
 * Every part may be left out: what isn't said is taken from the table, from the model's own files, or stays unknown.
 */

/** Names of the cards in `cards.ts`, as they are written in the config. */
export const cardNames = [
  'a100-40gb',
  'a100-80gb-sxm',
  'a100-80gb-pcie',
  'h100-sxm',
  'h100-pcie',
  'h100-nvl',
  'h200-sxm',
  'b200-sxm',
  'l40s',
  'l4',
  'a10',
  'a30',
  'a40',
  't4',
  'rtx-3090',
  'rtx-4090',
  'rtx-5090',
  'rtx-a6000',
  'rtx-6000-ada',
  'mi250x',
  'mi300x',
  'mi325x',
  'mi355x',
  'm1-max',
  'm1-ultra',
  'm2-max',
  'm2-ultra',
  'm3-max',
  'm3-ultra',
  'm4',
  'm4-pro',
  'm4-max',
  'm5',
  'm5-pro',
  'm5-max',
] as const;

export type CardName = (typeof cardNames)[number];

/** Formats of weights and of the KV cache. `int4` and `mxfp4` count their scales. */
export const numberFormats = ['fp32', 'bf16', 'fp16', 'fp8', 'int8', 'int4', 'mxfp4'] as const;
export type NumberFormat = (typeof numberFormats)[number];

/** The cards behind one backend. Figures are of one card. */
export interface HardwareSettings {
  readonly gpu?: CardName;
  /** 1 unless given. */
  readonly count?: number;
  /** Dense, at the precision that the model computes in; beats the table. */
  readonly peakTflops?: number;
  /** GB/s, 10^9 bytes; beats the table. */
  readonly bandwidthGBps?: number;
  /** Beats the table. */
  readonly memoryGiB?: number;
  /** Of all cards of the backend together, in any currency. */
  readonly pricePerHour?: number;
}

/** What is said of one model. What is given here beats what its `config.json` says. */
export interface ShapeSettings {
  /** As answers and requests name it. */
  readonly model: string;
  /** Content of its Hugging Face `config.json`, parsed. */
  readonly configJson?: unknown;
  readonly params?: number;
  readonly activeParams?: number;
  readonly layers?: number;
  readonly heads?: number;
  readonly kvHeads?: number;
  readonly headDim?: number;
  readonly weightBytes?: number;
  readonly weightFormat?: NumberFormat;
  readonly kvFormat?: NumberFormat;
  readonly experts?: number;
  readonly activeExperts?: number;
  /** Multi-head latent attention: width of the compressed keys and values, and of the rotary part beside it. */
  readonly kvLoraRank?: number;
  readonly ropeHeadDim?: number;
}

export interface CeilingSettings {
  readonly hardware: readonly { readonly backend: string; readonly hardware: HardwareSettings }[];
  readonly shapes: readonly ShapeSettings[];
}
