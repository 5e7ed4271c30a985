/**
 * Reads the kept bytes of one scanned value as what it should be, or says that it isn't.
 * For the few small values that `json-scan.ts` keeps; never for a whole body.
 */
import type { JsonField } from './json-scan.ts';

/** The string that the value stands for; undefined when it is none, was not kept, or has a malformed escape. */
export function readJsonString(field: JsonField | undefined): string | undefined {
  if (field?.kind !== 'string' || field.value === undefined) return undefined;
  try {
    const text: unknown = JSON.parse(field.value.toString('utf8'));
    return typeof text === 'string' ? text : undefined;
  } catch {
    return undefined;
  }
}

/** The integer that the value stands for (`16`, `16.0`, `1.6e1`); undefined when it is none or not exact. */
export function readJsonInteger(field: JsonField | undefined): number | undefined {
  if (field?.kind !== 'number' || field.value === undefined) return undefined;
  const number = Number(field.value.toString('latin1'));
  return Number.isSafeInteger(number) ? number : undefined;
}
