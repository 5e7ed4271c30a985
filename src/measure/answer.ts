/**
 * An answer that isn't streamed: counts, finish reasons, names and errors of one JSON object, read as it arrives and
 * without keeping its text. Knows all dialects' spellings at once, since their keys don't collide.
 */
import { createJsonScan, type JsonScan } from '../platform/json-scan.ts';
import { readError } from './dialect/error.ts';
import {
  countAt,
  isObject,
  objectAt,
  textAt,
  type EventFacts,
  type Finish,
  type JsonObject,
  type Usage,
} from './dialect/facts.ts';
import { readCounts } from './dialect/llama-native.ts';
import { readOllamaCounts, readOllamaTimes } from './dialect/ollama.ts';
import { maxChoices } from './dialect/openai.ts';
import { readEngineTimes, readTimings, readUsage } from './dialect/usage.ts';

/** Keys of small values: names, reasons, numbers. */
const smallKeys = [
  'id',
  'model',
  'object',
  'type',
  'status',
  'code',
  'error_type',
  'stop_reason',
  'stop_type',
  'done_reason',
  'tokens_predicted',
  'tokens_evaluated',
  'eval_count',
  'prompt_eval_count',
  'prompt_eval_duration',
];
const smallBytes = 1024;
const largeKeys = ['usage', 'timings', 'metrics', 'choices', 'error', 'message', 'incomplete_details'];

export interface AnswerReading {
  push(chunk: Buffer): void;
  /** The body is over. @returns undefined when it was no JSON object */
  end(): AnswerFacts | undefined;
}

export interface AnswerFacts {
  readonly facts: EventFacts;
  /** Choices in the answer; 1 where the dialect has none. */
  readonly choices: number;
}

/** One map for each bound, so one in a process: a scan prepares its keys once per map. */
const keysByBound = new Map<number, ReadonlyMap<string, number>>();

function keysFor(maxValueBytes: number): ReadonlyMap<string, number> {
  const known = keysByBound.get(maxValueBytes);
  if (known !== undefined) return known;
  const keys = new Map<string, number>();
  for (const key of smallKeys) keys.set(key, smallBytes);
  for (const key of largeKeys) keys.set(key, maxValueBytes);
  keysByBound.set(maxValueBytes, keys);
  return keys;
}

/** @param maxValueBytes longest value that is kept of `choices`, usage and the like */
export function createAnswerReading(maxValueBytes: number): AnswerReading {
  return new Reading(maxValueBytes);
}

/**
 * Most answers are short and come in one piece: for those V8's own parser takes a third of the scan's time. It must tell
 * the same story, so it takes none in which a value could be longer than its bound.
 */
const wholeBytes = 16 * 1024;
/** A text of so many characters has at most `smallBytes` as it was written. */
const surelySmallChars = Math.floor(smallBytes / 6) - 1;

class Reading implements AnswerReading {
  readonly #maxValueBytes: number;
  /** The first piece was an object by itself. */
  #whole: JsonObject | undefined;
  #scan: JsonScan | undefined;
  #unreadable = false;

  constructor(maxValueBytes: number) {
    this.#maxValueBytes = maxValueBytes;
  }

