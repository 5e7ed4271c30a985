/**
 * What chat and text completions have in common: choices with finish reasons, usage, timings. Pure.
 */
import { EventFlag } from '../../domain/tap.ts';
import {
  compact,
  countAt,
  isObject,
  objectAt,
  textAt,
  type Delta,
  type DialectContext,
  type EventFacts,
  type Finish,
  type JsonObject,
} from './facts.ts';
import { readEngineTimes, readTimings, readUsage } from './usage.ts';

/** Choices past this are read as this one: a record's tables stay bounded. */
export const maxChoices = 1024;

export interface ChoiceFacts {
  readonly delta?: Omit<Delta, 'choice'>;
  readonly role: boolean;
}

/** @param readChoice says what one choice carries */
export function readChunk(
  json: JsonObject,
  context: DialectContext,
  readChoice: (choice: JsonObject, context: DialectContext) => ChoiceFacts,
): EventFacts {
  const choices = Array.isArray(json.choices) ? json.choices.filter(isObject) : [];
  const progress = objectAt(json, 'prompt_progress');
  const deltas: Delta[] = [];
  const roles: number[] = [];
  const finishes: Finish[] = [];
  for (const choice of choices) {
    const index = Math.min(countAt(choice, 'index') ?? 0, maxChoices - 1);
    const found = readChoice(choice, context);
    if (found.delta !== undefined) deltas.push({ choice: index, ...found.delta });
    else if (found.role && progress === undefined) roles.push(index);
    const reason = textAt(choice, 'finish_reason');
    if (reason !== undefined) finishes.push({ choice: index, reason });
  }
  const usage = objectAt(json, 'usage');
  const timings = objectAt(json, 'timings');
  const metrics = objectAt(json, 'metrics');
  const only = choices.length === 1 ? Math.min(countAt(choices[0], 'index') ?? 0, maxChoices - 1) : undefined;
  const usageFacts = usage === undefined ? undefined : readUsage(usage);
  const timingsFacts = timings === undefined ? undefined : readTimings(timings);
  const usageOnly = usage !== undefined && Array.isArray(json.choices) && json.choices.length === 0;
  let flags = 0;
  if (deltas.length > 0) flags |= EventFlag.token;
  if (finishes.length > 0) flags |= EventFlag.finish;
  if (usageOnly) flags |= EventFlag.usageOnly;
  if (flags === 0) flags = EventFlag.sign;
  return compact<EventFacts>({
    flags,
    deltas,
    roles,
    finishes,
    usage: usageFacts,
    timings: timingsFacts,
    choice: only,
    outputSoFar: only === undefined ? undefined : (usageFacts?.output ?? timingsFacts?.predicted),
    early: readEarly(json, progress),
    engineTimes: metrics === undefined ? undefined : readEngineTimes(metrics),
    responseId: textAt(json, 'id'),
    responseModel: textAt(json, 'model'),
  });
}

/** Token ids of one choice, where the wire tells them. */
export function idsOf(choice: JsonObject): number {
  return Array.isArray(choice.token_ids) ? choice.token_ids.length : 0;
}

export function readProgress(progress: JsonObject): EventFacts['early'] {
  const prompt = countAt(progress, 'total');
  const cached = countAt(progress, 'cache');
  if (prompt === undefined) return undefined;
  return { prompt, native: true, ...(cached === undefined ? {} : { cached }) };
}

function readEarly(json: JsonObject, progress: JsonObject | undefined): EventFacts['early'] {
  if (progress !== undefined) return readProgress(progress);
  if (!Array.isArray(json.prompt_token_ids)) return undefined;
  return { prompt: json.prompt_token_ids.length, native: false };
}
