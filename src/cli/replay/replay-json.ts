/** The comparison as one JSON object; deploy/replay.md explains it. `shape` grows when a field changes its meaning. */
import type { Comparison, SettingResult } from './compare.ts';
import type { ReadTrace } from '../../sim/traces/read-trace.ts';
import type { Workload } from './workload.ts';

const shape = 1;

/** Where the requests came from. */
export interface ReplayInput {
  readonly format: ReadTrace['format'] | 'generated';
  readonly badLines: number;
  readonly problems: ReadTrace['problems'];
}

export function replayJson(
  settings: readonly SettingResult[],
  about: { readonly workload: Workload; readonly input: ReplayInput; readonly comparison: Comparison },
): string {
  const { workload, input, comparison } = about;
  const { engine, stepTokens, maxSequences, slo, seed } = comparison;
  const whole = {
    shape,
    trace: {
      name: workload.name,
      ...input,
      requests: workload.items.length,
      spanSeconds: workload.spanSeconds,
      promptTokens: workload.promptTokens,
      outputTokens: workload.outputTokens,
    },
    engine: { name: engine, stepTokens, maxSequences },
    slo,
    seed,
    settings,
  };
  return `${JSON.stringify(whole, rounded)}\n`;
}

/** Six digits that count. What has no bound is said in words: JSON has no infinity. */
function rounded(_key: string, value: unknown): unknown {
  if (value === Infinity) return 'unbounded';
  return typeof value === 'number' && !Number.isInteger(value) ? Number(value.toPrecision(6)) : value;
}
