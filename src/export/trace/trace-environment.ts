/**
 * The standard `OTEL_*` variables that concern traces → what to do, and a sentence about each that can't be followed.
 * Reads no file and loads no library.
 * Source: https://opentelemetry.io/docs/specs/otel/configuration/sdk-environment-variables/ and .../protocol/exporter/
 */
import {
  createReader,
  type Environment,
  type OtlpTarget,
  type Reader,
  readResource,
  readTarget,
} from '../otlp/otlp-environment.ts';
import type { SamplerChoice } from './sampling.ts';

export interface TraceEnvironment {
  /** Traces are wanted: an endpoint or an exporter is named. */
  readonly asked: boolean;
  /** `OTEL_SDK_DISABLED`, or no exporter: off whatever else is said. */
  readonly disabled: boolean;
  readonly exporter: 'otlp' | 'console';
  readonly otlp: OtlpTarget;
  readonly sampler: SamplerChoice;
  readonly resource: Readonly<Record<string, string>>;
  readonly batch: {
    readonly delayMs: number;
    readonly exportTimeoutMs: number;
    readonly maxQueueSpans: number;
    readonly maxBatchSpans: number;
  };
}

export interface ReadTraceEnvironment {
  readonly environment: TraceEnvironment;
  readonly problems: readonly string[];
}

/** The standard's own number is 2048; here the bytes are the bound that matters, so many short requests may wait. */
const defaultQueueSpans = 16_384;
/** The standard's 512 are encoded in one go, and the streams wait meanwhile. */
const defaultBatchSpans = 64;

export function readTraceEnvironment(env: Environment): ReadTraceEnvironment {
  const problems: string[] = [];
  const read = createReader(env, problems, 'TRACES');
  const exporters = read.list('OTEL_TRACES_EXPORTER');
  const exporter = exporters[0] ?? 'otlp';
  if (!['otlp', 'console', 'none'].includes(exporter))
    problems.push(`OTEL_TRACES_EXPORTER: "${exporter}" is not known here; spans go to otlp`);
  if (exporters.length > 1) problems.push(`OTEL_TRACES_EXPORTER: only the first, ${exporter}, is used`);
  const endpoint =
    read.text('OTEL_EXPORTER_OTLP_TRACES_ENDPOINT') !== undefined ||
    read.text('OTEL_EXPORTER_OTLP_ENDPOINT') !== undefined;
  return {
    environment: {
      asked: endpoint || exporters.length > 0,
      disabled: read.text('OTEL_SDK_DISABLED')?.toLowerCase() === 'true' || exporter === 'none',
      exporter: exporter === 'console' ? 'console' : 'otlp',
      otlp: readTarget(read, problems),
      sampler: readSampler(read, problems),
      resource: readResource(read, problems),
      batch: {
        delayMs: read.number('OTEL_BSP_SCHEDULE_DELAY', 5000, 0),
        exportTimeoutMs: read.number('OTEL_BSP_EXPORT_TIMEOUT', 30_000, 1),
        maxQueueSpans: read.number('OTEL_BSP_MAX_QUEUE_SIZE', defaultQueueSpans, 1),
        maxBatchSpans: read.number('OTEL_BSP_MAX_EXPORT_BATCH_SIZE', defaultBatchSpans, 1),
      },
    },
    problems,
  };
}

function readSampler(read: Reader, problems: string[]): SamplerChoice {
  const name = read.text('OTEL_TRACES_SAMPLER')?.toLowerCase() ?? 'parentbased_always_on';
  const [, parentBased, root] = /^(parentbased_)?(always_on|always_off|traceidratio)$/.exec(name) ?? [];
  if (root === undefined) {
    problems.push(`OTEL_TRACES_SAMPLER: "${name}" is not known here; parentbased_always_on is used`);
    return { parentBased: true, ratio: 1 };
  }
  const ratio = root === 'always_on' ? 1 : root === 'always_off' ? 0 : readRatio(read, problems);
  return { parentBased: parentBased !== undefined, ratio };
}

function readRatio(read: Reader, problems: string[]): number {
  const text = read.text('OTEL_TRACES_SAMPLER_ARG');
  const ratio = Number(text ?? '1');
  if (ratio >= 0 && ratio <= 1) return ratio;
  problems.push('OTEL_TRACES_SAMPLER_ARG: must be a number from 0 to 1; 1 is used');
  return 1;
}
