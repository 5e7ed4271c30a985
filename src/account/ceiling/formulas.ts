/**
 * What one token costs and how fast it can come at best: bytes, FLOPs, and the times that a card's bandwidth and arithmetic
 * allow (a roofline). Pure; nothing is clamped: a share above 1 means that the model or the card is not what was said.
 */
import type { Hardware } from './cards.ts';
import type { AttentionShape, ModelShape } from './model-shape.ts';

/**
 * Bytes that the KV cache of one sequence takes: layers × cached numbers × bytes, for each token of context; layers with
 * a sliding window keep no more than that.
 * Source: 2·L·n_kv·d_h·bytes (Pope et al., arXiv 2211.05102); MLA: L·(rank + rope)·bytes (DeepSeek-V2, arXiv 2405.04434).
 */
export function kvBytes(attention: AttentionShape, contextTokens: number): number {
  const { layers, slidingLayers, slidingTokens, cachedPerLayer, bytesPerNumber } = attention;
  const tokens = (layers - slidingLayers) * contextTokens + slidingLayers * Math.min(contextTokens, slidingTokens);
  return tokens * cachedPerLayer * bytesPerNumber;
}

/** KV bytes that one more token costs while no window is full. */
export function kvBytesPerToken({ layers, cachedPerLayer, bytesPerNumber }: AttentionShape): number {
  return layers * cachedPerLayer * bytesPerNumber;
}

/**
 * Bytes of weights that one step touches: all of a dense model; of a mixture the experts that `sequences` tokens meet,
 * W_dense + W_expert·(1 − (1 − k/E)^n), if each token chose its experts evenly and alone.
 * @returns undefined when the weights' size is unknown
 */
export function weightBytesPerStep(shape: ModelShape, sequences: number): number | undefined {
  const { weightBytes, experts } = shape;
  if (weightBytes === undefined || experts === undefined) return weightBytes;
  const met = 1 - (1 - experts.active / experts.count) ** sequences;
  return weightBytes * (1 - experts.bytesShare * (1 - met));
}

export interface Batch {
  /** Sequences that decode together; a mean need not be whole. */
  readonly sequences: number;
  /** Mean context of each, tokens. */
  readonly contextTokens: number;
}

/**
 * Bytes that one decode step reads: weights, and the KV cache of each sequence. Of unknown attention only the weights.
 * Source: MBU's numerator, (parameter bytes + KV bytes) per step (Databricks, "LLM inference performance engineering").
 */
export function bytesPerStep(shape: ModelShape, { sequences, contextTokens }: Batch): number | undefined {
  const weights = weightBytesPerStep(shape, sequences);
  if (weights === undefined) return undefined;
  return weights + (shape.attention === undefined ? 0 : sequences * kvBytes(shape.attention, contextTokens));
}

/**
 * FLOPs to compute `newTokens` behind `tokensBefore`: 2·N for each (N without the input embedding), and for attention
 * 2·heads·(key + value width) for each pair of a token and one that it sees; equal widths make 4·L·n·d·context.
 * Source: Kaplan et al. (arXiv 2001.08361), forward pass; PaLM (arXiv 2204.02311), appendix B, for the attention.
 */
export function flopsFor(shape: ModelShape, newTokens: number, tokensBefore: number): number | undefined {
  const { activeParams, lookupParams, attention } = shape;
  if (activeParams === undefined) return undefined;
  const products = 2 * (activeParams - lookupParams) * newTokens;
  if (attention === undefined) return products;
  const { layers, slidingLayers, slidingTokens, heads, keyDim, valueDim } = attention;
  const perPair = 2 * heads * (keyDim + valueDim);
  const whole = pairs(newTokens, tokensBefore, Number.POSITIVE_INFINITY);
  const windowed = slidingLayers === 0 ? 0 : pairs(newTokens, tokensBefore, slidingTokens);
  return products + perPair * ((layers - slidingLayers) * whole + slidingLayers * windowed);
}

/** For each new token the tokens that it sees, `most` at most, summed: h·u + u²/2 without a limit. */
function pairs(newTokens: number, before: number, most: number): number {
  const growing = Math.min(newTokens, Math.max(0, most - before));
  const full = newTokens - growing;
  return growing * before + growing ** 2 / 2 + (full === 0 ? 0 : full * most);
}

/** FLOP/s of the cards at the precision that the model computes in. */
export function peakFlops(hardware: Hardware, shape: ModelShape): number | undefined {
  return shape.computesIn === '8bit' ? (hardware.fp8Flops ?? hardware.halfFlops) : hardware.halfFlops;
}

/** FLOPs for each byte read at which arithmetic, not memory, becomes the limit (Williams et al., 2009: the ridge point). */
export function ridge(flops: number, bandwidth: number): number {
  return flops / bandwidth;
}

/** FLOPs for each byte moved by a prefill: weights read once, the cache before it read, its own written. */
export function prefillIntensity(shape: ModelShape, newTokens: number, tokensBefore: number): number | undefined {
  const flops = flopsFor(shape, newTokens, tokensBefore);
  const weights = weightBytesPerStep(shape, newTokens);
  if (flops === undefined || weights === undefined) return undefined;
  const { attention } = shape;
  return flops / (weights + (attention === undefined ? 0 : kvBytes(attention, tokensBefore + newTokens)));
}

export interface DecodeCeiling {
  readonly bytes: number;
  /** Shortest time of one step. */
  readonly stepSeconds: number;
  /** Of all sequences together, and of each. */
  readonly tokensPerSecond: number;
  readonly userTokensPerSecond: number;
  /** `arithmetic` is judged only where the card's peak is known. */
  readonly limit: 'bandwidth' | 'arithmetic';
}

/**
 * The fastest that a batch can decode: one step takes as long as its bytes or its FLOPs take, whichever is longer.
 * @returns undefined when the weights' size or the bandwidth is unknown
 */
export function decodeCeiling(shape: ModelShape, hardware: Hardware, batch: Batch): DecodeCeiling | undefined {
  const bytes = bytesPerStep(shape, batch);
  if (bytes === undefined || hardware.bandwidth === undefined) return undefined;
  const readSeconds = bytes / hardware.bandwidth;
  const flops = flopsFor(shape, 1, batch.contextTokens);
  const peak = peakFlops(hardware, shape);
  const computeSeconds = flops === undefined || peak === undefined ? 0 : (flops * batch.sequences) / peak;
  const stepSeconds = Math.max(readSeconds, computeSeconds);
  return {
    bytes,
    stepSeconds,
    tokensPerSecond: batch.sequences / stepSeconds,
    userTokensPerSecond: 1 / stepSeconds,
    limit: computeSeconds > readSeconds ? 'arithmetic' : 'bandwidth',
  };
}

/**
 * Model FLOPs utilisation of a training run: tokens/s × (6·N + 12·L·H·Q·T) ÷ peak. Here only to check the arithmetic
 * against the published 46.2 % of PaLM.
 * Source: Chowdhery et al., "PaLM" (arXiv 2204.02311), appendix B.
 */
export function trainingMfu(run: {
  readonly params: number;
  readonly layers: number;
  readonly heads: number;
  readonly headDim: number;
  readonly sequenceTokens: number;
  readonly tokensPerSecond: number;
  /** FLOP/s of all chips. */
  readonly peakFlops: number;
}): number {
  const perToken = 6 * run.params + 12 * run.layers * run.heads * run.headDim * run.sequenceTokens;
  return (run.tokensPerSecond * perToken) / run.peakFlops;
}
