/**
 * What `/ceiling` shows of one backend: cards, models and their limits, the windows, the engine's own word, the prefill
 * rate, and what can't be true. Plain values, made when asked. Pure but for what it reads.
 */
import type { DecodeTimes } from '../concurrency.ts';
import { type WindowName, windowLengths } from '../window-lengths.ts';
import type { Hardware } from './cards.ts';
import { type EngineEstimate, engineEstimate, type EngineHour } from './engine-estimate.ts';
import { type DecodeCeiling, decodeCeiling, kvBytesPerToken, peakFlops, ridge } from './formulas.ts';
import type { ModelShape } from './model-shape.ts';
import type { PrefillView } from './prefill-rate.ts';
import { type CeilingProblem, engineProblems, memoryProblem, windowProblems } from './problems.ts';
import type { Work, WorkView } from './work.ts';

export interface ModelCeiling {
  readonly model: string;
  readonly source: ModelShape['source'];
  readonly params?: number;
  readonly activeParams?: number;
  readonly weightBytes?: number;
  /** Who says so. */
  readonly weightBytesFrom?: ModelShape['weightBytesFrom'];
  readonly kvBytesPerToken?: number;
  /** Tokens of KV cache that fit beside the weights, at vLLM's default share of 0.9 of the memory. */
  readonly kvTokensAtMost?: number;
  readonly peakTflops?: number;
  /** FLOPs for each byte from which on arithmetic is the limit. */
  readonly ridgeFlopsPerByte?: number;
  /** Fastest decode of one user without context. */
  readonly oneUser?: DecodeCeiling;
  readonly unknown: readonly string[];
  readonly assumed: readonly string[];
}

export interface BackendCeiling {
  readonly backend: string;
  /** Absent: the config gives no hardware. */
  readonly hardware?: Hardware;
  readonly models: readonly ModelCeiling[];
  /** Only what came through here. */
  readonly attributed: 'proxy';
  readonly windows: Readonly<Record<WindowName, WorkView>>;
  /** By the engine itself, all its traffic; absent where it exports none. */
  readonly engineEstimate?: Partial<Readonly<Record<WindowName, EngineEstimate>>>;
  readonly prefill?: PrefillView;
  readonly problems: readonly CeilingProblem[];
  /** What isn't configured, and what is missing because of it. */
  readonly missing: readonly string[];
}

export interface BackendInput {
  readonly backend: string;
  readonly nowMs: number;
  readonly hardware: Hardware | undefined;
  readonly shapes: readonly { readonly model: string; readonly shape: ModelShape }[];
  readonly shapeProblems: readonly { readonly model: string; readonly message: string }[];
  readonly work: Work;
  readonly engine: EngineHour | undefined;
  readonly times: (windowMs: number) => DecodeTimes | undefined;
  readonly prefill: PrefillView | undefined;
}

export function backendView(input: BackendInput): BackendCeiling {
  const { backend, nowMs, hardware, shapes, engine, prefill } = input;
  const problems: CeilingProblem[] = [];
  const estimates: Partial<Record<WindowName, EngineEstimate>> = {};
  const [first] = shapes;
  const card = cardOf(hardware, first?.shape);
  const viewed = (name: WindowName): WorkView => {
    const windowMs = windowLengths[name];
    const view = input.work.view(input.times(windowMs), { nowMs, windowMs, bandwidth: hardware?.bandwidth });
    const estimate = engine === undefined ? undefined : engineEstimate(engine, { nowMs, windowMs }, card);
    if (estimate !== undefined) estimates[name] = estimate;
    return view;
  };
  const windowed = { '1m': viewed('1m'), '5m': viewed('5m'), '60m': viewed('60m') };
  problems.push(...windowProblems(windowed), ...engineProblems(estimates));
  for (const { model, shape } of shapes) {
    problems.push(...memoryProblem(model, shape.weightBytes, hardware?.memoryBytes));
    const fault = input.shapeProblems.find((one) => one.model === model);
    if (fault !== undefined) problems.push({ kind: 'model_config_unread', message: `${model}: ${fault.message}` });
  }
  return {
    backend,
    ...(hardware === undefined ? {} : { hardware }),
    models: shapes.map(({ model, shape }) => modelCeiling(model, shape, hardware)),
    attributed: 'proxy',
    windows: windowed,
    ...(Object.keys(estimates).length === 0 ? {} : { engineEstimate: estimates }),
    ...(prefill === undefined ? {} : { prefill }),
    problems,
    missing: missingOf(hardware, shapes),
  };
}

/** The engine's totals are for one card. */
function cardOf(hardware: Hardware | undefined, shape: ModelShape | undefined) {
  if (hardware === undefined) return {};
  const flops = shape === undefined ? hardware.halfFlops : peakFlops(hardware, shape);
  const { bandwidth, count } = hardware;
  return {
    flops: flops === undefined ? undefined : flops / count,
    bandwidth: bandwidth === undefined ? undefined : bandwidth / count,
  };
}

const kvShareOfMemory = 0.9;

function modelCeiling(model: string, shape: ModelShape, hardware: Hardware | undefined): ModelCeiling {
  const { params, activeParams, weightBytes, weightBytesFrom, attention } = shape;
  const perToken = attention === undefined ? undefined : kvBytesPerToken(attention);
  const flops = hardware === undefined ? undefined : peakFlops(hardware, shape);
  const { bandwidth, memoryBytes } = hardware ?? {};
  const oneUser =
    hardware === undefined ? undefined : decodeCeiling(shape, hardware, { sequences: 1, contextTokens: 0 });
  const room =
    perToken === undefined || weightBytes === undefined || memoryBytes === undefined
      ? undefined
      : Math.floor((memoryBytes * kvShareOfMemory - weightBytes) / perToken);
  return {
    model,
    source: shape.source,
    ...(params === undefined ? {} : { params }),
    ...(activeParams === undefined ? {} : { activeParams }),
    ...(weightBytes === undefined ? {} : { weightBytes }),
    ...(weightBytesFrom === undefined ? {} : { weightBytesFrom }),
    ...(perToken === undefined ? {} : { kvBytesPerToken: perToken }),
    ...(room === undefined || room < 0 ? {} : { kvTokensAtMost: room }),
    ...(flops === undefined ? {} : { peakTflops: flops / 1e12 }),
    ...(flops === undefined || bandwidth === undefined ? {} : { ridgeFlopsPerByte: ridge(flops, bandwidth) }),
    ...(oneUser === undefined ? {} : { oneUser }),
    unknown: shape.unknown,
    assumed: shape.assumed,
  };
}

function missingOf(hardware: Hardware | undefined, shapes: readonly unknown[]): string[] {
  const missing: string[] = [];
  if (hardware === undefined) missing.push('hardware of this backend: no MFU, MBU or ceiling (backends[].hardware)');
  else {
    if (hardware.halfFlops === undefined && hardware.fp8Flops === undefined)
      missing.push('peakTflops: no MFU and no ridge point');
    if (hardware.bandwidth === undefined) missing.push('bandwidthGBps: no MBU and no decode ceiling');
  }
  if (shapes.length === 0) missing.push('the shape of its model: no FLOPs and no bytes (models.shapes)');
  return missing;
}
