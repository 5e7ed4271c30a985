/**
 * What one backend said of itself, and what one list of models says. Plain values; the readers in `engines/` fill them.
 */
import type { ModelSize } from '../domain/fleet.ts';
import type { Engine } from '../domain/names.ts';
import { asObject, countOf, listOf, objectIn, textOf, type JsonObject } from './json-fields.ts';
import { isFailure, type ProbeResult } from './probe-port.ts';

export interface BackendFacts {
  readonly engine: Engine;
  /** It was recognised (or configured), not assumed. */
  readonly engineKnown: boolean;
  readonly version?: string;
  readonly models: readonly string[];
  /** llama-server's slots. */
  readonly slots?: number;
  readonly contextTokens?: number;
  readonly blockTokens?: number;
  /** KV cache of all its engines together. */
  readonly kvTokens?: number;
  /** What llama-server says of the size of its model. */
  readonly modelSize?: ModelSize;
  /** Requests that the engine says it runs at once, where it isn't slots. */
  readonly maxSequences?: number;
  /** llama-server without a model of its own, which starts one server per model. */
  readonly router: boolean;
  /** `/slots` answers. */
  readonly slotsReadable: boolean;
  /** What its own answers show to be missing. */
  readonly advice: readonly string[];
}

/** What an engine's reader found, beside the engine's name. */
export type EngineFacts = Partial<Omit<BackendFacts, 'engine' | 'engineKnown'>>;

export interface EngineReading {
  readonly facts: EngineFacts;
  /** Answers beside its health route without which it can't be called up. */
  readonly decisive: readonly ProbeResult[];
}

/** Asks one path within the time left for the whole round of probes. */
export type Ask = (path: string) => Promise<ProbeResult>;

export interface ModelList {
  readonly ids: readonly string[];
  /** `owned_by` of the first model. */
  readonly owner?: string;
  readonly contextTokens?: number;
  /** Of the first model that has a size: llama-server's only one. */
  readonly modelSize?: ModelSize;
}

/** Reads `GET /v1/models`; undefined when the answer is no list of models. */
export function readModelList(result: ProbeResult): ModelList | undefined {
  const data = listOf(jsonOf(result), 'data');
  if (data === undefined) return undefined;
  const entries = data.map(asObject).filter((entry) => textOf(entry, 'id') !== undefined);
  if (entries.length < data.length) return undefined;
  const ids = new Set<string>();
  for (const entry of entries) {
    for (const id of [entry?.['id'], ...(listOf(entry, 'aliases') ?? [])]) if (typeof id === 'string') ids.add(id);
  }
  const owner = textOf(entries[0], 'owned_by');
  // LoRA entries have no length of their own, so the first that states one speaks for the server.
  const contextTokens = entries.map(contextOf).find((tokens) => tokens !== undefined);
  const modelSize = entries.map(sizeOf).find((size) => size !== undefined);
  return {
    ids: [...ids],
    ...(owner === undefined ? {} : { owner }),
    ...(contextTokens === undefined ? {} : { contextTokens }),
    ...(modelSize === undefined ? {} : { modelSize }),
  };
}

/** llama-server: `meta.n_params`, and `meta.size`, the bytes of all tensors. */
function sizeOf(entry: JsonObject | undefined): ModelSize | undefined {
  const meta = asObject(entry?.['meta']);
  const params = countOf(meta, 'n_params');
  const weightBytes = countOf(meta, 'size');
  if (params === undefined && weightBytes === undefined) return undefined;
  return {
    ...(params === undefined ? {} : { params }),
    ...(weightBytes === undefined ? {} : { weightBytes }),
  };
}

/** vLLM and SGLang say `max_model_len`; llama-server says `meta.n_ctx`, one slot's. */
function contextOf(entry: JsonObject | undefined): number | undefined {
  return countOf(entry, 'max_model_len') ?? countOf(asObject(entry?.['meta']), 'n_ctx');
}

/** The JSON object of a good answer. */
export function jsonOf(result: ProbeResult): JsonObject | undefined {
  return isFailure(result) || result.status !== 200 ? undefined : objectIn(result.body);
}

/** The text of a good answer. */
export function bodyOf(result: ProbeResult): string | undefined {
  return isFailure(result) || result.status !== 200 ? undefined : result.body;
}

/** The given facts without those that are undefined. */
export function known(facts: { readonly [K in keyof EngineFacts]: EngineFacts[K] | undefined }): EngineFacts {
  // Dropping the undefined values is what turns the wide type into the narrow one.
  return Object.fromEntries(Object.entries(facts).filter(([, value]) => value !== undefined)) as EngineFacts;
}
