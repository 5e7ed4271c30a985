/**
 * The standard `OTEL_*` variables that concern traces → what to do, and a sentence about each that can't be followed (the
 * standard has such a one ignored, with a warning). Reads no file and loads no library.
 * Source: https://opentelemetry.io/docs/specs/otel/configuration/sdk-environment-variables/ and .../protocol/exporter/
 */
import type { SamplerChoice } from './sampling.ts';

export type Environment = Readonly<Record<string, string | undefined>>;

export type OtlpProtocol = 'http/protobuf' | 'http/json' | 'grpc';

export interface OtlpTarget {
  readonly protocol: OtlpProtocol;
  /** Whole URL over HTTP; for grpc the endpoint. */
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly compression: 'none' | 'gzip';
  readonly timeoutMs: number;
  /** Paths of PEM files. */
  readonly caFile?: string;
  readonly certFile?: string;
  readonly keyFile?: string;
}

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

export function readTraceEnvironment(env: Environment): ReadTraceEnvironment {
  const problems: string[] = [];
  const read = createReader(env, problems);
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
        maxBatchSpans: read.number('OTEL_BSP_MAX_EXPORT_BATCH_SIZE', 512, 1),
      },
    },
    problems,
  };
}

/** The signal as it stands in variables' names. */
type Signal = 'TRACES' | 'METRICS';

type Reader = ReturnType<typeof createReader>;

export function createReader(env: Environment, problems: string[], signal: Signal = 'TRACES') {
  /** An empty variable counts as unset. */
  const text = (name: string): string | undefined => {
    const value = env[name]?.trim();
    return value === '' ? undefined : value;
  };
  return {
    text,
    signal,
    /** The signal's own variable, else the common one. */
    otlp: (name: string) => text(`OTEL_EXPORTER_OTLP_${signal}_${name}`) ?? text(`OTEL_EXPORTER_OTLP_${name}`),
    list: (name: string) => (text(name) ?? '').split(',').flatMap((item) => item.trim() || []),
    number(name: string, otherwise: number, least: number): number {
      const value = text(name);
      if (value === undefined) return otherwise;
      const number = Number(value);
      if (Number.isInteger(number) && number >= least && number < 2 ** 31) return number;
      problems.push(`${name}: must be a whole number of at least ${least}; ${otherwise} is used`);
      return otherwise;
    },
    /** `k=v,k2=v2`, values percent-decoded. */
    pairs(name: string): Record<string, string> {
      const found: Record<string, string> = {};
      for (const pair of (text(name) ?? '').split(',')) {
        if (pair.trim() === '') continue;
        const at = pair.indexOf('=');
        const key = pair.slice(0, Math.max(0, at)).trim();
        const value = decoded(pair.slice(at + 1).trim());
        if (key === '' || value === undefined) problems.push(`${name}: must be k=v,k2=v2; a part of it is left out`);
        else found[key] = value;
      }
      return found;
    },
  };
}

function decoded(text: string): string | undefined {
  try {
    return decodeURIComponent(text);
  } catch {
    return undefined;
  }
}

export function readTarget(read: Reader, problems: string[]): OtlpTarget {
  const protocol = oneOf(read.otlp('PROTOCOL'), ['http/protobuf', 'http/json', 'grpc'] as const, (value) =>
    problems.push(`OTEL_EXPORTER_OTLP_PROTOCOL: "${value}" is not known here; http/protobuf is used`),
  );
  const compression = oneOf(read.otlp('COMPRESSION'), ['none', 'gzip'] as const, (value) =>
    problems.push(`OTEL_EXPORTER_OTLP_COMPRESSION: "${value}" is not known here; none is used`),
  );
  const timeoutName = [`OTEL_EXPORTER_OTLP_${read.signal}_TIMEOUT`, 'OTEL_EXPORTER_OTLP_TIMEOUT'].find(
    (name) => read.text(name) !== undefined,
  );
  const files = {
    caFile: read.otlp('CERTIFICATE'),
    certFile: read.otlp('CLIENT_CERTIFICATE'),
    keyFile: read.otlp('CLIENT_KEY'),
  };
  return {
    protocol,
    url: readUrl(read, protocol, problems),
    headers: {
      ...read.pairs('OTEL_EXPORTER_OTLP_HEADERS'),
      ...read.pairs(`OTEL_EXPORTER_OTLP_${read.signal}_HEADERS`),
    },
    compression,
    timeoutMs: timeoutName === undefined ? 10_000 : read.number(timeoutName, 10_000, 1),
    ...(files.caFile === undefined ? {} : { caFile: files.caFile }),
    ...(files.certFile === undefined ? {} : { certFile: files.certFile }),
    ...(files.keyFile === undefined ? {} : { keyFile: files.keyFile }),
  };
}

/** The signal's endpoint is used as it is; to the common one HTTP adds the signal's path. */
function readUrl(read: Reader, protocol: OtlpProtocol, problems: string[]): string {
  const common = read.text('OTEL_EXPORTER_OTLP_ENDPOINT');
  const own = read.text(`OTEL_EXPORTER_OTLP_${read.signal}_ENDPOINT`);
  const isHttp = protocol !== 'grpc';
  const path = `/v1/${read.signal.toLowerCase()}`;
  const usual = isHttp ? `http://localhost:4318${path}` : 'http://localhost:4317';
  const url = own ?? (common === undefined ? usual : isHttp ? `${common.replace(/\/$/, '')}${path}` : common);
  if (!isHttp || /^https?:$/.test(protocolOf(url) ?? '')) return url;
  problems.push(`OTEL_EXPORTER_OTLP_ENDPOINT: must be a URL that begins with http:// or https://; ${usual} is used`);
  return usual;
}

function protocolOf(url: string): string | undefined {
  return URL.canParse(url) ? new URL(url).protocol : undefined;
}

/** The first word stands where none, or an unknown one, is given. */
function oneOf<const Words extends readonly [string, ...string[]]>(
  value: string | undefined,
  words: Words,
  onUnknown: (value: string) => void,
): Words[number] {
  if (value === undefined) return words[0];
  const found = words.find((word) => word === value.toLowerCase());
  if (found === undefined) onUnknown(value);
  return found ?? words[0];
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

export function readResource(read: Reader, problems: string[]): Record<string, string> {
  const before = problems.length;
  const pairs = read.pairs('OTEL_RESOURCE_ATTRIBUTES');
  // The standard: a list with a fault in it is left out whole.
  const attributes = problems.length > before ? {} : pairs;
  const name = read.text('OTEL_SERVICE_NAME') ?? attributes['service.name'] ?? 'warmlane';
  return { ...attributes, 'service.name': name };
}
