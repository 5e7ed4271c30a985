/**
 * Figures that can't be true: the config says another card or another model than is there. Named with what to look at;
 * the figures themselves stay as they came out. Pure.
 */
import type { EngineEstimate } from './engine-estimate.ts';
import type { WorkView } from './work.ts';

export type CeilingProblemKind =
  /** more FLOPs than the cards can do */
  | 'mfu_over_1'
  /** more bytes than the memory can give */
  | 'mbu_over_1'
  /** the engine's own estimate is more than the cards can do */
  | 'engine_estimate_over_1'
  /** the weights don't fit into the cards' memory */
  | 'weights_over_memory'
  /** a `config.json` that the config names can't be used */
  | 'model_config_unread';

export interface CeilingProblem {
  readonly kind: CeilingProblemKind;
  readonly message: string;
  readonly value?: number;
  readonly windowMs?: number;
}

/** Fewer finished requests than this prove nothing. */
const leastRequests = 3;

const lookAt = "Look at the backend's hardware (gpu, count, peakTflops, bandwidthGBps) and at the model's shape.";

export function windowProblems(view: WorkView, windowMs: number): CeilingProblem[] {
  const problems: CeilingProblem[] = [];
  const minutes = windowMs / 60_000;
  if (view.requests < leastRequests) return problems;
  const { mfu, mbu } = view;
  if (mfu !== undefined && mfu > 1)
    problems.push({
      kind: 'mfu_over_1',
      message: `MFU over ${minutes} min is ${shown(mfu)}: more than the cards can do. ${lookAt}`,
      value: mfu,
      windowMs,
    });
  if (mbu !== undefined && mbu > 1)
    problems.push({
      kind: 'mbu_over_1',
      message: `MBU over ${minutes} min is ${shown(mbu)}: more than the memory can give. ${lookAt} Speculative decoding that hides its steps, or weights that fit into a cache, look the same.`,
      value: mbu,
      windowMs,
    });
  return problems;
}

export function engineProblems(estimate: EngineEstimate | undefined, windowMs: number): CeilingProblem[] {
  const value = Math.max(estimate?.mfu ?? 0, estimate?.mbu ?? 0);
  if (value <= 1) return [];
  const message = `The engine's own estimate is ${shown(value)} of the card's peak over ${windowMs / 60_000} min. ${lookAt}`;
  return [{ kind: 'engine_estimate_over_1', message, value, windowMs }];
}

export function memoryProblem(
  model: string,
  weightBytes: number | undefined,
  memoryBytes: number | undefined,
): CeilingProblem[] {
  if (weightBytes === undefined || memoryBytes === undefined || weightBytes <= memoryBytes) return [];
  const message = `The weights of ${model} take ${shown(weightBytes / 2 ** 30)} GiB, the cards have ${shown(memoryBytes / 2 ** 30)}. ${lookAt}`;
  return [{ kind: 'weights_over_memory', message, value: weightBytes / memoryBytes }];
}

function shown(value: number): string {
  return String(Number(value.toPrecision(3)));
}
