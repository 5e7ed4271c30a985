/**
 * Ollama's own chat and generate: one line of JSON → facts. Pure; never throws. Durations are nanoseconds; a count of
 * zero is left out on the wire, and then it is unknown here.
 */
import { EventFlag } from '../../domain/tap.ts';
import {
  compact,
  countAt,
  durationAt,
  objectAt,
  textAt,
  type DeltaKind,
  type EngineTimes,
  type EventFacts,
  type JsonObject,
  type Usage,
} from './facts.ts';

const nsPerMs = 1_000_000;

export function readOllama(json: JsonObject): EventFacts {
  const message = objectAt(json, 'message') ?? json;
  const kind = kindOf(message);
  const done = json.done === true;
  let flags = 0;
  if (kind !== undefined) flags |= EventFlag.token;
  if (done) flags |= EventFlag.finish | EventFlag.done;
  return compact<EventFacts>({
    flags: flags === 0 ? EventFlag.sign : flags,
    deltas: kind === undefined ? [] : [{ choice: 0, kind }],
    roles: [],
    finishes: done ? [{ choice: 0, reason: textAt(json, 'done_reason') ?? 'stop' }] : [],
    usage: done ? readOllamaCounts(json) : undefined,
    native: true,
    engineTimes: done ? readOllamaTimes(json) : undefined,
    responseModel: textAt(json, 'model'),
  });
}

export function readOllamaCounts(json: JsonObject): Usage {
  return compact<Usage>({ prompt: countAt(json, 'prompt_eval_count'), output: countAt(json, 'eval_count') });
}

export function readOllamaTimes(json: JsonObject): EngineTimes | undefined {
  const prefillNs = durationAt(json, 'prompt_eval_duration');
  return prefillNs === undefined ? undefined : { prefillMs: prefillNs / nsPerMs };
}

function kindOf(message: JsonObject): DeltaKind | undefined {
  if (textAt(message, 'content') !== undefined || textAt(message, 'response') !== undefined) return 'text';
  if (Array.isArray(message.tool_calls) && message.tool_calls.length > 0) return 'tool';
  if (textAt(message, 'thinking') !== undefined) return 'reasoning';
  return undefined;
}
