/**
 * How good one backend's predictions are: bias and error, weighted by tokens, over about the last hundred answers that told;
 * and whether the bias has stood too high for too long. Numbers only.
 */

export interface Accuracy {
  /** mean of predicted less told, as a share of the prompt; absent without an answer that told */
  readonly bias: number | undefined;
  readonly error: number | undefined;
  /** @returns true when the bias has been out of bounds for five minutes; it begins to count anew */
  note(answer: { readonly predicted: number; readonly told: number; readonly prompt: number }, nowMs: number): boolean;
}

const keep = 0.99;
const keepForAlarm = 0.95;
const alarmBias = 0.1;
const alarmAfterMs = 300_000;

export function createAccuracy(): Accuracy {
  let prompts = 0;
  let differences = 0;
  let sizes = 0;
  let recentPrompts = 0;
  let recentDifferences = 0;
  let offSinceMs: number | undefined;
  return {
    get bias() {
      return prompts === 0 ? undefined : differences / prompts;
    },
    get error() {
      return prompts === 0 ? undefined : sizes / prompts;
    },
    note({ predicted, told, prompt }, nowMs) {
      prompts = prompts * keep + prompt;
      differences = differences * keep + predicted - told;
      sizes = sizes * keep + Math.abs(predicted - told);
      recentPrompts = recentPrompts * keepForAlarm + prompt;
      recentDifferences = recentDifferences * keepForAlarm + predicted - told;
      if (Math.abs(recentDifferences) <= alarmBias * recentPrompts) {
        offSinceMs = undefined;
        return false;
      }
      offSinceMs ??= nowMs;
      if (nowMs - offSinceMs < alarmAfterMs) return false;
      offSinceMs = undefined;
      recentPrompts = 0;
      recentDifferences = 0;
      return true;
    },
  };
}
