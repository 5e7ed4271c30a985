/** The comparison as text for people: one table for each fleet, then what changes from fleet to fleet. Pure. */
import { engineModels } from '../../sim/fleet/engine-models.ts';
import {
  countOf,
  digits,
  duration,
  grouped,
  heading,
  percent,
  printable,
  short,
  table,
  wrapped,
} from '../report-table.ts';
import type { Comparison, PolicyResult, SettingResult } from './compare.ts';
import { type ReplayInput, warningsOf } from './replay-json.ts';
import type { Workload } from './workload.ts';

export interface TextAbout {
  readonly workload: Workload;
  readonly input: ReplayInput;
  readonly comparison: Comparison;
  readonly colour: boolean;
}

export function replayText(settings: readonly SettingResult[], about: TextAbout): string {
  return [
    ...headLines(about),
    ...settings.flatMap((setting) => settingLines(setting, about)),
    ...overviewLines(settings, about),
    '',
  ].join('\n');
}

function headLines({ workload, input, comparison, colour }: TextAbout): readonly string[] {
  const { name, items, spanSeconds, promptTokens, outputTokens } = workload;
  const { engine, slo } = comparison;
  const bad = input.badLines === 0 ? [] : [`  ${countOf(input.badLines, 'line')} could not be read.`];
  return [
    heading(`Replay of ${printable(name)}`, colour),
    ...wrapped(
      `${countOf(items.length, 'request')} in ${duration(spanSeconds)}, ${short(promptTokens)} prompt and ${short(outputTokens)} answer tokens, of one prompt ${short(promptTokens / items.length)} on average.`,
    ),
    ...bad,
    ...laneLines(input),
    ...warningsOf(workload, input).flatMap((warning) => wrapped(`Warning: ${warning}.`)),
    ...wrapped(`Each backend is simulated as ${engine}: ${engineModels[engine].says}, unless stated otherwise.`),
    ...changedLines(comparison),
    ...wrapped(
      `Good: first token within ${timeText(slo.ttftMs)}, further ones every ${timeText(slo.tpotMs)} on average.`,
    ),
  ];
}

function laneLines({ lane, leftOut = 0 }: ReplayInput): readonly string[] {
  if (lane === undefined || leftOut === 0) return [];
  const other = lane === 'online' ? 'batch' : 'online';
  return wrapped(
    `${countOf(leftOut, 'request')} of lane ${other} left out; --lane all plays them too, --lane ${other} them alone.`,
  );
}

/** KV stands above each table. */
function changedLines({ maxSequences, stepTokens }: Comparison): readonly string[] {
  const changes = [
    ...(maxSequences === undefined ? [] : [`${countOf(maxSequences, 'request')} at once`]),
    ...(stepTokens === undefined ? [] : [`${countOf(stepTokens, 'prompt token')} a step`]),
  ];
  return changes.length === 0 ? [] : wrapped(`Changed: ${changes.join(', ')}.`);
}

const columns = [
  { title: 'policy', left: true },
  { title: 'good' },
  { title: 'hits' },
  { title: 'TTFT p50' },
  { title: 'p99' },
  { title: 'slower' },
  { title: 'TPOT p50' },
  { title: 'p99' },
  { title: 'ITL p99' },
  { title: 'spread' },
  { title: 'bias' },
  { title: 'error' },
  { title: 'capacity' },
] as const;

function settingLines(setting: SettingResult, { workload, colour }: TextAbout): readonly string[] {
  const { pooledHitShare, endlessHitShare } = setting;
  return [
    '',
    heading(settingText(setting, workload), colour),
    ...wrapped(
      `One cache as large as all together would hit ${percent(pooledHitShare)}, an endless one ${percent(endlessHitShare)}.`,
    ),
    ...table(
      columns,
      setting.policies.map((result) => cellsOf(result)),
    ),
  ];
}

function settingText(setting: SettingResult, { items, spanSeconds }: Workload): string {
  const { backends, kvTokens, ramTokens, scale } = setting;
  const rate = spanSeconds === 0 ? '' : `, about ${digits((items.length / spanSeconds) * scale)} requests/s`;
  const kv =
    ramTokens === undefined
      ? `${short(kvTokens)} tokens of KV each`
      : `tokens of KV each: ${short(kvTokens - ramTokens)} in slots, ${short(ramTokens)} in RAM`;
  return `${countOf(backends, 'backend')}, ${kv}, load × ${scale}${rate}`;
}

function cellsOf(result: PolicyResult): readonly string[] {
  const { bias, error, capacityScale, unserved } = result;
  return [
    result.policy,
    percent(result.goodShare) + (unserved === 0 ? '' : ` (${grouped(unserved)} unserved)`),
    percent(result.hitShare),
    seconds(result.ttftMs.p50),
    seconds(result.ttftMs.p99),
    `${digits(result.slowdown.p99)}×`,
    milliseconds(result.tpotMs.p50),
    milliseconds(result.tpotMs.p99),
    milliseconds(result.itlMs.p99),
    digits(result.imbalance),
    bias === undefined ? '' : points(bias),
    error === undefined ? '' : points(error).replace('+', ''),
    capacityScale === undefined ? '' : capacityText(capacityScale),
  ];
}

/** Several fleets or loads: the share of good answers, side by side. */
function overviewLines(settings: readonly SettingResult[], { comparison, colour }: TextAbout): readonly string[] {
  if (settings.length < 2) return [];
  const rows = settings.map((setting) => [
    String(setting.backends),
    kvText(setting),
    `× ${setting.scale}`,
    ...setting.policies.map(({ goodShare }) => percent(goodShare)),
  ]);
  const titles = [{ title: 'backends' }, { title: 'KV each' }, { title: 'load' }];
  return [
    '',
    heading('Good answers, side by side', colour),
    ...table([...titles, ...comparison.policies.map((title) => ({ title }))], rows),
  ];
}

function kvText({ kvTokens, ramTokens }: SettingResult): string {
  return ramTokens === undefined ? short(kvTokens) : `${short(kvTokens - ramTokens)} + ${short(ramTokens)}`;
}

function capacityText(scale: number): string {
  if (scale === Infinity) return 'over × 64';
  return scale === 0 ? 'none' : `× ${digits(scale)}`;
}

function seconds(ms: number): string {
  return ms < 1000 ? milliseconds(ms) : `${digits(ms / 1000)} s`;
}

function milliseconds(ms: number): string {
  return `${digits(ms)} ms`;
}

function timeText(ms: number): string {
  return ms % 1000 === 0 ? `${ms / 1000} s` : `${ms} ms`;
}

/** Hundredths of all prompt tokens. */
function points(share: number): string {
  const value = (share * 100).toFixed(1);
  return share > 0 && value !== '0.0' ? `+${value}` : value.replace('-0.0', '0.0');
}
