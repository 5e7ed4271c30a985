/**
 * Figures that can't be true: the config says another card or another model than is there. Named with what to look at;
 * the figures themselves stay as they came out. Pure.
 */
import { type WindowName, windowNames } from '../window-lengths.ts';
import type { EngineEstimate } from './engine-estimate.ts';
import type { WorkView } from './work.ts';

export type CeilingProblemKind =
  /** more FLOPs than the cards can do */
  | 'mfu_over_1'
  /** more bytes than the memory can give */
  | 'mbu_over_1'
  /** decoding faster than bandwidth and arithmetic together allow */
  | 'ceiling_over_1'
  /** the engine's own estimate is more than the cards can do */
  | 'engine_estimate_over_1'
  /** the weights don't fit into the cards' memory */
  | 'weights_over_memory'
  /** a `config.json` that the config names can't be used */
  | 'model_config_unread';

/** One for each kind, whatever the number of windows in which it holds. */
export interface CeilingProblem {
  readonly kind: CeilingProblemKind;
  readonly message: string;
  /** The figure that can't be true, 1 being all that there is; the highest of its windows. */
  readonly share?: number;
  readonly windows?: readonly WindowName[];
}

/** Fewer finished requests than this prove nothing. */
const leastRequests = 3;

const lookAt = "Look at the backend's hardware (gpu, count, peakTflops, bandwidthGBps) and at the model's shape.";

type ByWindow<Value> = Partial<Readonly<Record<WindowName, Value>>>;

export function windowProblems(views: ByWindow<WorkView>): CeilingProblem[] {
  const told = (name: WindowName) => ((views[name]?.requests ?? 0) < leastRequests ? undefined : views[name]);
  const mfu = over((name) => told(name)?.mfu);
  const mbu = over((name) => told(name)?.mbu);
  const named = new Set([...(mfu?.windows ?? []), ...(mbu?.windows ?? [])]);
  // What the other two don't show: arithmetic, in a window that was idle for the rest.
  const ceiling = over((name) => (named.has(name) ? undefined : told(name)?.shareOfCeiling));
  return [
    problem('mfu_over_1', mfu, (of) => `MFU ${of}: more than the cards can do. ${lookAt}`),
    problem(
      'mbu_over_1',
      mbu,
      (of) =>
        `MBU ${of}: more than the memory can give. ${lookAt} Speculative decoding that hides its steps, or weights that fit into a cache, look the same.`,
    ),
    problem(
      'ceiling_over_1',
      ceiling,
      (of) => `The share of the decode ceiling ${of}: faster than the cards' arithmetic allows. ${lookAt}`,
    ),
  ].flat();
}

export function engineProblems(estimates: ByWindow<EngineEstimate>): CeilingProblem[] {
  const found = over((name) => Math.max(estimates[name]?.mfu ?? 0, estimates[name]?.mbu ?? 0));
  return problem(
    'engine_estimate_over_1',
    found,
    (of) => `The engine's own estimate ${of} of the card's peak. ${lookAt}`,
  );
}

interface Over {
  readonly share: number;
  readonly windows: readonly WindowName[];
}

/** @returns the windows in which a share is above 1, and the highest; undefined: in none */
function over(shareIn: (name: WindowName) => number | undefined): Over | undefined {
  const windows = windowNames.filter((name) => (shareIn(name) ?? 0) > 1);
  return windows.length === 0 ? undefined : { windows, share: Math.max(...windows.map((name) => shareIn(name) ?? 0)) };
}

function problem(kind: CeilingProblemKind, found: Over | undefined, says: (of: string) => string): CeilingProblem[] {
  if (found === undefined) return [];
  const { share, windows } = found;
  return [{ kind, message: says(`over ${windows.join(', ')} is ${shown(100 * share)} %`), share, windows }];
}

export function memoryProblem(
  model: string,
  weightBytes: number | undefined,
  memoryBytes: number | undefined,
): CeilingProblem[] {
  if (weightBytes === undefined || memoryBytes === undefined || weightBytes <= memoryBytes) return [];
  const message = `The weights of ${model} take ${shown(weightBytes / 2 ** 30)} GiB, the cards have ${shown(memoryBytes / 2 ** 30)}. ${lookAt}`;
  return [{ kind: 'weights_over_memory', message, share: weightBytes / memoryBytes }];
}

function shown(value: number): string {
  return String(Number(value.toPrecision(3)));
}
