/** The flags of `warmlane report`: which logs, which part of them, in which form. Reads nothing but its arguments. */
import { parseArgs } from 'node:util';

import { nearest } from '../config/suggest.ts';
import type { FlagInfo } from './args.ts';

export const reportFlags = {
  since: { type: 'string', value: 'TIME', says: 'Only requests that came at that time or later.' },
  until: { type: 'string', value: 'TIME', says: 'Only requests that came before that time.' },
  model: { type: 'string', value: 'NAME', says: 'Only this model.' },
  backend: { type: 'string', value: 'NAME', says: 'Only this backend.' },
  lane: { type: 'string', value: 'NAME', says: 'Only this lane.' },
  split: { type: 'string', value: 'TIME', says: 'Compare what came before that time with what came after.' },
  before: { type: 'string', multiple: true, value: 'FILE…', says: 'Compare these logs …' },
  after: { type: 'string', multiple: true, value: 'FILE…', says: '… with these.' },
  top: { type: 'string', value: 'N', says: 'How many of the slowest requests and worst stalls to name (5).' },
  json: { type: 'boolean', says: 'Print one JSON object instead of tables; deploy/report.md explains it.' },
  help: { type: 'boolean', short: 'h', says: 'Print this help.' },
} as const satisfies Readonly<Record<string, FlagInfo>>;

export interface LogFile {
  readonly path: string;
  readonly side?: 'before' | 'after';
}

export interface ReportRequest {
  readonly kind: 'report';
  readonly files: readonly LogFile[];
  readonly sinceMs?: number;
  readonly untilMs?: number;
  readonly splitMs?: number;
  readonly model?: string;
  readonly backend?: string;
  readonly lane?: string;
  readonly top: number;
  readonly json: boolean;
}

export type ReportArguments =
  | ReportRequest
  | { readonly kind: 'help' }
  | { readonly kind: 'wrong'; readonly problems: readonly string[] };

type FlagName = keyof typeof reportFlags;

const defaultTop = 5;
const mostTop = 1000;

/** @param argv what follows `report` @param nowMs wall clock, for times such as `24h` */
export function parseReportArguments(argv: readonly string[], nowMs: number): ReportArguments {
  const { tokens } = parseArgs({
    args: [...argv],
    options: reportFlags,
    strict: false,
    allowPositionals: true,
    tokens: true,
  });
  const said = new Map<FlagName, string>();
  const files: LogFile[] = [];
  const problems: string[] = [];
  // A shell makes several words of `--before logs/*`: those behind the first belong to it too.
  let side: LogFile['side'];
  for (const token of tokens) {
    if (token.kind === 'positional')
      files.push(side === undefined ? { path: token.value } : { path: token.value, side });
    if (token.kind !== 'option') continue;
    side = undefined;
    const { name, rawName, value } = token;
    if (!isFlag(name)) problems.push(unknownFlag(rawName));
    else if (reportFlags[name].type === 'boolean') {
      if (value !== undefined) problems.push(`${rawName} takes no value`);
      said.set(name, '');
    } else if (value === undefined || value === '' || (value.startsWith('--') && !token.inlineValue))
      problems.push(`${rawName} needs a value`);
    else if (name === 'before' || name === 'after') {
      side = name;
      files.push({ path: value, side });
    } else said.set(name, value);
  }
  if (said.has('help')) return { kind: 'help' };
  problems.push(...fileProblems(files, said.has('split')));
  const times = readTimes(said, nowMs, problems);
  const top = readTop(said.get('top'), problems);
  if (problems.length > 0) return { kind: 'wrong', problems };
  const [model, backend, lane] = [said.get('model'), said.get('backend'), said.get('lane')];
  return {
    kind: 'report',
    files,
    ...times,
    ...(model === undefined ? {} : { model }),
    ...(backend === undefined ? {} : { backend }),
    ...(lane === undefined ? {} : { lane }),
    top,
    json: said.has('json'),
  };
}

