/**
 * From what an engine told to the record's token counts: which numbers are summed, which replace each other, where each
 * came from. Two sources of one number are never added (C043), running totals neither (C035).
 */
import type { Engine } from '../domain/names.ts';
import type { Count, CountSource, TokenCounts } from '../domain/record.ts';
import type { ChoiceTrack } from './choices.ts';
import type { EventFacts, Usage } from './dialect/facts.ts';

/** Counts of the whole answer, as far as the engine gave such. */
export interface TotalCounts {
  prompt: number | undefined;
  output: number | undefined;
  reasoning: number | undefined;
  cached: number | undefined;
  native: boolean;
  early: EventFacts['early'];
}

export function createTotalCounts(): TotalCounts {
  return {
    prompt: undefined,
    output: undefined,
    reasoning: undefined,
    cached: undefined,
    native: false,
    early: undefined,
  };
}

/** Later and larger wins: totals are cumulative, and a late event may know less than an early one. */
function larger(a: number | undefined, b: number | undefined): number | undefined {
  if (a === undefined || b === undefined) return a ?? b;
  return Math.max(a, b);
}

interface Counted {
  prompt: number | undefined;
  output: number | undefined;
  reasoning: number | undefined;
  cached: number | undefined;
}

function raise(to: Counted, usage: Usage): void {
  // Ollama fills in zeros until it knows: nothing was told yet.
  if (usage.prompt === 0 && usage.output === 0) return;
  to.prompt = larger(to.prompt, usage.prompt);
  to.output = larger(to.output, usage.output);
  to.reasoning = larger(to.reasoning, usage.reasoning);
  to.cached = larger(to.cached, usage.cached);
}

/**
 * Books the counts of one event.
 * llama-server counts each choice apart, also in a chunk without choices, which then speaks of the choice that finished
 * last (R18). vLLM's running usage is per choice where the chunk has one, its last chunk is the sum (R19). Any other
 * engine's usage is taken for the whole.
 * @param of the choice that the event speaks of
 */
export function bookCounts(totals: TotalCounts, of: ChoiceTrack, facts: EventFacts, engine: Engine | undefined): void {
  const { usage, timings, early } = facts;
  if (facts.native === true && usage !== undefined) totals.native = true;
  if (early !== undefined) totals.early = early;
  if (usage !== undefined) {
    const perChoice =
      timings !== undefined || engine === 'llama-server' || (engine === 'vllm' && facts.choice !== undefined);
    raise(perChoice ? of : totals, usage);
  }
  if (timings !== undefined) {
    of.timedCached = larger(of.timedCached, timings.cached);
    of.timedPromptNew = larger(of.timedPromptNew, timings.promptNew);
    of.timedOutput = larger(of.timedOutput, timings.predicted);
    of.timedPromptMs = larger(of.timedPromptMs, timings.promptMs);
  }
}

export interface CountInput {
  readonly totals: TotalCounts;
  readonly choices: readonly ChoiceTrack[];
  readonly engine: Engine | undefined;
  /** `n` of the request: choice index / n is the number of the prompt in a list of prompts. */
  readonly choicesAsked: number;
  readonly streamed: boolean;
  /** Answer that isn't streamed: how many choices it held. */
  readonly choicesAnswered: number;
}

/** @returns the record's counts; what no engine told is absent, what only events told is marked as an estimate */
export function countTokens(input: CountInput): TokenCounts {
  const { totals, choices, engine } = input;
  const source: CountSource = totals.native ? 'native' : 'usage';
  const prompt = promptCount(input, source);
  const output = outputCount(input, source);
  const reasoning = count(totals.reasoning ?? sumOf(choices, (choice) => choice.reasoning), source);
  const cached = severalPrompts(input) && engine === 'vllm' ? undefined : partOf(prompt, cachedCount(input, source));
  const counts: { -readonly [key in keyof TokenCounts]: TokenCounts[key] } = {};
  if (prompt !== undefined) counts.prompt = prompt;
  if (output !== undefined) counts.output = output;
  if (reasoning !== undefined) counts.reasoning = reasoning;
  if (cached !== undefined) counts.cached = cached;
  return counts;
}

