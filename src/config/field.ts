/**
 * The kinds of values that a key may hold, each with the one sentence said about a wrong value.
 * Schemas only; `schema.ts` puts them together.
 */
import * as v from 'valibot';

import { parseBackendUrl, parseListen } from './address.ts';

/** Longest delay that a Node timer takes. */
const longestTimerMs = 2 ** 31 - 1;

interface Range {
  readonly unit: string;
  readonly min: number;
  readonly max: number;
  /** What 0 means, where it is allowed and means something of its own. */
  readonly zero?: string;
}

export function wholeNumber(range: Range, says: string) {
  const from = range.min === 0 && range.zero !== undefined ? `0 (${range.zero})` : String(range.min);
  const message = `must be a whole number of ${range.unit} from ${from} to ${range.max}`;
  return v.pipe(
    v.number(message),
    v.integer(message),
    v.minValue(range.min, message),
    v.maxValue(range.max, message),
    v.description(says),
  );
}

/** Milliseconds for a timer; at least `minMs`. */
export function milliseconds(minMs: number, says: string) {
  return wholeNumber({ unit: 'milliseconds', min: minMs, max: longestTimerMs }, says);
}

/** Milliseconds for a timer, or 0, whose meaning is given. */
export function millisecondsOr(zero: string, says: string) {
  return wholeNumber({ unit: 'milliseconds', min: 0, max: longestTimerMs, zero }, says);
}

export function bytes(min: number, max: number, says: string) {
  return wholeNumber({ unit: 'bytes', min, max }, says);
}

/** A fraction above 0 and up to 1. */
export function share(says: string) {
  const message = 'must be a number above 0 and up to 1';
  return v.pipe(v.number(message), v.gtValue(0, message), v.maxValue(1, message), v.description(says));
}

/** Any number above 0. */
export function positive(unit: string, max: number, says: string) {
  const message = `must be a number of ${unit} above 0 and up to ${max}`;
  return v.pipe(v.number(message), v.gtValue(0, message), v.maxValue(max, message), v.description(says));
}

export function flag(says: string) {
  return v.pipe(v.boolean('must be true or false'), v.description(says));
}

export function oneOf<const Words extends readonly string[]>(words: Words, says: string) {
  return v.pipe(v.picklist(words, `must be one of ${words.join(', ')}`), v.description(says));
}

export function text(maxLength: number, says: string) {
  const message = `must be a text of 1 to ${maxLength} characters`;
  return v.pipe(v.string(message), v.nonEmpty(message), v.maxLength(maxLength, message), v.description(says));
}

/** A short name for logs, metrics and headers. */
export function label(says: string) {
  const message = 'must be 1 to 64 letters, digits or . _ : [ ] -';
  return v.pipe(v.string(message), v.regex(/^[A-Za-z0-9._:[\]-]{1,64}$/, message), v.description(says));
}

/** @param example of one, for whoever wrote something else */
export function headerName(example: string, says: string) {
  const message = `must be a header's name of 1 to 64 characters, such as ${example}`;
  return v.pipe(v.string(message), v.regex(/^[A-Za-z0-9!#$%&'*+.^_`|~-]{1,64}$/, message), v.description(says));
}

/** What may stand in a header after `Bearer`. */
export function bearerKey(says: string) {
  const message = 'must be printable ASCII without blanks or line ends';
  return v.pipe(v.string(message), v.regex(/^[\x21-\x7e]{1,4096}$/, message), v.description(says));
}

export function listenAddress(says: string) {
  return v.pipe(
    v.union([v.string(), v.number()], 'must be an address such as 127.0.0.1:8484'),
    v.description(says),
    v.rawTransform(({ dataset, addIssue, NEVER }) => {
      const parsed = parseListen(dataset.value);
      if (parsed.ok) return parsed.value;
      addIssue({ message: parsed.message });
      return NEVER;
    }),
  );
}

export function backendUrl(says: string) {
  return v.pipe(
    v.string('must be a URL such as http://127.0.0.1:8000'),
    v.description(says),
    v.rawTransform(({ dataset, addIssue, NEVER }) => {
      const parsed = parseBackendUrl(dataset.value);
      if (parsed.ok) return parsed.value;
      addIssue({ message: parsed.message });
      return NEVER;
    }),
  );
}

/** As browsers send it (RFC 6454, section 6): lower case, no path. */
export function webOrigin(says: string) {
  const message = 'must be * or an origin as browsers send it, such as https://app.example or http://localhost:3000';
  return v.pipe(v.string(message), v.regex(/^(\*|[a-z][a-z0-9+.-]*:\/\/[^\s/?#@A-Z]+)$/, message), v.description(says));
}

export function list<Item extends v.GenericSchema>(item: Item, maxItems: number, says: string) {
  return v.pipe(
    v.array(item, 'must be a list (- item, or [item, item])'),
    v.maxLength(maxItems, `must hold at most ${maxItems} items`),
    v.description(says),
  );
}

/** A map of named keys; any other key is a problem. @param insteadOf the sentence about what stands there instead */
export function section<const Entries extends v.ObjectEntries>(
  entries: Entries,
  says: string,
  insteadOf: (found: unknown) => string | undefined = () => undefined,
) {
  return v.pipe(
    v.strictObject(entries, ({ input }) => insteadOf(input) ?? `must be a map of keys${switched(entries, input)}`),
    v.description(says),
  );
}

/** A flag in place of a section that has a switch among its keys. */
function switched(entries: v.ObjectEntries, found: unknown): string {
  return typeof found === 'boolean' && Object.hasOwn(entries, 'enabled') ? `; write { enabled: ${found} }` : '';
}

/** @returns for `section`: what to write where a text stands in its place that belongs to one of its keys */
export function belongsTo(key: string): (found: unknown) => string | undefined {
  return (found) => (typeof found === 'string' ? `must be a map of keys; write { ${key}: … }` : undefined);
}
