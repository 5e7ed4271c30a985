/**
 * JSON as the admin listener writes it: numbers to the microsecond (or thousandth), a newline at the end, and records in
 * pieces, so that a long list of long streams never holds up the streams that run. Knows nothing of routes.
 */
import { setImmediate as turn } from 'node:timers/promises';
import type { RequestRecord, TokenStamps } from '../domain/record.ts';
import type { RouteNote } from '../domain/routing.ts';
import { sliceMs } from '../platform/turns.ts';

/** So many numbers are written in one go: well under a millisecond. */
const sliceNumbers = 4096;

export const jsonHeaders = { 'Content-Type': 'application/json; charset=utf-8' } as const;

/** Blanks for each level: people read these pages. Records, which are many and long, have a line each. */
const blanks = 2;

/** For values without long lists. */
export function adminJson(value: unknown): string {
  return `${plainJson(value, blanks)}\n`;
}

/**
 * The pieces of an object whose lists are long, or are made as they are written, and theirs in turn. The event loop turns
 * whenever a slice of time has passed.
 */
export async function* longJson(value: object): AsyncGenerator<string, void> {
  let text = '';
  let beganMs = performance.now();
  for (const piece of parts(value, listDepth)) {
    text += piece;
    if (performance.now() - beganMs < sliceMs) continue;
    yield text;
    text = '';
    await turn();
    beganMs = performance.now();
  }
  yield `${text}\n`;
}

/** A list of things that have lists. */
const listDepth = 2;

/** @param line what begins a line of the value's own level: a line end and its blanks */
function* parts(value: object, depth: number, line = '\n'): Generator<string, void> {
  const inner = line + ' '.repeat(blanks);
  let before = '{';
  for (const [key, part] of Object.entries(value) as [string, unknown][]) {
    if (part === undefined) continue;
    yield `${before}${inner}${JSON.stringify(key)}: `;
    before = ',';
    if (depth > 0 && isList(part)) yield* listParts(part, depth - 1, inner);
    else yield within(part, inner);
  }
  yield before === '{' ? '{}' : `${line}}`;
}

function* listParts(list: Iterable<unknown>, depth: number, line: string): Generator<string, void> {
  const inner = line + ' '.repeat(blanks);
  let before = '[';
  for (const item of list) {
    yield before + inner;
    before = ',';
    if (depth > 0 && isPlainObject(item)) yield* parts(item, depth, inner);
    else yield within(item ?? null, inner);
  }
  yield before === '[' ? '[]' : `${line}]`;
}

/** Line ends in it are its layout alone: those of a text are escaped. */
function within(part: unknown, line: string): string {
  return plainJson(part, blanks).replaceAll('\n', line);
}

function isList(part: unknown): part is Iterable<unknown> {
  return typeof part === 'object' && part !== null && Symbol.iterator in part;
}

function isPlainObject(item: unknown): item is object {
  return typeof item === 'object' && item !== null && !isList(item);
}

/** The pieces of `{"records":[…]}`. The event loop turns between any two of them, and within a long record. */
export async function* recordsJson(records: readonly RequestRecord[]): AsyncGenerator<string, void> {
  yield '{"records":[';
  for (const [index, record] of records.entries()) {
    await turn();
    yield index > 0 ? ',\n' : '\n';
    yield* pieces(record);
  }
  yield ']}\n';
}

export async function* recordJson(record: RequestRecord): AsyncGenerator<string, void> {
  yield* pieces(record);
  yield '\n';
}

async function* pieces(record: RequestRecord): AsyncGenerator<string, void> {
  const { stamps, itl, ...rest } = record;
  const plain = plainJson({ ...rest, routing: withoutConsidered(rest.routing) });
  // In seconds, as sketches are, and so called; rounded like the rest, it would lose what it holds.
  const text = itl === undefined ? plain : `${plain.slice(0, -1)},"itlSeconds":${JSON.stringify(itl)}}`;
  if (stamps === undefined) {
    yield text;
    return;
  }
  yield `${text.slice(0, -1)},"stamps":{`;
  let first = true;
  for (const name of stampNames) {
    const numbers = stamps[name];
    if (numbers === undefined) continue;
    yield `${first ? '' : ','}"${name}":[`;
    first = false;
    for (let at = 0; at < numbers.length; at += sliceNumbers) {
      if (at > 0) await turn();
      yield (at > 0 ? ',' : '') + joined(numbers, at);
    }
    yield ']';
  }
  yield '}}';
}

/** Who else was considered is told by `/explain`: a list of records must stay readable. */
function withoutConsidered(routing: RouteNote | undefined): RouteNote | undefined {
  if (routing?.considered === undefined) return routing;
  const { considered: _told, ...rest } = routing;
  return rest;
}

const stampNames = ['atMs', 'choice', 'tokens', 'coalesced'] as const satisfies readonly (keyof TokenStamps)[];

function joined(numbers: Float64Array | Uint16Array | Uint8Array, start: number): string {
  const slice = numbers.subarray(start, start + sliceNumbers);
  return (slice instanceof Float64Array ? slice.map(rounded) : slice).join(',');
}

function plainJson(value: unknown, indent = 0): string {
  return JSON.stringify(value, (_key, part: unknown) => (typeof part === 'number' ? rounded(part) : part), indent);
}

function rounded(value: number): number {
  return Math.round(value * 1000) / 1000;
}

/** A stream that writes the next pieces when they are wanted. */
export function streamOf(texts: AsyncGenerator<string, void>): ReadableStream<Uint8Array> {
  const encoder = new TextEncoder();
  return new ReadableStream({
    async pull(controller) {
      const next = await texts.next();
      if (next.done === true) controller.close();
      else controller.enqueue(encoder.encode(next.value));
    },
    async cancel() {
      await texts.return();
    },
  });
}