/** More of a prompt than there is of it can't be cached: some engines sum it over the choices (C157). It is noted. */
function partOf(prompt: Count | undefined, cached: Count | undefined): Count | undefined {
  if (prompt === undefined || cached === undefined || cached.value <= prompt.value) return cached;
  return { value: prompt.value, source: cached.source };
}

/** The engine told of more cached tokens than the prompt has. */
export function isCachedClamped(input: CountInput, { prompt, cached }: TokenCounts): boolean {
  if (prompt === undefined || cached === undefined) return false;
  return (cachedCount(input, cached.source)?.value ?? 0) > prompt.value;
}

function promptCount(input: CountInput, source: CountSource): Count | undefined {
  const { totals, choices } = input;
  const told = totals.prompt ?? sumOverPrompts(input, (choice) => choice.prompt);
  if (told !== undefined) return count(told, source);
  const timed = sumOverPrompts(input, (choice) =>
    choice.timedPromptNew === undefined ? undefined : choice.timedPromptNew + (choice.timedCached ?? 0),
  );
  if (timed !== undefined && choices.length > 0) return count(timed, 'timings');
  return count(totals.early?.prompt, totals.early?.native === true ? 'native' : 'events_ids');
}

function cachedCount(input: CountInput, source: CountSource): Count | undefined {
  const told = input.totals.cached ?? sumOverPrompts(input, (choice) => choice.cached);
  if (told !== undefined) return count(told, source);
  const timed = sumOverPrompts(input, (choice) => choice.timedCached);
  if (timed !== undefined) return count(timed, 'timings');
  return count(input.totals.early?.cached, 'native');
}

function outputCount(input: CountInput, source: CountSource): Count | undefined {
  const { totals, choices, engine } = input;
  // Not streamed and n > 1, llama-server counts one choice only (backends.md B4): half a truth is no count.
  if (!input.streamed && input.choicesAnswered > 1 && engine === 'llama-server') return undefined;
  const told = totals.output ?? sumOf(choices, (choice) => choice.output);
  if (told !== undefined) return count(told, source);
  const timed = sumOf(choices, (choice) => choice.timedOutput);
  if (timed !== undefined) return count(timed, 'timings');
  const withEvents = choices.filter((choice) => choice.events > 0);
  if (withEvents.length === 0) return undefined;
  if (withEvents.every((choice) => choice.allTold)) {
    return count(
      sumOf(withEvents, (choice) => choice.toldTokens),
      'events_ids',
    );
  }
  return count(
    sumOf(withEvents, (choice) => choice.events),
    'events_estimate',
  );
}

function count(value: number | undefined, source: CountSource): Count | undefined {
  return value === undefined ? undefined : { value, source };
}

/** Sum over the choices that have the number; undefined when none has. */
function sumOf(choices: readonly ChoiceTrack[], pick: (choice: ChoiceTrack) => number | undefined): number | undefined {
  let sum: number | undefined;
  for (const choice of choices) {
    const value = pick(choice);
    if (value !== undefined) sum = (sum ?? 0) + value;
  }
  return sum;
}

function promptIndex(input: CountInput, choice: ChoiceTrack): number {
  return Math.floor(choice.index / Math.max(1, input.choicesAsked));
}

function severalPrompts(input: CountInput): boolean {
  return input.choices.some((choice) => promptIndex(input, choice) > 0);
}

/** Choices of one prompt share it: it counts once (C039). A list of prompts is summed. */
function sumOverPrompts(input: CountInput, pick: (choice: ChoiceTrack) => number | undefined): number | undefined {
  const [only] = input.choices;
  if (only !== undefined && input.choices.length === 1) return pick(only);
  const largest = new Map<number, number>();
  for (const choice of input.choices) {
    const value = pick(choice);
    const prompt = promptIndex(input, choice);
    if (value !== undefined) largest.set(prompt, Math.max(value, largest.get(prompt) ?? 0));
  }
  if (largest.size === 0) return undefined;
  return [...largest.values()].reduce((sum, value) => sum + value, 0);
}
