/** The account as text for people: sections in the order in which one asks. Pure; figures come as they are, none is made here. */
import type { ConcurrencyResult } from '../account/report/concurrency.ts';
import type { FindingResult } from '../account/report/finding-lines.ts';
import type { CountedName, HeadlineResult } from '../account/report/headline.ts';
import type { ReportResult } from '../account/report/report.ts';
import { prefixCacheLines } from './report-cache-text.ts';
import { comparisonLines } from './report-compare-text.ts';
import { slowLines, stallLines } from './report-slow-text.ts';
import { briefTimesLines, timesLines } from './report-times-text.ts';
import { sloLines, tokenLines } from './report-tokens-text.ts';
import {
  countOf,
  digits,
  duration,
  grouped,
  heading,
  listed,
  percent,
  printable,
  shortened,
  table,
  wrapped,
} from './report-table.ts';
import type { LineCounts } from './report-input.ts';
import type { ReadProblem } from './report-merge.ts';

export interface ReportInput extends LineCounts {
  readonly files: number;
  readonly problems: readonly ReadProblem[];
}

export interface TextSettings {
  /** what was asked for, such as `model m`; shown */
  readonly filters: readonly string[];
  readonly colour: boolean;
}

export function reportText(result: ReportResult, input: ReportInput, settings: TextSettings): string {
  const section = (title: string, lines: readonly string[]) =>
    lines.length === 0 ? [] : ['', heading(title, settings.colour), ...lines];
  const lines = [
    ...headLines(result, input, settings),
    ...(result.comparison === undefined ? [] : section('Before and after', comparisonLines(result.comparison))),
    ...(result.requests.total === 0 ? [] : sections(result, section)),
    '',
  ];
  return lines.join('\n');
}

type Section = (title: string, lines: readonly string[]) => readonly string[];

/** Where both lanes occur, the figures of who waited for an answer come by themselves, and batch has a section of its own. */
function sections(result: ReportResult, section: Section): readonly string[] {
  const { lanes = [] } = result;
  const [online = result, ...others] = lanes;
  const of = lanes.length > 1 ? `, ${lanes[0]?.lane}` : '';
  return [
    ...section('Requests', countLines(result)),
    ...(lanes.length > 1 ? laneLines(lanes) : []),
    ...section(`Times in ms${of}`, timesLines(online.populations)),
    ...section(`Tokens${of}`, tokenLines(online)),
    ...section('Prefix cache', prefixCacheLines(result.prefixCache)),
    ...section('SLOs and goodput', sloLines(result)),
    ...result.concurrency.flatMap((backend) =>
      section(`Streams at once on ${shortened(backend.backend, 60)}`, concurrencyLines(backend)),
    ),
    ...section('Streams held up by other requests’ prefills', stallLines(result.stalls)),
    ...section('Findings that were logged', findingLines(result.findings)),
    ...section(`Longest until the first token${of}`, slowLines(online.slowest.toFirstToken)),
    ...section(`Longest until the end${of}`, slowLines(online.slowest.whole)),
    ...others.flatMap((one) => [
      ...section(`Lane ${one.lane}: times in ms`, briefTimesLines(one.populations)),
      ...section(
        `Lane ${one.lane}: tokens`,
        tokenLines({ ...one, tokens: { ...one.tokens, byModel: {}, byBackend: {} } }),
      ),
      ...section(`Lane ${one.lane}: longest until the end`, slowLines(one.slowest.whole)),
    ]),
  ];
}

/** Of the counts above, how each lane fared; the rest of a lane is shown by `--lane`. */
function laneLines(lanes: readonly (HeadlineResult & { readonly lane: string })[]): readonly string[] {
  const parts = lanes.map(({ lane, requests }) => `${lane} ${grouped(requests.ok)} of ${grouped(requests.total)} ok`);
  return wrapped(`By lane: ${parts.join('; ')}. Below they are apart; --lane NAME shows one of them alone.`);
}

function headLines(
  { window, requests }: ReportResult,
  input: ReportInput,
  { filters, colour }: TextSettings,
): readonly string[] {
  const { from, to, seconds } = window;
  const span =
    from === undefined || to === undefined ? 'nothing' : `${moment(from)} to ${moment(to)} UTC, ${duration(seconds)}`;
  const files = input.files === 1 ? '1 file' : `${input.files} files`;
  const rest = [
    countOf(input.requests, 'request'),
    countOf(input.others, 'other line'),
    ...(input.malformed > 0 ? [`${grouped(input.malformed)} malformed`] : []),
    ...(input.foreign > 0 ? [`${grouped(input.foreign)} not warmlane's`] : []),
  ];
  return [
    heading(`warmlane report: ${span}`, colour),
    ...wrapped(`${files}, ${countOf(input.lines, 'line')}: ${rest.join(', ')}.`),
    ...(filters.length === 0
      ? []
      : wrapped(
          `Only ${filters.map(printable).join(', ')}: ${countOf(requests.leftOut, 'request')} ${requests.leftOut === 1 ? 'is' : 'are'} left out.`,
        )),
    ...input.problems.flatMap(({ path, why, partly }) =>
      wrapped(`${partly ? 'Not read to its end' : 'Not read'}: ${printable(path)}: ${printable(why)}.`),
    ),
  ];
}

