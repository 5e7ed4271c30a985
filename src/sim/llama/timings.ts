/**
 * llama-server's `timings` and `prompt_progress`: prompt time runs from the slot's start to the first token, rates of the answer leave
 * the first token out (it comes free with the prompt), and numbers are written as its JSON library does.
 */

/** What is known of one choice while it runs. Times are monotonic ms. */
export interface ChoiceRun {
  readonly choice: number;
  readonly slot: number;
  readonly promptTokens: number;
  readonly cachedTokens: number;
  readonly startedMs: number;
  /** Prompt tokens there so far, cached ones included. */
  processedTokens: number;
  /** When the prompt was last worked on, and in the end done. */
  processedMs: number;
  firstTokenMs: number | undefined;
  lastTokenMs: number;
  tokens: number;
}

export function timingsJson(run: ChoiceRun): string {
  const promptTokens = run.processedTokens - run.cachedTokens;
  const promptMs = micros((run.firstTokenMs ?? run.processedMs) - run.startedMs);
  // One token alone has no time of its own: the server says 1 µs.
  const predictedMs =
    run.tokens === 0 ? 0 : run.tokens === 1 ? 0.001 : micros(run.lastTokenMs - (run.firstTokenMs ?? run.lastTokenMs));
  const gaps = Math.max(0, run.tokens - 1);
  const prompt = `"cache_n":${run.cachedTokens},"prompt_n":${promptTokens},"prompt_ms":${float(promptMs)},"prompt_per_token_ms":${float(ratio(promptMs, promptTokens))},"prompt_per_second":${float(ratio(1000 * promptTokens, promptMs))}`;
  const predicted = `"predicted_n":${run.tokens},"predicted_ms":${float(predictedMs)},"predicted_per_token_ms":${float(ratio(predictedMs, gaps))},"predicted_per_second":${float(ratio(1000 * gaps, predictedMs))}`;
  return `{${prompt},${predicted}}`;
}

export function progressJson(run: ChoiceRun): string {
  const timeMs = Math.floor(run.processedMs - run.startedMs);
  return `{"total":${run.promptTokens},"cache":${run.cachedTokens},"processed":${run.processedTokens},"time_ms":${timeMs}}`;
}

/** A double in JSON: whole ones with `.0`. */
export function float(value: number): string {
  return Number.isInteger(value) ? `${value}.0` : String(value);
}

function ratio(dividend: number, divisor: number): number {
  return divisor === 0 ? 0 : dividend / divisor;
}

function micros(ms: number): number {
  return Math.round(ms * 1000) / 1000;
}
