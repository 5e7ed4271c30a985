/** Fields of one line of a JSON trace, each checked as it is read. What is wrong is a value, never an error. */

export type JsonLine = Readonly<Record<string, unknown>>;

/** @returns undefined when it is no JSON object */
export function parseJsonLine(text: string): JsonLine | undefined {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as JsonLine) : undefined;
  } catch {
    return undefined;
  }
}

/** The longest prompt or answer that is believed: more is a broken line, and would fill the memory. */
const mostTokens = 10_000_000;

/** A whole number of tokens, from `least` on. @returns what is wrong with it */
export function tokensOf(line: JsonLine, name: string, least: number): number | { readonly why: string } {
  const value = line[name];
  if (typeof value === 'number' && Number.isInteger(value) && value >= least && value <= mostTokens) return value;
  return {
    why: value === undefined ? `${name} is missing` : `${name} is no whole number from ${least} to ${mostTokens}`,
  };
}

/** A time that is not negative, in the unit of the trace. */
export function timeOf(line: JsonLine, name: string): number | { readonly why: string } | undefined {
  const value = line[name];
  if (value === undefined || value === null) return undefined;
  if (typeof value === 'number' && value >= 0 && Number.isFinite(value)) return value;
  return { why: `${name} is no time` };
}

export function idsOf(line: JsonLine): readonly number[] | { readonly why: string } | undefined {
  const value = line['hash_ids'];
  if (value === undefined || value === null) return undefined;
  if (Array.isArray(value) && value.every((id): id is number => Number.isSafeInteger(id))) return value;
  return { why: 'hash_ids is no list of whole numbers' };
}

export function nameOf(line: JsonLine, name: string): string | undefined {
  const value = line[name];
  if (typeof value === 'string' && value !== '') return value;
  return typeof value === 'number' ? String(value) : undefined;
}

export function isWrong(value: unknown): value is { readonly why: string } {
  return typeof value === 'object' && value !== null && !Array.isArray(value) && 'why' in value;
}