function isFlag(name: string): name is FlagName {
  return Object.hasOwn(reportFlags, name);
}

function unknownFlag(rawName: string): string {
  if (rawName === '--compare') return 'unknown flag --compare; write --split TIME, or --before FILE and --after FILE';
  const near = rawName.startsWith('--') ? nearest(rawName, Object.keys(reportFlags)) : undefined;
  return `unknown flag ${rawName}; ${near === undefined ? 'warmlane report --help names them all' : `did you mean --${near}?`}`;
}

function fileProblems(files: readonly LogFile[], split: boolean): readonly string[] {
  const count = (side: LogFile['side']) => files.filter((file) => file.side === side).length;
  const [plain, before, after] = [count(undefined), count('before'), count('after')];
  const problems: string[] = [];
  if (files.length === 0) problems.push('name a log file, or - for what comes on stdin');
  if (files.filter(({ path }) => path === '-').length > 1) problems.push('- stands once: there is one stdin');
  if (before + after > 0 && (before === 0 || after === 0)) problems.push('--before and --after go together');
  if (before + after > 0 && plain > 0) problems.push('with --before and --after each file belongs to one of them');
  if (before + after > 0 && split) problems.push('--split, or --before and --after; not both');
  return problems;
}

type Times = Pick<ReportRequest, 'sinceMs' | 'untilMs' | 'splitMs'>;

function readTimes(said: ReadonlyMap<FlagName, string>, nowMs: number, problems: string[]): Times {
  const times: { -readonly [key in keyof Times]: Times[key] } = {};
  for (const [name, key] of [
    ['since', 'sinceMs'],
    ['until', 'untilMs'],
    ['split', 'splitMs'],
  ] as const) {
    const text = said.get(name);
    if (text === undefined) continue;
    const atMs = parseTime(text, nowMs);
    if (atMs === undefined)
      problems.push(`--${name} ${JSON.stringify(text)} is no time; write 24h, 90m, 2026-03-01 or 2026-03-01T14:30`);
    else times[key] = atMs;
  }
  const { sinceMs, untilMs, splitMs } = times;
  if (sinceMs !== undefined && untilMs !== undefined && sinceMs >= untilMs)
    problems.push('--since lies behind --until');
  if (splitMs !== undefined && (splitMs <= (sinceMs ?? splitMs - 1) || splitMs >= (untilMs ?? splitMs + 1)))
    problems.push('--split must lie between --since and --until');
  return times;
}

function readTop(text: string | undefined, problems: string[]): number {
  const top = text === undefined ? defaultTop : Number(text);
  if (Number.isInteger(top) && top >= 0 && top <= mostTop) return top;
  problems.push(`--top ${JSON.stringify(text)} is no whole number from 0 to ${mostTop}`);
  return defaultTop;
}

const unitMs: Readonly<Record<string, number>> = {
  s: 1000,
  m: 60_000,
  h: 3_600_000,
  d: 86_400_000,
  w: 604_800_000,
};

/**
 * `24h`: so long before now. Else ISO 8601; without a zone it is this machine's time.
 * @returns ms since the epoch
 */
export function parseTime(text: string, nowMs: number): number | undefined {
  const ago = /^(\d+(?:\.\d+)?)([smhdw])$/.exec(text);
  if (ago !== null) return nowMs - Number(ago[1]) * (unitMs[ago[2] ?? ''] ?? 0);
  const iso = /^(\d{4}-\d{2}-\d{2})(?:[T ](\d{2}:\d{2}(?::\d{2}(?:\.\d+)?)?)(Z|[+-]\d{2}:?\d{2})?)?$/.exec(text);
  if (iso === null) return undefined;
  const atMs = Date.parse(`${iso[1]}T${iso[2] ?? '00:00'}${iso[3] ?? ''}`);
  return Number.isNaN(atMs) ? undefined : atMs;
}
