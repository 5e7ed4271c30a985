/** The comparison as one JSON object; deploy/replay.md explains it. `shape` grows when a field changes its meaning. */
import type { Comparison, SettingResult } from './compare.ts';
import type { ReadTrace, TraceLane } from '../../sim/traces/read-trace.ts';
import type { Workload } from './workload.ts';

const shape = 1;

/** Where the requests came from. */
export interface ReplayInput {
  readonly format: ReadTrace['format'] | 'generated';
  readonly badLines: number;
  readonly problems: ReadTrace['problems'];
  /** Of the trace's lines these were wanted, and so many were of the other lane; absent: made, not read. */
  readonly lane?: TraceLane;
  readonly leftOut?: number;
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
      hashTokens: workload.hashTokens,
      warnings: warningsOf(workload, input),
    },
    engine: { name: engine, stepTokens, maxSequences },
    slo,
    seed,
    settings,
  };
  return `${JSON.stringify(whole, rounded)}\n`;
}

/** A prompt shorter than so many blocks is cut too coarsely to tell what of it was shared. */
const fewestBlocks = 2;

/** What the figures below can't be believed for; none of it of a trace that tells nothing of prompts anyway. */
export function warningsOf(workload: Workload, { format }: ReplayInput): readonly string[] {
  const { promptTokens, items, hashTokens } = workload;
  const mean = promptTokens / items.length;
  if (format === 'azure' || mean >= fewestBlocks * hashTokens) return [];
  return [
    `prompts of ${Math.round(mean)} tokens on average are short beside this trace's blocks of ${hashTokens} tokens, and only whole blocks can be told to be shared: what prompts share within a block is lost, so real hit rates are higher than those below, maybe by far, and policies that go by prefixes gain more`,
  ];
}

/** Six digits that count. What has no bound is said in words: JSON has no infinity. */
function rounded(_key: string, value: unknown): unknown {
  if (value === Infinity) return 'unbounded';
  return typeof value === 'number' && !Number.isInteger(value) ? Number(value.toPrecision(6)) : value;
}
