/**
 * An answer that isn't streamed: counts, finish reasons, names and errors of one JSON object, read as it arrives and
 * without keeping its text. Knows all dialects' spellings at once, since their keys don't collide.
 */
import { createJsonScan, type JsonScan } from '../platform/json-scan.ts';
import { readError } from './dialect/error.ts';
import {
  compact,
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
  const scan: JsonScan = createJsonScan({ keys: keysFor(maxValueBytes) });
  return {
    push: (chunk) => scan.push(chunk),
    end() {
      const { readable, fields } = scan.end();
      if (!readable) return undefined;
      const json: Record<string, unknown> = {};
      for (const [key, field] of fields) {
        const value = field.value === undefined ? undefined : parseValue(field.value);
        if (value !== undefined) json[key] = value;
      }
      return { facts: readAnswer(json), choices: fields.get('choices')?.elements?.count ?? 1 };
    },
  };
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
  const native: Usage = { ...readCounts(json), ...readOllamaCounts(json) };
  const isNative = usage === undefined && (native.prompt !== undefined || native.output !== undefined);
  return compact<EventFacts>({
    flags: 0,
    deltas: [],
    roles: [],
    finishes: readFinishes(json),
    usage: usage === undefined ? (isNative ? native : undefined) : readUsage(usage),
    native: isNative,
    timings: timings && readTimings(timings),
    choice: 0,
    engineTimes: metrics === undefined ? readOllamaTimes(json) : readEngineTimes(metrics),
    error: readError(json, ''),
    responseId: textAt(json, 'id'),
    responseModel: textAt(json, 'model'),
  });
}

function readFinishes(json: JsonObject): Finish[] {
  if (Array.isArray(json.choices)) {
    return json.choices.filter(isObject).flatMap((choice, i) => {
      const reason = textAt(choice, 'finish_reason');
      return reason === undefined ? [] : [{ choice: Math.min(countAt(choice, 'index') ?? i, maxChoices - 1), reason }];
    });
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
