/**
 * `warmlane report`: reads request logs in one pass and prints the account of them. Starts nothing, changes nothing.
 */
import { statSync } from 'node:fs';

import { createReport, type Report, type WindowSide } from '../account/report/report.ts';
import type { Row } from '../account/report/row.ts';
import type { Process } from './process.ts';
import { type LogFile, parseReportArguments, type ReportRequest } from './report-args.ts';
import { reportHelp } from './report-help.ts';
import { createOpenLog } from './report-input.ts';
import { reportJson } from './report-json.ts';
import { noCounts, type ReadProblem, readMerged } from './report-merge.ts';
import { type ReportInput, reportText } from './report-text.ts';

/**
 * @param argv what follows `report` @param nowMs wall clock
 * @returns the exit code: 0 when there is an account, 1 when no request could be read, 2 when it was asked for wrongly
 */
export async function runReport(argv: readonly string[], process: Process, nowMs: number): Promise<0 | 1 | 2> {
  const request = parseReportArguments(argv, nowMs);
  if (request.kind === 'help') {
    process.out(reportHelp());
    return 0;
  }
  if (request.kind === 'wrong') {
    for (const problem of request.problems) process.err(`warmlane report: ${problem}\n`);
    process.err('Try warmlane report --help.\n');
    return 2;
  }
  const report = createReport({ ...request, most: request.top });
  const input = await readLogs(request, report, process);
  for (const { path, why } of input.problems) process.err(`warmlane report: ${path}: ${why}\n`);
  if (input.requests === 0) {
    process.err(nothingText(input));
    return 1;
  }
  const result = report.result();
  const colour = process.terminal === true && process.env['NO_COLOR'] === undefined;
  process.out(
    request.json
      ? reportJson(result, input, request)
      : reportText(result, input, { filters: filtersOf(request), colour }),
  );
  return 0;
}

async function readLogs(request: ReportRequest, report: Report, process: Process): Promise<ReportInput> {
  const counts = noCounts();
  const problems: ReadProblem[] = [];
  const files = once(request.files);
  const open = createOpenLog(() => process.input?.() ?? none());
  const problem = (found: ReadProblem) => void problems.push(found);
  await readMerged(
    files.map(({ path, side }) => ({ path, tag: side })),
    { open, counts, problem },
    ({ line, row }, side) => {
      if (row === undefined) report.addLine(line);
      else report.add(row, sideOf(row, side, request.splitMs));
    },
  );
  return { ...counts, files: files.length, problems };
}

function sideOf(
  { startedAtMs }: Row,
  side: WindowSide | undefined,
  splitMs: number | undefined,
): WindowSide | undefined {
  if (splitMs === undefined) return side;
  return startedAtMs < splitMs ? 'before' : 'after';
}

/** A file that was named twice, by whatever name, is read once: its requests would count twice. */
function once(files: readonly LogFile[]): readonly LogFile[] {
  const seen = new Set<string>();
  return files.filter(({ path }) => {
    const stat = path === '-' ? undefined : statSync(path, { throwIfNoEntry: false });
    const key = stat === undefined ? path : `${stat.dev}:${stat.ino}`;
    if (seen.has(key)) return false;
    seen.add(key);
    return true;
  });
}

function filtersOf({ sinceMs, untilMs, model, backend, lane }: ReportRequest): readonly string[] {
  const moment = (atMs: number) => `${new Date(atMs).toISOString().slice(0, 19).replace('T', ' ')} UTC`;
  return [
    ...(sinceMs === undefined ? [] : [`since ${moment(sinceMs)}`]),
    ...(untilMs === undefined ? [] : [`before ${moment(untilMs)}`]),
    ...(model === undefined ? [] : [`model ${model}`]),
    ...(backend === undefined ? [] : [`backend ${backend}`]),
    ...(lane === undefined ? [] : [`lane ${lane}`]),
  ];
}

const howToGetOne =
  'A log is what warmlane writes to stderr: warmlane --backend URL --log-format json 2>>warmlane.log\n';

function nothingText({ lines, others, malformed, foreign, problems, files }: ReportInput): string {
  if (problems.length === files) return `Nothing could be read. ${howToGetOne}`;
  if (lines === 0) return `warmlane report: there is not one line in it. ${howToGetOne}`;
  if (others > 0)
    return `warmlane report: no request in ${lines} lines of warmlane's log: their lines have msg=request, and are written at log level info or debug while the configuration lets requests be logged\n`;
  const what =
    malformed > 0
      ? `${malformed} lines begin as warmlane's and can't be read`
      : `${foreign} lines, none of them warmlane's`;
  return `warmlane report: that is no request log: ${what}. ${howToGetOne}`;
}

async function* none(): AsyncGenerator<Uint8Array> {}
