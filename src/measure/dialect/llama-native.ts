/**
 * llama-server's own completion and infill: one event → facts. Pure; never throws. `tokens_evaluated` is the whole prompt;
 * `tokens_cached` is what the slot holds afterwards, so cache hits are `timings.cache_n`. Progress events carry `tokens: [0]`.
 */
import { EventFlag } from '../../domain/tap.ts';
import { compact, countAt, objectAt, textAt, type EventFacts, type JsonObject, type Usage } from './facts.ts';
import { maxChoices, readProgress } from './openai.ts';
import { readTimings } from './usage.ts';

export function readLlamaNative(json: JsonObject): EventFacts {
  const choice = Math.min(countAt(json, 'index') ?? 0, maxChoices - 1);
  const progress = objectAt(json, 'prompt_progress');
  const timings = objectAt(json, 'timings');
  const ids = Array.isArray(json.tokens) ? json.tokens.length : 0;
  const isToken = progress === undefined && (ids > 0 || textAt(json, 'content') !== undefined);
  // With `response_fields` the last event holds only what was asked for; every other event says `stop: false`.
  const isLast = json.stop === true || (json.stop === undefined && progress === undefined);
  const predicted = countAt(json, 'tokens_predicted');
  let flags = 0;
  if (isToken) flags |= EventFlag.token;
  if (isLast) flags |= EventFlag.finish | EventFlag.done;
  return compact<EventFacts>({
    flags: flags === 0 ? EventFlag.sign : flags,
    deltas: isToken ? [{ choice, kind: 'text' }] : [],
    roles: [],
    finishes: isLast ? [{ choice, reason: textAt(json, 'stop_type') ?? 'stop' }] : [],
    usage: isLast ? readCounts(json) : undefined,
    native: true,
    timings: timings && readTimings(timings),
    choice,
    outputSoFar: predicted,
    early: progress === undefined ? undefined : readProgress(progress),
    responseModel: textAt(json, 'model'),
  });
}

/** Counts of the last event, also of an answer that isn't streamed. */
export function readCounts(json: JsonObject): Usage {
  return compact<Usage>({ prompt: countAt(json, 'tokens_evaluated'), output: countAt(json, 'tokens_predicted') });
}
