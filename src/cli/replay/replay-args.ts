/** The flags of `warmlane replay`: which requests, which fleets, which policies, what counts as good. Reads nothing but its arguments. */
import { parseArgs } from 'node:util';

import { nearest } from '../../config/suggest.ts';
import { engineModels, type EngineModelName } from '../../sim/fleet/engine-models.ts';
import { generators, type GeneratorName } from '../../sim/traces/generators/generator.ts';
import { type TraceLane, traceLanes } from '../../sim/traces/read-trace.ts';
import type { FlagInfo } from '../args.ts';
import type { Slo } from './figures.ts';
import { replayPolicies, type ReplayPolicy } from './routers.ts';

export const replayFlags = {
  generate: {
    type: 'string',
    value: 'NAME',
    says: 'Make the requests instead of reading a trace; see below for names.',
  },
  requests: { type: 'string', value: 'N', says: 'How many to make (2000).' },
  rate: { type: 'string', value: 'R', says: 'Requests a second to make, on average.' },
  limit: { type: 'string', value: 'N', says: 'Only the first N requests.' },
  minutes: { type: 'string', value: 'M', says: 'Only what comes in the first M minutes.' },
  lane: { type: 'string', value: 'NAME', says: 'Only what users waited for (online), only batch, or all (online).' },
  policy: { type: 'string', value: 'NAMES', says: 'Policies to compare, with commas between them (all).' },
  backends: { type: 'string', value: 'N,…', says: 'How many backends (4); several numbers are compared.' },
  engine: { type: 'string', value: 'NAME', says: 'What each backend is (vllm-h100); see below for names.' },
  'kv-tokens': { type: 'string', value: 'N,…', says: 'Tokens that each can hold (300k, 1.2M); several are compared.' },
  'step-tokens': { type: 'string', value: 'N', says: 'Prompt tokens that each computes in one step at most.' },
  'max-sequences': { type: 'string', value: 'N', says: 'Requests that each runs at once; llama-server: slots.' },
  scale: { type: 'string', value: 'X,…', says: 'Load as a multiple of the trace (1); several are compared.' },
  'slo-ttft': { type: 'string', value: 'TIME', says: 'Latest first token of a good answer (5s).' },
  'slo-tpot': { type: 'string', value: 'TIME', says: 'Longest mean time of its further tokens (100ms).' },
  capacity: {
    type: 'boolean',
    says: 'Also search for the load at which nine in ten are still good. Takes about eight times as long.',
  },
  seed: { type: 'string', value: 'N', says: 'For everything that is chance (1).' },
  json: { type: 'boolean', says: 'Print one JSON object instead of tables; deploy/replay.md explains it.' },
  help: { type: 'boolean', short: 'h', says: 'Print this help.' },
} as const satisfies Readonly<Record<string, FlagInfo>>;

export interface ReplayRequest {
  readonly kind: 'replay';
  readonly source:
    | { readonly kind: 'file'; readonly path: string; readonly lane: TraceLane }
    | {
        readonly kind: 'generated';
        readonly name: GeneratorName;
        readonly requests: number;
        readonly ratePerSecond: number;
      };
  readonly most?: number;
  readonly untilMs?: number;
  readonly policies: readonly ReplayPolicy[];
  readonly engine: EngineModelName;
  readonly backends: readonly number[];
  /** empty: what the engine has */
  readonly kvTokens: readonly number[];
  readonly stepTokens?: number;
  readonly maxSequences?: number;
  readonly scales: readonly number[];
  readonly slo: Slo;
  readonly capacity: boolean;
  readonly seed: number;
  readonly json: boolean;
}

export type ReplayArguments =
  | ReplayRequest
  | { readonly kind: 'help' }
  | { readonly kind: 'wrong'; readonly problems: readonly string[] };

type FlagName = keyof typeof replayFlags;

