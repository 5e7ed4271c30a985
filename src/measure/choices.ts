/**
 * What was seen of each choice of one answer: its moments, its token events, the counts that the engine gave for it.
 * Numbers only, updated per event; what they mean for a figure is decided in `tpot.ts` and `counts.ts`.
 */
import type { Delta } from './dialect/facts.ts';

export interface ChoiceTrack {
  readonly index: number;
  /** Last role chunk before the first token. */
  roleMs: number | undefined;
  firstMs: number | undefined;
  /** First token event that isn't reasoning. */
  firstAnswerMs: number | undefined;
  lastMs: number | undefined;
  finishMs: number | undefined;
  finishReason: string | undefined;
  /** The event with the finish reason was a token event too. */
  finishHadToken: boolean;
  /** Token events. */
  events: number;
  /** Token events that came in the same read as the first. */
  firstReadEvents: number;
  /** Tokens that the events told they carry; meaningful while `allTold`. */
  toldTokens: number;
  firstReadTokens: number;
  /** Every token event so far told its tokens. */
  allTold: boolean;
  /** Most tokens in one event. */
  mostTokens: number;
  /** Tokens of this choice so far, where the wire keeps count. */
  outputSoFar: number;
  sawReasoning: boolean;
  sawTool: boolean;
  maxGapMs: number | undefined;
  /** Engine's own counts for this choice, where it counts per choice. */
  prompt: number | undefined;
  output: number | undefined;
  reasoning: number | undefined;
  cached: number | undefined;
  timedCached: number | undefined;
  timedPromptNew: number | undefined;
  timedOutput: number | undefined;
  timedPromptMs: number | undefined;
}

export function createChoiceTrack(index: number): ChoiceTrack {
  return {
    index,
    roleMs: undefined,
    firstMs: undefined,
    firstAnswerMs: undefined,
    lastMs: undefined,
    finishMs: undefined,
    finishReason: undefined,
    finishHadToken: false,
    events: 0,
    firstReadEvents: 0,
    toldTokens: 0,
    firstReadTokens: 0,
    allTold: true,
    mostTokens: 0,
    outputSoFar: 0,
    sawReasoning: false,
    sawTool: false,
    maxGapMs: undefined,
    prompt: undefined,
    output: undefined,
    reasoning: undefined,
    cached: undefined,
    timedCached: undefined,
    timedPromptNew: undefined,
    timedOutput: undefined,
    timedPromptMs: undefined,
  };
}

/**
 * Books one token event.
 * @param event moment of its socket read, and tokens of the choice up to and including it, where told
 * @returns tokens that it carries, or undefined when the wire doesn't say
 */
export function bookToken(
  choice: ChoiceTrack,
  delta: Delta,
  event: { readonly atMs: number; readonly outputSoFar: number | undefined },
): number | undefined {
  const { atMs, outputSoFar } = event;
  let tokens = delta.tokens;
  // A count of 0 beside a token only fills the place of one.
  if (tokens === undefined && outputSoFar !== undefined && outputSoFar > 0)
    tokens = Math.max(0, outputSoFar - choice.outputSoFar);
  if (choice.firstMs === undefined) choice.firstMs = atMs;
  else if (choice.lastMs !== undefined) {
    const gapMs = atMs - choice.lastMs;
    if (choice.maxGapMs === undefined || gapMs > choice.maxGapMs) choice.maxGapMs = gapMs;
  }
  choice.lastMs = atMs;
  choice.events += 1;
  if (delta.kind === 'reasoning') choice.sawReasoning = true;
  else if (delta.kind !== 'summary') {
    choice.firstAnswerMs ??= atMs;
    if (delta.kind === 'tool') choice.sawTool = true;
  }
  if (atMs === choice.firstMs) choice.firstReadEvents += 1;
  if (tokens === undefined) choice.allTold = false;
  else {
    choice.toldTokens += tokens;
    if (tokens > choice.mostTokens) choice.mostTokens = tokens;
    if (atMs === choice.firstMs) choice.firstReadTokens += tokens;
  }
  return tokens;
}