  push(chunk: Buffer): void {
    if (this.#whole !== undefined) {
      if (!isBlank(chunk)) this.#unreadable = true;
      return;
    }
    if (this.#scan === undefined && chunk.length <= Math.min(wholeBytes, this.#maxValueBytes)) {
      this.#whole = parseWhole(chunk, keysFor(this.#maxValueBytes));
      if (this.#whole !== undefined) return;
    }
    this.#scan ??= createJsonScan({ keys: keysFor(this.#maxValueBytes) });
    this.#scan.push(chunk);
  }

  end(): AnswerFacts | undefined {
    if (this.#unreadable) return undefined;
    const whole = this.#whole;
    if (whole !== undefined) {
      const { choices } = whole;
      return { facts: readAnswer(whole), choices: Array.isArray(choices) ? choices.length : 1 };
    }
    const scanned = this.#scan?.end();
    if (scanned?.readable !== true) return undefined;
    const json: Record<string, unknown> = {};
    for (const [key, field] of scanned.fields) {
      const value = field.value === undefined ? undefined : parseValue(field.value);
      if (value !== undefined) json[key] = value;
    }
    return { facts: readAnswer(json), choices: scanned.fields.get('choices')?.elements?.count ?? 1 };
  }
}

/** @returns the wanted members; undefined when the piece is no JSON object by itself, or the scan might see it otherwise */
function parseWhole(chunk: Buffer, keys: ReadonlyMap<string, number>): JsonObject | undefined {
  let last = chunk.length - 1;
  if (chunk[0] !== 0x7b) return undefined;
  while (last > 0 && isSpace(chunk[last])) last -= 1;
  if (chunk[last] !== 0x7d) return undefined;
  const json = parseValue(chunk);
  if (!isObject(json)) return undefined;
  const wanted: Record<string, unknown> = {};
  for (const key in json) {
    const bound = keys.get(key);
    if (bound === undefined) continue;
    if (chunk.length > bound && !isSurelySmall(json[key])) return undefined;
    wanted[key] = json[key];
  }
  return wanted;
}

function isSurelySmall(value: unknown): boolean {
  if (typeof value === 'string') return value.length <= surelySmallChars;
  return typeof value === 'number' || typeof value === 'boolean' || value === null;
}

function isBlank(chunk: Buffer): boolean {
  return chunk.every(isSpace);
}

function isSpace(byte: number | undefined): boolean {
  return byte === 0x20 || byte === 0x0a || byte === 0x0d || byte === 0x09;
}

function parseValue(value: Buffer): unknown {
  try {
    return JSON.parse(value.toString('utf8'));
  } catch {
    return undefined; // the scan tolerates what a strict parser doesn't: then the value is unknown
  }
}

function readAnswer(json: JsonObject): EventFacts {
  const usage = objectAt(json, 'usage');
  const timings = objectAt(json, 'timings');
  const metrics = objectAt(json, 'metrics');
  const native: Usage = usage === undefined ? { ...readCounts(json), ...readOllamaCounts(json) } : {};
  const isNative = native.prompt !== undefined || native.output !== undefined;
  const engineTimes = metrics === undefined ? readOllamaTimes(json) : readEngineTimes(metrics);
  const error = readError(json, '');
  const responseId = textAt(json, 'id');
  const responseModel = textAt(json, 'model');
  const facts: { -readonly [key in keyof EventFacts]: EventFacts[key] } = {
    flags: 0,
    deltas: [],
    roles: [],
    finishes: readFinishes(json),
    native: isNative,
    choice: 0,
  };
  if (usage !== undefined) facts.usage = readUsage(usage);
  else if (isNative) facts.usage = native;
  if (timings !== undefined) facts.timings = readTimings(timings);
  if (engineTimes !== undefined) facts.engineTimes = engineTimes;
  if (error !== undefined) facts.error = error;
  if (responseId !== undefined) facts.responseId = responseId;
  if (responseModel !== undefined) facts.responseModel = responseModel;
  return facts;
}

function readFinishes(json: JsonObject): Finish[] {
  if (Array.isArray(json.choices)) {
    const finishes: Finish[] = [];
    let i = 0;
    for (const choice of json.choices as readonly unknown[]) {
      if (!isObject(choice)) continue;
      const reason = textAt(choice, 'finish_reason');
      if (reason !== undefined)
        finishes.push({ choice: Math.min(countAt(choice, 'index') ?? i, maxChoices - 1), reason });
      i += 1;
    }
    return finishes;
  }
  const details = objectAt(json, 'incomplete_details');
  const reason =
    (details && textAt(details, 'reason')) ??
    (json.object === 'response' ? textAt(json, 'status') : undefined) ??
    textAt(json, 'stop_reason') ??
    textAt(json, 'stop_type') ??
    textAt(json, 'done_reason');
  return reason === undefined ? [] : [{ choice: 0, reason }];
}