/** @param argv what follows `replay` */
export function parseReplayArguments(argv: readonly string[]): ReplayArguments {
  const { said, files, problems } = tokensOf(argv);
  if (said.has('help')) return { kind: 'help' };
  const read = createReader(said, problems);
  const engine = read.oneOf('engine', Object.keys(engineModels), 'vllm-h100') as EngineModelName;
  const most = read.number('limit', { least: 1 });
  const minutes = read.number('minutes', { least: 0 });
  const stepTokens = read.number('step-tokens', { least: 1, whole: true });
  const maxSequences = read.number('max-sequences', { least: 1, whole: true });
  const source = sourceOf(files, said, { read, problems });
  const request: ReplayRequest = {
    kind: 'replay',
    source,
    ...(most === undefined ? {} : { most }),
    ...(minutes === undefined ? {} : { untilMs: minutes * 60_000 }),
    policies: policiesOf(said.get('policy') ?? 'all', problems),
    engine,
    backends: read.numbers('backends', { least: 1, most: 1000, whole: true }) ?? [4],
    kvTokens: read.numbers('kv-tokens', { least: 1, whole: true }) ?? [],
    ...(stepTokens === undefined ? {} : { stepTokens }),
    ...(maxSequences === undefined ? {} : { maxSequences }),
    scales: read.numbers('scale', { least: 0.001, most: 1000 }) ?? [1],
    slo: { ttftMs: read.time('slo-ttft') ?? 5000, tpotMs: read.time('slo-tpot') ?? 100 },
    capacity: said.has('capacity'),
    seed: read.number('seed', { least: 0, whole: true }) ?? 1,
    json: said.has('json'),
  };
  return problems.length > 0 ? { kind: 'wrong', problems } : request;
}

function tokensOf(argv: readonly string[]) {
  const { tokens } = parseArgs({
    args: [...argv],
    options: replayFlags,
    strict: false,
    allowPositionals: true,
    tokens: true,
  });
  const said = new Map<FlagName, string>();
  const files: string[] = [];
  const problems: string[] = [];
  for (const token of tokens) {
    if (token.kind === 'positional') files.push(token.value);
    if (token.kind !== 'option') continue;
    const { name, rawName, value } = token;
    if (!isFlag(name)) problems.push(unknownFlag(rawName));
    else if (replayFlags[name].type === 'boolean') {
      if (value !== undefined) problems.push(`${rawName} takes no value`);
      said.set(name, '');
    } else if (value === undefined || value === '' || (value.startsWith('--') && !token.inlineValue))
      problems.push(`${rawName} needs a value`);
    else said.set(name, value);
  }
  return { said, files, problems };
}

function sourceOf(
  files: readonly string[],
  said: ReadonlyMap<FlagName, string>,
  { read, problems }: { readonly read: Reader; readonly problems: string[] },
): ReplayRequest['source'] {
  const [path] = files;
  const name = read.oneOf('generate', Object.keys(generators), 'conversation') as GeneratorName;
  const requests = read.number('requests', { least: 1, most: 1_000_000, whole: true }) ?? 2000;
  const rate = read.number('rate', { least: 0.001, most: 100_000 });
  if (said.has('generate')) {
    if (path !== undefined) problems.push('a trace or --generate, not both');
    if (said.has('lane')) problems.push('--lane goes with a trace; what is made is of no lane');
    return { kind: 'generated', name, requests, ratePerSecond: rate ?? generators[name].ratePerSecond };
  }
  const lane = read.oneOf('lane', traceLanes, 'online') as TraceLane;
  for (const flag of ['requests', 'rate'] as const)
    if (said.has(flag))
      problems.push(`--${flag} goes with --generate; of a trace, --limit takes a part and --scale changes the load`);
  if (path === undefined) problems.push('name a trace, - for what comes on stdin, or --generate NAME');
  if (files.length > 1) problems.push(`one trace at a time; unexpected: ${files.slice(1).join(', ')}`);
  return { kind: 'file', path: path ?? '', lane };
}

