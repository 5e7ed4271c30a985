/**
 * Reads fields of JSON that somebody else wrote: whatever is missing or of another type is undefined, never a throw
 * and never a made-up zero.
 */

export type JsonObject = Readonly<Record<string, unknown>>;

/** The object that the text holds; undefined if it isn't JSON or no object. */
export function objectIn(text: string): JsonObject | undefined {
  return asObject(parse(text));
}

/** The array that the text holds; undefined if it isn't JSON or no array. */
export function listIn(text: string): readonly unknown[] | undefined {
  const value = parse(text);
  return Array.isArray(value) ? value : undefined;
}

export function asObject(value: unknown): JsonObject | undefined {
  // A parsed JSON value that is neither null nor an array is a plain object with string keys.
  return typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as JsonObject) : undefined;
}

export function textOf(object: JsonObject | undefined, key: string): string | undefined {
  const value = object?.[key];
  return typeof value === 'string' && value !== '' ? value : undefined;
}

/** A whole number above zero: all counts and sizes that engines report are useless at 0 or below. */
export function countOf(object: JsonObject | undefined, key: string): number | undefined {
  const value = object?.[key];
  return typeof value === 'number' && Number.isSafeInteger(value) && value > 0 ? value : undefined;
}

export function flagOf(object: JsonObject | undefined, key: string): boolean | undefined {
  const value = object?.[key];
  return typeof value === 'boolean' ? value : undefined;
}

export function listOf(object: JsonObject | undefined, key: string): readonly unknown[] | undefined {
  const value = object?.[key];
  return Array.isArray(value) ? value : undefined;
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    // Not JSON is an ordinary answer here: the caller sees undefined.
    return undefined;
  }
}