/** `2026-03-01 14:30:05` */
function moment(iso: string): string {
  return iso.slice(0, 19).replace('T', ' ');
}

const shownNames: readonly (readonly [CountedName, string])[] = [
  ['outcome', 'outcome'],
  ['status', 'status'],
  ['model', 'model'],
  ['backend', 'backend'],
  ['lane', 'lane'],
  ['endpoint', 'endpoint'],
  ['streamed', 'streamed'],
  ['warmth', 'warmth'],
  ['routeReason', 'routed by'],
  ['routePolicy', 'policy'],
  ['finish', 'finish'],
  ['marks', 'marked'],
];
const mostListed = 12;

function countLines({ requests }: ReportResult): readonly string[] {
  const width = Math.max(...shownNames.map(([, title]) => title.length));
  const items = (counts: Readonly<Record<string, number>>) => {
    const entries = Object.entries(counts);
    const more = entries.length - mostListed;
    return [
      ...entries.slice(0, mostListed).map(([name, count]) => `${shortened(yesNo(name), 40)} ${grouped(count)}`),
      ...(more > 0 ? [`${more} more`] : []),
    ];
  };
  return shownNames.flatMap(([name, title]) => {
    const lines = listed(title, items(requests.by[name]), width);
    return name === 'outcome' ? [...lines, ...listed('not ok', items(requests.failures), width)] : lines;
  });
}

function yesNo(name: string): string {
  if (name === 'true') return 'yes';
  return name === 'false' ? 'no' : name;
}

function concurrencyLines(result: ConcurrencyResult): readonly string[] {
  const { levels, busySeconds } = result;
  const shown = (value: number | undefined) => (value === undefined ? '' : digits(value));
  const rows = levels.map((level) => [
    level.to === undefined ? `${level.from}+` : level.from === level.to ? `${level.from}` : `${level.from}–${level.to}`,
    duration(level.seconds),
    percent(level.share),
    shown(level.tokensPerSecond),
    shown(level.userTokensPerSecond),
    grouped(level.requests),
    shown(level.tpot?.p50),
    shown(level.tpot?.p99),
    shown(level.itl?.p50),
    shown(level.itl?.p99),
  ]);
  const titles = ['at once', 'time', 'of busy', 'tokens/s', 'per user', 'streams', 'TPOT p50', 'p99', 'ITL p50', 'p99'];
  return [
    ...(rows.length === 0
      ? []
      : table(
          titles.map((title) => ({ title })),
          rows,
        )),
    ...(busySeconds > 0 ? [`  A stream decoded during ${duration(busySeconds)}.`] : []),
    ...concurrencyNotes(result).flatMap((note) => wrapped(note)),
  ];
}

function concurrencyNotes({ coldStarts, levelFromMoments, clipped, unseen }: ConcurrencyResult): readonly string[] {
  const notes: readonly (readonly [string, number, string])[] = [
    ['Streams of a server that had just been started', coldStarts, 'They are in no line, only in the time.'],
    ['Streams without a level in their log lines', levelFromMoments, 'It was taken from the moments in the log.'],
    ["Streams that began too long before their neighbours' ends", clipped, 'They are cut short in the time.'],
    ['Answers that did not stream', unseen, 'When they decoded was not seen, and they are not counted here.'],
  ];
  return notes.flatMap(([what, count, note]) => (count > 0 ? [`${what}: ${grouped(count)}. ${note}`] : []));
}

function findingLines(findings: readonly FindingResult[]): readonly string[] {
  return findings.flatMap(({ kind, backend, begun: logged, leftOut, seconds, firstAt, lastAt, says, evidence }) => {
    const where = backend === undefined ? '' : ` on ${printable(backend)}`;
    const lasted = seconds > 0 ? `, ${duration(seconds)} in all` : '';
    const told = Object.entries(evidence).map(([name, value]) => `${name}=${value}`);
    const count = logged + leftOut;
    const times = count === 1 ? 'once' : `${grouped(count)} times`;
    const when = firstAt === lastAt ? moment(firstAt) : `${moment(firstAt)} to ${moment(lastAt)}`;
    return [
      ...wrapped(`${printable(kind)}${where}: ${times}${lasted}, ${when}`),
      ...(says === undefined ? [] : wrapped(printable(says), '    ')),
      ...(told.length === 0 ? [] : wrapped(printable(told.join(' ')), '    ')),
    ];
  });
}
