/**
 * Reads fields of a client's JSON without trusting it: each reader gives the value when it has the wanted shape, else the
 * fallback. Absent, null and of another type are alike here; where a server tells them apart, its dialect does.
 */

export type JsonObject = Readonly<Record<string, unknown>>;

export function isJsonObject(value: unknown): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

export function readNumber(body: JsonObject, key: string): number | undefined {
  const value = body[key];
  return typeof value === 'number' && Number.isFinite(value) ? value : undefined;
}

export function readString(body: JsonObject, key: string): string | undefined {
  const value = body[key];
  return typeof value === 'string' ? value : undefined;
}

/** True only for a literal true. */
export function readFlag(body: JsonObject, key: string): boolean {
  return body[key] === true;
}

export function readObject(body: JsonObject, key: string): JsonObject {
  const value = body[key];
  return isJsonObject(value) ? value : {};
}

/** A string, or a list of strings, as a list. */
export function readStrings(body: JsonObject, key: string): readonly string[] {
  const value = body[key];
  if (typeof value === 'string') return [value];
  return Array.isArray(value) ? value.filter((entry): entry is string => typeof entry === 'string') : [];
}

/** A list of whole numbers, or undefined. */
export function readIds(value: unknown): readonly number[] | undefined {
  return isIdList(value) ? value : undefined;
}

function isIdList(value: unknown): value is number[] {
  return Array.isArray(value) && value.length > 0 && value.every((id) => Number.isInteger(id));
}
