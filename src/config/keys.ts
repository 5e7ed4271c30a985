/**
 * Walks a value beside the schema, before it is checked: finds every key that the schema doesn't know, not only the first
 * of each map, and lists where maps must be, takes them out, and turns what came from the environment as text into the number or flag that is wanted there.
 */
import type * as v from 'valibot';

import { type KeyPath, pathText, shownKey } from './problem.ts';
import { bare, nearest } from './suggest.ts';

export interface ShapeFault {
  readonly path: KeyPath;
  readonly message: string;
  /** What is at fault: the key itself or the value behind it. */
  readonly part: 'key' | 'value';
}

export interface Prepared {
  /** The value without what is at fault. */
  readonly value: unknown;
  readonly faults: readonly ShapeFault[];
}

/**
 * @param fromEnvironment path texts of values that are an environment variable's text and nothing else
 */
export function prepare(schema: v.GenericSchema, value: unknown, fromEnvironment: ReadonlySet<string>): Prepared {
  const faults: ShapeFault[] = [];
  const everywhere = keyPaths(schema);
  const walk = (at: v.GenericSchema, held: unknown, path: KeyPath): unknown => {
    const inner = unwrapped(at);
    if (Array.isArray(held) && ('entries' in inner || inner.type === 'record')) {
      // valibot would take the list for a map with the keys 0, 1, 2.
      faults.push({ path, message: 'must be a map of keys, not a list', part: 'value' });
      return {};
    }
    if ('entries' in inner && isMap(held)) return walkMap(inner.entries as Entries, held, path);
    if (inner.type === 'record' && isMap(held)) return walkRecord(inner, held, path);
    if ('item' in inner && Array.isArray(held)) {
      return held.map((item, index) => walk(inner.item as v.GenericSchema, item, [...path, index]));
    }
    return fromEnvironment.has(pathText(path)) ? converted(inner.type, held) : held;
  };
  const walkMap = (entries: Entries, held: Readonly<Record<string, unknown>>, path: KeyPath) => {
    const kept: Record<string, unknown> = {};
    for (const [key, item] of Object.entries(held)) {
      const known = Object.hasOwn(entries, key) ? entries[key] : undefined;
      if (known !== undefined) kept[key] = walk(known, item, [...path, key]);
      else faults.push({ path: [...path, key], message: advice(key, Object.keys(entries), everywhere), part: 'key' });
    }
    return kept;
  };
  /** valibot drops these three in silence. */
  const walkRecord = (inner: v.GenericSchema, held: Readonly<Record<string, unknown>>, path: KeyPath) => {
    const allowed = Object.entries(held).filter(([key]) => {
      const bad = ['__proto__', 'prototype', 'constructor'].includes(key);
      if (bad) faults.push({ path: [...path, key], message: 'this name can not be used', part: 'key' });
      return !bad;
    });
    if (!('value' in inner)) return Object.fromEntries(allowed);
    const each = inner.value as v.GenericSchema;
    return Object.fromEntries(allowed.map(([key, item]) => [key, walk(each, item, [...path, key])]));
  };
  return { value: walk(schema, value, []), faults };
}

/** Every key of the schema, as written in problems (`backends[].url`). */
export function keyPaths(schema: v.GenericSchema, prefix = ''): readonly string[] {
  const inner = unwrapped(schema);
  if ('entries' in inner) {
    return Object.entries(inner.entries as Entries).flatMap(([key, entry]) => {
      const path = prefix === '' ? key : `${prefix}.${key}`;
      return [path, ...keyPaths(entry, path)];
    });
  }
  return 'item' in inner ? keyPaths(inner.item as v.GenericSchema, `${prefix}[]`) : [];
}

type Entries = Readonly<Record<string, v.GenericSchema>>;

/** Inside `optional`, `nullish` …; a piped schema shows its first one's fields itself. */
function unwrapped(schema: v.GenericSchema): v.GenericSchema {
  return 'wrapped' in schema ? unwrapped(schema.wrapped as v.GenericSchema) : schema;
}

function isMap(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function converted(type: string, held: unknown): unknown {
  if (typeof held !== 'string') return held;
  if (type === 'number' && /^\d+(\.\d+)?$/.test(held)) return Number(held);
  if (type === 'boolean' && (held === 'true' || held === 'false')) return held === 'true';
  return held;
}

/** `ttft` is meant as `ttftMs`, `price` as `pricePerHour`. */
function longerThan(key: string, siblings: readonly string[]): string | undefined {
  const begun = bare(key);
  if (begun.length < 3) return undefined;
  return siblings.filter((word) => bare(word).startsWith(begun)).toSorted((a, b) => a.length - b.length)[0];
}

function advice(key: string, siblings: readonly string[], everywhere: readonly string[]): string {
  const near = nearest(key, siblings) ?? longerThan(key, siblings);
  if (near !== undefined) return `unknown key; did you mean "${near}"?`;
  const elsewhere = everywhere.find(
    (path) => bare(path.slice(path.lastIndexOf('.') + 1)) === bare(key) && bare(key) !== '',
  );
  if (elsewhere !== undefined) return `unknown key here; it stands at ${elsewhere}`;
  return `unknown key "${shownKey(key)}"; known here: ${siblings.join(', ')}`;
}
