/**
 * One request's generation, whatever its wire format: prompt text or ids in, text deltas with their times out.
 * Joins tokeniser, canned text and engine; knows no dialect and no socket.
 */
import { createCannedAnswer, type AnswerLength } from './canned-text.ts';
import type { Engine, EngineHandle } from './engine.ts';
import { planOutput, type OutputAsk, type OutputPlan } from './output-plan.ts';
import { tokenPrompt } from './prompt.ts';
import type { Random } from './seeded-random.ts';
import type { SequenceEnd } from './sequence.ts';

export interface GenerationAsk extends OutputAsk {
  /** One prompt or several; each gets `choices` answers, numbered prompt by prompt. */
  readonly prompts: readonly Uint32Array[];
  readonly choices: number;
  /** 0 makes the answer depend on the prompt alone. */
  readonly temperature: number;
  readonly seed?: number;
  readonly priority?: number;
  /** Prompts of different salts share no cache. */
  readonly salt?: string;
}

/** Told of everything in order. `choice` counts over all prompts. */
export interface GenerationSink {
  started?(
    choice: number,
    start: { readonly atMs: number; readonly cachedTokens: number; readonly slot?: number },
  ): void;
  progress?(choice: number, processedTokens: number, atMs: number): boolean;
  /** A token came; the text that it shows is `plan.deltas[index]`. */
  token(choice: number, index: number, atMs: number): void;
  ended(choice: number, end: SequenceEnd): void;
  /** Every choice has ended. */
  done(ends: readonly SequenceEnd[]): void;
}

export interface GenerationDeps {
  readonly engine: Engine;
  readonly answer: AnswerLength;
  /** For answers that are neither seeded nor at temperature 0. */
  readonly random: Random;
}

export interface Generation {
  readonly plans: readonly OutputPlan[];
  abort(): void;
}

/** Plans the answers at once; nothing runs before `start`. */
export function prepareGeneration(
  ask: GenerationAsk,
  deps: GenerationDeps,
): Generation & { start(sink: GenerationSink): void } {
  const salt =
    ask.salt === undefined ? 0 : hashOf(Uint32Array.from(ask.salt, (character) => character.codePointAt(0) ?? 0));
  const plans = ask.prompts.flatMap((prompt) =>
    Array.from({ length: ask.choices }, (_, choice) =>
      planOutput(createCannedAnswer(answerSeed(ask, deps.random, { prompt, choice }), deps.answer), ask),
    ),
  );
  const handles: EngineHandle[] = [];
  return {
    plans,
    abort() {
      for (const handle of handles) handle.abort();
    },
    start(sink) {
      const ends: SequenceEnd[] = [];
      ask.prompts.forEach((ids, index) => {
        const first = index * ask.choices;
        const handle = deps.engine.submit(
          {
            prompt: tokenPrompt(ids, salt),
            choices: plans.slice(first, first + ask.choices),
            ...(ask.priority === undefined ? {} : { priority: ask.priority }),
          },
          {
            started: (choice, start) => sink.started?.(first + choice, start),
            progress: (choice, processed, atMs) => sink.progress?.(first + choice, processed, atMs) ?? false,
            token: (choice, token, atMs) => sink.token(first + choice, token, atMs),
            ended(end) {
              ends.push(end);
              sink.ended(first + end.choice, end);
              if (ends.length === plans.length) sink.done(ends);
            },
          },
        );
        handles.push(handle);
      });
    },
  };
}

/** At temperature 0 the prompt decides; a seed decides with the prompt and the choice; else chance, which is seeded by the server. */
function answerSeed(
  ask: GenerationAsk,
  random: Random,
  of: { readonly prompt: Uint32Array; readonly choice: number },
): number {
  if (ask.temperature === 0) return hashOf(of.prompt);
  if (ask.seed !== undefined)
    return hashOf(of.prompt) ^ Math.imul(ask.seed + 1, 0x9e3779b1) ^ Math.imul(of.choice + 1, 0x85ebca6b);
  return Math.floor(random() * 4_294_967_296);
}

function hashOf(ids: Uint32Array): number {
  let hash = 0x811c9dc5;
  for (const id of ids) hash = Math.imul(hash ^ id, 0x01000193);
  return hash;
}
