/**
 * The fast path: after one plain delta was parsed, a later event with the same bytes around another text is known without
 * parsing. Owns the learning and the proof that a match means the same facts; must never say more than a parse would.
 */
import { EventFlag } from '../../domain/tap.ts';
import { isObject, type EventFacts, type JsonObject } from './facts.ts';

/** Keys whose string value matters in no dialect but for being empty or not. */
const slots = [
  'content',
  'text',
  'reasoning_content',
  'reasoning',
  'thinking',
  'delta',
  'partial_json',
  'response',
].flatMap((key) => [Buffer.from(`"${key}":"`), Buffer.from(`"${key}": "`)]);
/** A longer text is parsed: the check of its bytes is a plain loop. */
const maxTextBytes = 256;
/** Plain deltas that are not learned from: learning takes as long as parsing eight, and the first token must not wait for it. */
const parsedFirst = 1;
/** Up to here bytes are compared in a loop. */
const loopedBytes = 512;
/** Templates kept: choices and reasoning take turns. */
const maxTemplates = 4;

const numberKey = Buffer.from('"sequence_number":');

const zero = 48;
const quote = 34;
const backslash = 92;
const letterU = 117;
/** Which bytes may follow a backslash, apart from `u`. */
const escapes = new Uint8Array(256);
for (const byte of Buffer.from('"\\/bfnrt')) escapes[byte] = 1;

/** The bytes of one event around its text, and around the running number that some dialects put behind it. */
interface Template {
  readonly name: string;
  /** Head, tail and after, one behind the other: one allocation for each stream. */
  readonly bytes: Buffer;
  readonly headBytes: number;
  readonly tailBytes: number;
  /** What follows the number; 0: there is no number, and the tail ends the event. */
  readonly afterBytes: number;
  readonly filled: EventFacts;
  readonly empty: EventFacts;
}

type Read = (json: JsonObject, name: string) => EventFacts;

export interface EventTemplates {
  /** Facts of an event that is a known one with another text; undefined: parse it. */
  match(data: Buffer, start: number, end: number, name: string): EventFacts | undefined;
  /** Learns from an event that was parsed, if it is a plain delta. */
  learn(data: Buffer, start: number, end: number, name: string, facts: EventFacts): void;
}

export function createEventTemplates(read: Read): EventTemplates {
  const templates: Template[] = [];
  let latest = 0;
  /** Events to be parsed before learning is worth trying again: some streams differ in every event. */
  let pause = parsedFirst;
  let learnedSinceMatch = 0;

  return {
    match(data, start, end, name) {
      const first = templates[latest];
      if (first === undefined) return undefined;
      let facts = first.name === name ? matches(first, data, start, end) : undefined;
      for (let i = 0; facts === undefined && i < templates.length; i += 1) {
        const template = templates[i];
        if (template === undefined || template === first || template.name !== name) continue;
        facts = matches(template, data, start, end);
        if (facts !== undefined) latest = i;
      }
      if (facts !== undefined) learnedSinceMatch = 0;
      return facts;
    },
    learn(data, start, end, name, facts) {
      if (!isPlainDelta(facts)) return;
      if (pause > 0) {
        pause -= 1;
        return;
      }
      const template = makeTemplate(data.subarray(start, end), name, facts, read);
      learnedSinceMatch += 1;
      if (learnedSinceMatch > maxTemplates) pause = Math.min(1024, 4 ** (learnedSinceMatch - maxTemplates + 1));
      if (template === undefined) return;
      latest = templates.length < maxTemplates ? templates.length : (latest + 1) % maxTemplates;
      templates[latest] = template;
    },
  };
}

function matches(template: Template, data: Buffer, start: number, end: number): EventFacts | undefined {
  const { bytes, headBytes, tailBytes, afterBytes } = template;
  const textStart = start + headBytes;
  let tailEnd = end;
  if (afterBytes > 0) {
    const numberEnd = end - afterBytes;
    if (numberEnd <= textStart || !same(bytes, headBytes + tailBytes, data, numberEnd, end)) return undefined;
    tailEnd = numberStart(data, textStart, numberEnd);
  }
  const textEnd = tailEnd - tailBytes;
  const textBytes = textEnd - textStart;
  if (textBytes < 0 || textBytes > maxTextBytes || !isPlainString(data, textStart, textEnd)) return undefined;
  if (!same(bytes, headBytes, data, textEnd, tailEnd) || !same(bytes, 0, data, start, textStart)) return undefined;
  return textBytes === 0 ? template.empty : template.filled;
}

/** `[start, end)` of `data` equals as many bytes of `known` from `at` on. What surrounds a token is short: a call costs more. */
function same(known: Buffer, at: number, data: Buffer, start: number, end: number): boolean {
  if (end - start > loopedBytes) return data.compare(known, at, at + end - start, start, end) === 0;
  const shift = at - start;
  for (let i = start; i < end; i += 1) if (data[i] !== known[i + shift]) return false;
  return true;
}

