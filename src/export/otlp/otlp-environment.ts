/**
 * The standard `OTEL_*` variables that traces and metrics share → where a signal goes and who speaks, and a sentence about
 * each that can't be followed (the standard has such a one ignored, with a warning). Reads no file and loads no library.
 * Source: https://opentelemetry.io/docs/specs/otel/configuration/sdk-environment-variables/ and .../protocol/exporter/
 */
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

/** The signal as it stands in variables' names. */
type Signal = 'TRACES' | 'METRICS';

export type Reader = ReturnType<typeof createReader>;

export function createReader(env: Environment, problems: string[], signal: Signal) {
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
      ...readHeaders(read, 'OTEL_EXPORTER_OTLP_HEADERS', problems),
      ...readHeaders(read, `OTEL_EXPORTER_OTLP_${read.signal}_HEADERS`, problems),
    },
    compression,
    timeoutMs: timeoutName === undefined ? 10_000 : read.number(timeoutName, 10_000, 1),
    ...(files.caFile === undefined ? {} : { caFile: files.caFile }),
    ...(files.certFile === undefined ? {} : { certFile: files.certFile }),
    ...(files.keyFile === undefined ? {} : { keyFile: files.keyFile }),
  };
}

const headerName = /^[!#$%&'*+\-.^_`|~0-9A-Za-z]+$/;
const headerValue = /^[\t\u0020-\u007e\u0080-\u00ff]*$/;

/**
 * Without what can't stand in a header, which is said at the start: the library reads the process's own variables beside
 * these, and then every export fails. A value may be a secret and is not told.
 */
function readHeaders(read: Reader, variable: string, problems: string[]): Record<string, string> {
  const headers: Record<string, string> = {};
  for (const [name, value] of Object.entries(read.pairs(variable))) {
    if (headerName.test(name) && headerValue.test(value)) headers[name] = value;
    else problems.push(`${variable}: ${JSON.stringify(name)} can't be sent as a header; while it is set, exports fail`);
  }
  return headers;
}

/** The signal's endpoint is used as it is; to the common one HTTP adds the signal's path. */
function readUrl(read: Reader, protocol: OtlpProtocol, problems: string[]): string {
  const common = read.text('OTEL_EXPORTER_OTLP_ENDPOINT');
  const own = read.text(`OTEL_EXPORTER_OTLP_${read.signal}_ENDPOINT`);
  const isHttp = protocol !== 'grpc';
  const path = `/v1/${read.signal.toLowerCase()}`;
  const usual = isHttp ? `http://localhost:4318${path}` : 'http://localhost:4317';
  const url = own ?? (common === undefined ? usual : isHttp ? withPath(common, path) : common);
  if (!isHttp || /^https?:$/.test(protocolOf(url) ?? '')) return url;
  problems.push(`OTEL_EXPORTER_OTLP_ENDPOINT: must be a URL that begins with http:// or https://; ${usual} is used`);
  return usual;
}

/** A query stays behind the path. */
function withPath(endpoint: string, path: string): string {
  if (!URL.canParse(endpoint)) return endpoint;
  const url = new URL(endpoint);
  url.pathname = `${url.pathname.replace(/\/$/, '')}${path}`;
  return url.href;
}

/** As it may be logged: without credentials and query, where tokens stand. */
export function shownEndpoint({ url }: OtlpTarget): string {
  return url.replace(/[?#].*$/, '').replace(/^((?:[a-z][a-z0-9+.-]*:\/\/)?)[^/]*@/i, '$1');
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

export function readResource(read: Reader, problems: string[]): Record<string, string> {
  const before = problems.length;
  const pairs = read.pairs('OTEL_RESOURCE_ATTRIBUTES');
  // The standard: a list with a fault in it is left out whole.
  const attributes = problems.length > before ? {} : pairs;
  const name = read.text('OTEL_SERVICE_NAME') ?? attributes['service.name'] ?? 'warmlane';
  return { ...attributes, 'service.name': name };
}
