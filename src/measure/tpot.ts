/**
 * Time per output token: which window is taken, and why there is none. Pure.
 *
 * TPOT is a window's length by the number of tokens that came in it after its first moment. The window must hold exactly
 * the tokens that are counted (design decision 5), and it is never taken across choices: the windows of all choices are
 * summed, and so are their tokens. In this order:
 *
 * 1. Not streamed, no count, or no choice with a second token: none, and the reason says which.
 * 2. Reasoning was counted but never shown: the visible tokens (output − reasoning) over the window of the visible answer;
 *    none when that can't be told apart (C038).
 * 3. Every token had its event (as many as tokens, or the events told their tokens): the visible window, first token
 *    event → last token event.
 * 4. Plain text lacks one token per choice that ended by itself: the end token, which had no event. First token → finish.
 * 5. Some tokens had no event because a parser swallowed them (reasoning or tool calls were seen; any answer of llama-server,
 *    which sends one event per token but holds back parts of characters and stop strings): role chunk → finish chunk (R15).
 *    Where there is no role chunk: first token → finish chunk for plain text, else none.
 * 6. Else events carried several tokens (speculation, stream interval; R16): the visible window still holds them all.
 *
 * From the visible window the tokens of its first read are left out, since they took no time in it: normally that is the
 * first token alone, so (last − first)/(n − 1); after a lump of k it is (last − first)/(n − k), and a stream that comes in
 * lumps has the TPOT of the same stream without (C046).
 */
import type { Engine } from '../domain/names.ts';
import type { RecordMark, TokenCounts, TpotWindow } from '../domain/record.ts';
import type { ChoiceTrack } from './choices.ts';

export interface TpotInput {
  readonly streamed: boolean;
  /** No answer came at all. */
  readonly unanswered?: boolean;
  readonly choices: readonly ChoiceTrack[];
  readonly tokens: TokenCounts;
  readonly engine: Engine | undefined;
}

export interface Tpot {
  readonly window: TpotWindow;
  /** Milliseconds; absent for every `none_…` window. */
  readonly tpotMs?: number;
  /** What the counts say about events and tokens. */
  readonly marks: readonly RecordMark[];
}

export function takeTpot(input: TpotInput): Tpot {
  const marks: RecordMark[] = [];
  const { output, reasoning } = input.tokens;
  if (!input.streamed) return { window: 'none_not_streamed', marks };
  if (input.unanswered === true) return { window: 'none_no_answer', marks };
  if (output === undefined) return { window: 'none_unknown_count', marks };
  const active = input.choices.filter((choice) => choice.events > 0 || choice.finishMs !== undefined);
  if (active.some((choice) => choice.mostTokens > 1)) marks.push('several_tokens_per_event');
  const hidden = (reasoning?.value ?? 0) > 0 && !active.some((choice) => choice.sawReasoning);
  if (hidden) {
    marks.push('hidden_reasoning');
    return { marks, ...overAnswer(active, output.value - (reasoning?.value ?? 0)) };
  }
  if (output.value <= Math.max(1, active.length)) return { window: 'none_single_token', marks };
  const told = active.every((choice) => choice.allTold);
  const counted = sum(active, (choice) => (told ? choice.toldTokens : choice.events));
  const parsed = active.some((choice) => choice.sawReasoning || choice.sawTool);
  const missing = output.value - counted;
  const lumped = parsed && told && active.some((choice) => choice.firstReadTokens > choice.firstReadEvents);
  if (missing <= 0 && !lumped) return { marks, ...overVisible(active, output.value, told) };
  // Its own rule comes first: on llama-server this is the ordinary stop, and nothing was swallowed.
  if (!parsed && counted > 0 && missing <= active.filter(endedSilently).length)
    return { marks, ...overSilentEnd(active, output.value, told) };
  if (parsed || counted === 0 || input.engine === 'llama-server') {
    marks.push('fewer_events_than_tokens');
    return { marks, ...overSwallowed(active, output.value, parsed, told) };
  }
  if (!marks.includes('several_tokens_per_event')) marks.push('several_tokens_per_event');
  return { marks, ...overVisible(active, output.value, told) };
}

type Window = Omit<Tpot, 'marks'>;
const noWindow: Window = { window: 'none_no_window' };

function overVisible(active: readonly ChoiceTrack[], tokens: number, told: boolean): Window {
  const windowMs = sum(active, (choice) => (choice.lastMs ?? 0) - (choice.firstMs ?? 0));
  return divide('visible', windowMs, tokens - sum(active, (choice) => firstRead(choice, told)));
}

/** Visible tokens over the visible answer; a tool call's markers are visible to nobody, so there it can't be told. */
function overAnswer(active: readonly ChoiceTrack[], visibleTokens: number): Window {
  const events = sum(active, (choice) => choice.events);
  const swallowed = visibleTokens > events && active.some((choice) => choice.sawTool);
  if (visibleTokens <= active.length || swallowed) return { window: 'none_hidden_reasoning' };
  if (active.some((choice) => choice.firstAnswerMs === undefined)) return { window: 'none_hidden_reasoning' };
  const windowMs = sum(active, (choice) => (choice.lastMs ?? 0) - (choice.firstAnswerMs ?? 0));
  const window = divide('visible', windowMs, visibleTokens - active.length);
  return window.tpotMs === undefined ? { window: 'none_hidden_reasoning' } : window;
}

function overSwallowed(active: readonly ChoiceTrack[], tokens: number, parsed: boolean, told: boolean): Window {
  if (active.every((choice) => choice.roleMs !== undefined && choice.finishMs !== undefined)) {
    const windowMs = sum(active, (choice) => (choice.finishMs ?? 0) - (choice.roleMs ?? 0));
    return divide('role_to_finish', windowMs, tokens - active.length);
  }
  return parsed ? noWindow : overSilentEnd(active, tokens, told);
}

function overSilentEnd(active: readonly ChoiceTrack[], tokens: number, told: boolean): Window {
  if (active.some((choice) => choice.firstMs === undefined || choice.finishMs === undefined)) return noWindow;
  const windowMs = sum(active, (choice) => (choice.finishMs ?? 0) - (choice.firstMs ?? 0));
  return divide('first_to_finish', windowMs, tokens - sum(active, (choice) => firstRead(choice, told)));
}

function divide(window: TpotWindow, windowMs: number, tokens: number): Window {
  return windowMs > 0 && tokens > 0 ? { window, tpotMs: windowMs / tokens } : noWindow;
}

function firstRead(choice: ChoiceTrack, told: boolean): number {
  return Math.max(1, told ? choice.firstReadTokens : choice.firstReadEvents);
}

/** It ended by itself, in an event that was no token: its end token had no event of its own. */
function endedSilently(choice: ChoiceTrack): boolean {
  const { finishMs, finishReason, finishHadToken } = choice;
  return finishMs !== undefined && !finishHadToken && finishReason !== undefined && !cutReasons.has(finishReason);
}

const cutReasons: ReadonlySet<string> = new Set([
  'length',
  'max_tokens',
  'max_output_tokens',
  'limit',
  'abort',
  'error',
  'incomplete',
]);

function sum(choices: readonly ChoiceTrack[], pick: (choice: ChoiceTrack) => number): number {
  return choices.reduce((total, choice) => total + pick(choice), 0);
}
