/**
 * What one finished request cost its backend, by the model's shape: FLOPs of its prompt and of its answer, FLOPs that the
 * cache saved, bytes that its steps read, and the least time that these steps could have taken. Pure.
 */
import type { RequestRecord } from '../../domain/record.ts';
import { decodedOf, sequencesOf } from '../decoded.ts';
import type { Hardware } from './cards.ts';
import { bytesPerStep, decodeCeiling, flopsFor } from './formulas.ts';
import type { ModelShape } from './model-shape.ts';

export interface PrefillCost {
  readonly flops: number;
  /** What computing the cached part would have cost; absent when the engine doesn't report cached tokens. */
  readonly savedFlops?: number;
}

export interface DecodeCost {
  /** First token → last token, times the choices. */
  readonly sequenceSeconds: number;
  /** The request's part of the time that its steps took: they were shared with what ran beside it. */
  readonly stepSeconds: number;
  readonly tokens: number;
  readonly flops?: number;
  /** Its part of the bytes that its steps read. */
  readonly readBytes?: number;
  /** Its part of the time that its steps would have taken at the ceiling. */
  readonly leastSeconds?: number;
}

/** Prompt tokens that had to be computed, and those before them. @returns undefined without a count of the prompt */
export function promptOf({
  tokens,
}: RequestRecord): { readonly computed: number; readonly cached: number } | undefined {
  const prompt = tokens.prompt?.value;
  if (prompt === undefined) return undefined;
  const cached = Math.min(prompt, tokens.cached?.value ?? 0);
  return { computed: prompt - cached, cached };
}

/** Several choices share one prefill. */
export function prefillCost(record: RequestRecord, shape: ModelShape): PrefillCost | undefined {
  const prompt = promptOf(record);
  if (prompt === undefined) return undefined;
  const flops = flopsFor(shape, prompt.computed, prompt.cached);
  const savedFlops = record.tokens.cached === undefined ? undefined : flopsFor(shape, prompt.cached, 0);
  if (flops === undefined) return undefined;
  return { flops, ...(savedFlops === undefined ? {} : { savedFlops }) };
}

/** The first token of each choice comes from the prefill: n tokens take n − 1 further passes. */
export function decodeCost(record: RequestRecord, shape: ModelShape, hardware: Hardware): DecodeCost | undefined {
  const decoded = decodedOf(record);
  if (decoded === undefined) return undefined;
  const { sequences, concurrency, seconds, tokens, stepSeconds } = decoded;
  const steps = seconds / stepSeconds;
  const part = (steps * sequences) / concurrency;
  const prompt = promptOf(record);
  const each = tokens / sequences;
  const batch = {
    sequences: concurrency,
    contextTokens: (prompt === undefined ? 0 : prompt.computed + prompt.cached) + each / 2,
  };
  const known = prompt !== undefined;
  const bytes = known ? bytesPerStep(shape, batch) : undefined;
  const ceiling = known ? decodeCeiling(shape, hardware, batch) : undefined;
  const flops = known ? flopsFor(shape, each, prompt.computed + prompt.cached) : undefined;
  return {
    sequenceSeconds: seconds * sequences,
    stepSeconds: (seconds * sequences) / concurrency,
    tokens,
    ...(flops === undefined ? {} : { flops: flops * sequences }),
    ...(bytes === undefined ? {} : { readBytes: bytes * part }),
    ...(ceiling === undefined ? {} : { leastSeconds: ceiling.stepSeconds * part }),
  };
}

/** An answer that isn't streamed: all its work, without a moment for each part. */
export function wholeCost(record: RequestRecord, shape: ModelShape): number | undefined {
  const prompt = promptOf(record);
  if (prompt === undefined) return undefined;
  const sequences = sequencesOf(record);
  const each = Math.max(0, (record.tokens.output?.value ?? 0) / sequences - 1);
  const prefill = flopsFor(shape, prompt.computed, prompt.cached);
  const decode = flopsFor(shape, each, prompt.computed + prompt.cached);
  return prefill === undefined || decode === undefined ? undefined : prefill + decode * sequences;
}
