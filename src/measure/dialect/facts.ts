/**
 * What one event of a streamed answer says, in one shape for all dialects. Values only.
 * Absent means that the event doesn't say, never zero.
 */
import type { Engine } from '../../domain/names.ts';
import { EventFlag, type StreamError } from '../../domain/tap.ts';

/** `summary`: a summary of reasoning, which is shown but isn't what was generated. */
export type DeltaKind = 'text' | 'reasoning' | 'summary' | 'tool';

/** A token event of one choice. */
export interface Delta {
  readonly choice: number;
  readonly kind: DeltaKind;
  /** Tokens that it carries, where token ids say so. */
  readonly tokens?: number;
}

export interface Finish {
  readonly choice: number;
  readonly reason: string;
}

export interface Usage {
  /** The whole prompt, cached tokens included. */
  readonly prompt?: number;
  readonly output?: number;
  readonly reasoning?: number;
  readonly cached?: number;
}

/** llama-server's `timings`. */
export interface Timings {
  readonly cached?: number;
  /** prompt tokens that were computed, cached ones not included */
  readonly promptNew?: number;
  readonly predicted?: number;
  readonly promptMs?: number;
}

/** How an engine that tells splits the time before its first token. */
export interface EngineTimes {
  readonly queueMs?: number;
  readonly prefillMs?: number;
}

export interface EventFacts {
  /** bits of `EventFlag` */
  readonly flags: number;
  readonly deltas: readonly Delta[];
  /** choices that a role chunk opened */
  readonly roles: readonly number[];
  readonly finishes: readonly Finish[];
  readonly usage?: Usage;
  /** The counts are an engine's own (`tokens_predicted`, `eval_count`), not usage. */
  readonly native?: boolean;
  readonly timings?: Timings;
  /** Choice that usage and timings speak of, when the event names exactly one. */
  readonly choice?: number;
  /** Tokens of `choice` up to and including this event, where the event says so. */
  readonly outputSoFar?: number;
  /** Prompt known before any token: llama-server's progress, vLLM's prompt ids. */
  readonly early?: { readonly prompt: number; readonly cached?: number; readonly native: boolean };
  readonly engineTimes?: EngineTimes;
  readonly error?: StreamError;
  readonly responseId?: string;
  readonly responseModel?: string;
  readonly malformed?: boolean;
  /** Nothing but its one delta: the fast path says so. */
  readonly plain?: true;
  /** A second event found in the same data (C014). */
  readonly next?: EventFacts;
}

export interface DialectContext {
  readonly engine: Engine | undefined;
  /** value of the `event:` line, or '' */
  readonly name: string;
}

export type DialectReader = (json: JsonObject, context: DialectContext) => EventFacts;

export type JsonObject = { readonly [key: string]: unknown };

const none: readonly never[] = [];

/** An event without tokens, with these flags. */
export function bare(flags: number): EventFacts {
  return { flags, deltas: none, roles: none, finishes: none };
}

export const signFacts = bare(EventFlag.sign);

export function isObject(value: unknown): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

export function objectAt(json: JsonObject, key: string): JsonObject | undefined {
  const value = json[key];
  return isObject(value) ? value : undefined;
}

/** No request has so many of anything: larger numbers are a fault of the engine, and would spoil every sum for good. */
const mostCounted = 1e9;
/** In ns 11 days. */
const longestDuration = 1e15;

/** A count: a whole number that isn't negative. What can't be one counts as not told. */
export function countAt(json: JsonObject | undefined, key: string): number | undefined {
  const value = json?.[key];
  return typeof value === 'number' && Number.isInteger(value) && value >= 0 && value <= mostCounted ? value : undefined;
}

/** A duration in whatever unit: a number that isn't negative. */
export function durationAt(json: JsonObject | undefined, key: string): number | undefined {
  const value = json?.[key];
  return typeof value === 'number' && value >= 0 && value <= longestDuration ? value : undefined;
}

export function textAt(json: JsonObject, key: string): string | undefined {
  const value = json[key];
  return typeof value === 'string' && value !== '' ? value : undefined;
}

/** T with `undefined` allowed in its optional keys. */
export type Loose<T> = { readonly [key in keyof T]: {} extends Pick<T, key> ? T[key] | undefined : T[key] };

/** Copies `source` without the keys whose value is undefined, so that absent stays absent. */
export function compact<T extends object>(source: Loose<T>): T {
  const out: { [key in keyof T]?: T[key] } = {};
  for (const key in source) {
    const value = source[key];
    if (value !== undefined) out[key] = value;
  }
  return out as T; // Loose<T> made the caller give every required key
}