function policiesOf(text: string, problems: string[]): readonly ReplayPolicy[] {
  const chosen: ReplayPolicy[] = [];
  for (const name of text
    .split(',')
    .map((part) => part.trim())
    .filter((part) => part !== '')) {
    const found = name === 'all' ? replayPolicies : replayPolicies.filter((policy) => policy === name);
    if (found.length === 0)
      problems.push(`--policy: there is no ${JSON.stringify(name)}; ${meant(name, replayPolicies)}`);
    for (const policy of found) if (!chosen.includes(policy)) chosen.push(policy);
  }
  if (chosen.length === 0 && problems.length === 0) problems.push('--policy names none');
  return chosen;
}

interface Bounds {
  readonly least: number;
  readonly most?: number;
  readonly whole?: boolean;
}

type Reader = ReturnType<typeof createReader>;

function createReader(said: ReadonlyMap<FlagName, string>, problems: string[]) {
  function numbers(name: FlagName, bounds: Bounds): readonly number[] | undefined {
    const text = said.get(name);
    if (text === undefined) return undefined;
    const values = text.split(',').map((part) => parseCount(part.trim()));
    const isIn = (value: number | undefined): value is number =>
      value !== undefined &&
      value >= bounds.least &&
      value <= (bounds.most ?? Number.MAX_SAFE_INTEGER) &&
      (bounds.whole !== true || Number.isInteger(value));
    if (values.every(isIn)) return values;
    const kind = bounds.whole === true ? 'whole number' : 'number';
    const upTo = bounds.most === undefined ? 'up' : `to ${bounds.most}`;
    problems.push(`--${name} ${JSON.stringify(text)} is no ${kind} from ${bounds.least} ${upTo}`);
    return undefined;
  }
  return {
    numbers,
    number(name: FlagName, bounds: Bounds): number | undefined {
      const values = numbers(name, bounds);
      if (values !== undefined && values.length > 1) problems.push(`--${name} takes one number`);
      return values?.[0];
    },
    time(name: FlagName): number | undefined {
      const text = said.get(name);
      if (text === undefined) return undefined;
      const parts = /^(\d+(?:\.\d+)?)(ms|s)$/.exec(text);
      const ms = parts === null ? 0 : Number(parts[1]) * (parts[2] === 's' ? 1000 : 1);
      if (ms > 0) return ms;
      problems.push(`--${name} ${JSON.stringify(text)} is no time; write 5s or 100ms`);
      return undefined;
    },
    oneOf(name: FlagName, names: readonly string[], fallback: string): string {
      const text = said.get(name) ?? fallback;
      if (names.includes(text)) return text;
      problems.push(`--${name}: there is no ${JSON.stringify(text)}; ${meant(text, names)}`);
      return fallback;
    },
  };
}

function meant(text: string, names: readonly string[]): string {
  const near = nearest(text, [...names]);
  return near === undefined ? `there are ${names.join(', ')}` : `did you mean ${near}?`;
}

/** `300`, `300k`, `1.2M` */
function parseCount(text: string): number | undefined {
  const parts = /^(\d+(?:\.\d+)?)([kM]?)$/.exec(text);
  if (parts === null) return undefined;
  const value = Number(parts[1]) * (parts[2] === 'k' ? 1000 : parts[2] === 'M' ? 1_000_000 : 1);
  // 1.2 × 1,000,000 is no whole number in binary.
  return Math.abs(value - Math.round(value)) < 1e-6 ? Math.round(value) : value;
}

function isFlag(name: string): name is FlagName {
  return Object.hasOwn(replayFlags, name);
}

function unknownFlag(rawName: string): string {
  const near = rawName.startsWith('--') ? nearest(rawName, Object.keys(replayFlags)) : undefined;
  return `unknown flag ${rawName}; ${near === undefined ? 'warmlane replay --help names them all' : `did you mean --${near}?`}`;
}