/** @returns where the number that ends at `end` begins; -1 when no valid one does */
function numberStart(data: Buffer, least: number, end: number): number {
  let start = end;
  while (start > least && isDigit(data[start - 1] ?? 0)) start -= 1;
  const digits = end - start;
  if (digits === 0 || digits > 15 || (digits > 1 && data[start] === zero)) return -1;
  return start;
}

function isDigit(byte: number): boolean {
  return byte >= zero && byte <= zero + 9;
}

/** Head and tail around the one text of the event; checked by parsing the event with another text and with none. */
function makeTemplate(event: Buffer, name: string, facts: EventFacts, read: Read): Template | undefined {
  for (const slot of slots) {
    const at = event.indexOf(slot);
    if (at === -1 || event.indexOf(slot, at + 1) !== -1) continue;
    const textStart = at + slot.length;
    const textEnd = stringEnd(event, textStart);
    if (textEnd === -1 || textEnd === textStart) continue;
    const parts = splitAt(event, textStart, textEnd);
    const filled = reread(parts, 'x', name, read);
    const empty = reread(parts, '', name, read);
    if (filled === undefined || empty === undefined) continue;
    if (isPlainDelta(filled) && sameDelta(filled, facts) && (isPlainDelta(empty) || isPlainSign(empty))) {
      const { head, tail, after } = parts;
      const bytes = Buffer.allocUnsafeSlow(head.length + tail.length + after.length);
      after.copy(bytes, head.copy(bytes) + tail.copy(bytes, head.length));
      const sizes = { headBytes: head.length, tailBytes: tail.length, afterBytes: after.length };
      return { name, bytes, ...sizes, filled: { plain: true, ...filled }, empty: { plain: true, ...empty } };
    }
  }
  return undefined;
}

interface Parts {
  readonly head: Buffer;
  readonly tail: Buffer;
  readonly after: Buffer;
}

/** The Responses API numbers its events, vLLM behind the text: that number may be any. */
function splitAt(event: Buffer, textStart: number, textEnd: number): Parts {
  const head = event.subarray(0, textStart);
  const at = event.indexOf(numberKey, textEnd);
  const numberAt = at + numberKey.length;
  let numberEnd = numberAt;
  while (at !== -1 && isDigit(event[numberEnd] ?? 0)) numberEnd += 1;
  if (at === -1 || numberEnd === numberAt)
    return { head, tail: event.subarray(textEnd), after: event.subarray(event.length) };
  return { head, tail: event.subarray(textEnd, numberAt), after: event.subarray(numberEnd) };
}

function reread(parts: Parts, text: string, name: string, read: Read): EventFacts | undefined {
  const { head, tail, after } = parts;
  try {
    const number = after.length === 0 ? '' : '7';
    const bytes = Buffer.concat([head, Buffer.from(text), tail, Buffer.from(number), after]);
    const json: unknown = JSON.parse(bytes.toString('utf8'));
    return isObject(json) ? read(json, name) : undefined;
  } catch {
    return undefined;
  }
}

/** @returns where the JSON string that begins at `start` has its closing quote, or -1 */
function stringEnd(event: Buffer, start: number): number {
  for (let i = start; i < event.length; i += 1) {
    if (event[i] === backslash) i += 1;
    else if (event[i] === quote) return i;
  }
  return -1;
}

/** The bytes are the inside of one valid JSON string: no bare quote, no control character, whole escapes only. */
function isPlainString(data: Buffer, start: number, end: number): boolean {
  for (let i = start; i < end; i += 1) {
    const byte = data[i] ?? 0;
    if (byte === quote || byte < 32) return false;
    if (byte !== backslash) continue;
    i += 1;
    if (i >= end) return false;
    const escaped = data[i] ?? 0;
    if (escaped === letterU) {
      if (i + 4 >= end || !isHex(data, i + 1)) return false;
      i += 4;
    } else if (escapes[escaped] !== 1) return false;
  }
  return true;
}

function isHex(data: Buffer, start: number): boolean {
  for (let i = start; i < start + 4; i += 1) {
    const byte = data[i] ?? 0;
    const letter = (byte | 32) >= 97 && (byte | 32) <= 102;
    if (!isDigit(byte) && !letter) return false;
  }
  return true;
}

/** One token event of one choice and nothing else that a record would want. */
function isPlainDelta(facts: EventFacts): boolean {
  return facts.flags === EventFlag.token && facts.deltas.length === 1 && saysNothingElse(facts);
}

function isPlainSign(facts: EventFacts): boolean {
  return (facts.flags === EventFlag.sign || facts.flags === 0) && facts.deltas.length === 0 && saysNothingElse(facts);
}

function saysNothingElse(facts: EventFacts): boolean {
  return (
    facts.roles.length === 0 &&
    facts.finishes.length === 0 &&
    facts.usage === undefined &&
    facts.timings === undefined &&
    facts.outputSoFar === undefined &&
    facts.early === undefined &&
    facts.engineTimes === undefined &&
    facts.error === undefined &&
    facts.malformed === undefined &&
    facts.next === undefined
  );
}

function sameDelta(a: EventFacts, b: EventFacts): boolean {
  const [first, second] = [a.deltas[0], b.deltas[0]];
  return first?.choice === second?.choice && first?.kind === second?.kind && first?.tokens === second?.tokens;
}
