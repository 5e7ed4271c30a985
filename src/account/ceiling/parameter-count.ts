/**
 * Counts the parameters of a transformer from its widths, part by part, as the reference implementations lay them out.
 * Tests hold the sums against the published counts. Pure.
 */
import type { HfModel, MoeWidths } from './hugging-face-config.ts';

export interface ParameterCount {
  readonly total: number;
  /** What one token goes through: all but the routed experts that it doesn't visit. */
  readonly active: number;
  /** Input embedding that is not the output's matrix too: looked up, never multiplied. */
  readonly lookup: number;
  /** Routed experts of all layers. */
  readonly experts: number;
  /** Matrices of attention, dense feed-forward and shared experts: what quantisation turns to fewer bits. */
  readonly linear: number;
  /** Embedding, output matrix, norms, routers: kept at full width by nearly every quantisation. */
  readonly kept: number;
}

export function countParameters(model: HfModel): ParameterCount {
  const { hidden, layers, vocabulary, moe } = model;
  const attention = layers * attentionOf(model);
  const moeLayers = moe?.layers ?? 0;
  const dense = (layers - moeLayers) * feedForward(hidden, model.width);
  const shared = moe === undefined ? 0 : moeLayers * sharedOf(hidden, moe);
  const experts = moe === undefined ? 0 : moeLayers * moe.experts * expertOf(hidden, moe);
  const routers = moe === undefined ? 0 : moeLayers * routerOf(hidden, moe);
  const embedding = vocabulary * hidden;
  const norms = layers * model.normsPerLayer * hidden + hidden;
  const kept = embedding * (model.tied ? 1 : 2) + norms + routers;
  const linear = attention + dense + shared;
  const total = linear + experts + kept;
  return {
    total,
    active: moe === undefined ? total : total - experts * (1 - moe.active / moe.experts),
    lookup: model.tied ? 0 : embedding,
    experts,
    linear,
    kept,
  };
}

/** One layer's attention, its biases and inner norms included. */
function attentionOf(model: HfModel): number {
  const { hidden, heads, kvHeads, headDim, mla } = model;
  if (mla !== undefined) {
    const queryDim = heads * (mla.nopeDim + mla.ropeDim);
    const query = mla.queryRank === undefined ? hidden * queryDim : mla.queryRank * (hidden + 1 + queryDim);
    const down = hidden * (mla.kvRank + mla.ropeDim) + mla.kvRank;
    const up = mla.kvRank * heads * (mla.nopeDim + mla.valueDim);
    return query + down + up + heads * mla.valueDim * hidden;
  }
  const queryDim = heads * headDim;
  const kvDim = kvHeads * headDim;
  return (
    hidden * (queryDim + 2 * kvDim) +
    queryDim * hidden +
    (model.queryKeyValueBias ? queryDim + 2 * kvDim : 0) +
    (model.outputBias ? hidden : 0) +
    (model.queryKeyNorm ? 2 * headDim : 0) +
    (model.sinks ? heads : 0)
  );
}

/** Gate, up and down. */
function feedForward(hidden: number, width: number): number {
  return 3 * hidden * width;
}

function expertOf(hidden: number, moe: MoeWidths): number {
  return feedForward(hidden, moe.width) + (moe.biased ? 2 * moe.width + hidden : 0);
}

function sharedOf(hidden: number, moe: MoeWidths): number {
  return feedForward(hidden, moe.sharedWidth) + (moe.sharedGate ? hidden : 0);
}

function routerOf(hidden: number, moe: MoeWidths): number {
  return moe.experts * (hidden + (moe.biased ? 1 : 0) + (moe.scoreBias ? 1 : 0));
}
