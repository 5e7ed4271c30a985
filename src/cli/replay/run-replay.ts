/**
 * `warmlane replay`: reads or makes a trace, plays it against simulated engines behind the router that serves, prints how policies
 * and fleets compare. Opens no socket, changes nothing.
 */
import { createTraceReader, type ReadTrace, type TraceLane } from '../../sim/traces/read-trace.ts';
import { generators } from '../../sim/traces/generators/generator.ts';
import { beginningOf, type Trace } from '../../sim/traces/trace.ts';
import type { Process } from '../process.ts';
import { createOpenLog, readLines, unpacked } from '../report-input.ts';
import { reasonOf } from '../report-merge.ts';
import { countOf, percent } from '../report-table.ts';
import { compare } from './compare.ts';
import { parseReplayArguments, type ReplayRequest } from './replay-args.ts';
import { replayHelp } from './replay-help.ts';
import { replayJson, type ReplayInput } from './replay-json.ts';
import { replayText } from './replay-text.ts';
import { prepareWorkload } from './workload.ts';

/** More requests than this are not read: a prompt's ids take some hundred bytes to some kilobytes. */
const mostRequests = 1_000_000;

/**
 * @param argv what follows `replay`
 * @returns the exit code: 0 when something was played, 1 when there was no request, 2 when it was asked for wrongly
 */
export async function runReplay(argv: readonly string[], process: Process): Promise<0 | 1 | 2> {
  const request = parseReplayArguments(argv);
  if (request.kind === 'help') {
    process.out(replayHelp());
    return 0;
  }
  if (request.kind === 'wrong') {
    for (const problem of request.problems) process.err(`warmlane replay: ${problem}\n`);
    process.err('Try warmlane replay --help.\n');
    return 2;
  }
  const found = await traceOf(request, process);
  if (found === undefined) return 1;
  const trace = beginningOf(found.trace, {
    ...(request.most === undefined ? {} : { most: request.most }),
    ...(request.untilMs === undefined ? {} : { untilMs: request.untilMs }),
  });
  if (trace.requests.length === 0) {
    process.err(`warmlane replay: there is no request to play in ${trace.name}${elsewhere(found.input)}\n`);
    return 1;
  }
  const workload = prepareWorkload(trace);
  const settings = compare(workload, request, {
    played({ backends, kvTokens, scale }, { policy, goodShare }) {
      if (process.terminal !== true) return;
      process.err(`${backends} backends, ${kvTokens} KV, load × ${scale}: ${policy}, ${percent(goodShare)} good\n`);
    },
  });
  const about = { workload, input: found.input, comparison: request };
  const colour = process.terminal === true && process.env['NO_COLOR'] === undefined;
  process.out(request.json ? replayJson(settings, about) : replayText(settings, { ...about, colour }));
  return 0;
}

/** All that was there is of the other lane. */
function elsewhere({ lane, leftOut = 0 }: ReplayInput): string {
  if (leftOut === 0) return '';
  const other = lane === 'online' ? 'batch' : 'online';
  return `: ${countOf(leftOut, 'request')} of lane ${other}; --lane all or --lane ${other} plays them`;
}

async function traceOf(
  request: ReplayRequest,
  process: Process,
): Promise<{ readonly trace: Trace; readonly input: ReplayInput } | undefined> {
  const { source, seed } = request;
  if (source.kind === 'generated') {
    const trace = generators[source.name].make({ ...source, seed });
    return { trace, input: { format: 'generated', badLines: 0, problems: [] } };
  }
  const read = await readFile(source, { request, process });
  if (typeof read === 'string') {
    process.err(`warmlane replay: ${source.path}: ${read}\n`);
    return undefined;
  }
  for (const { line, why } of read.problems) process.err(`warmlane replay: line ${line} ${why}\n`);
  const unnamed = read.badLines - read.problems.length;
  if (unnamed > 0) process.err(`warmlane replay: and ${unnamed} more lines\n`);
  const { format, badLines, problems, leftOut } = read;
  return { trace: read.trace, input: { format, badLines, problems, lane: source.lane, leftOut } };
}

/** @returns why it can't be read, where it can't */
async function readFile(
  { path, lane }: { readonly path: string; readonly lane: TraceLane },
  { request, process }: { readonly request: ReplayRequest; readonly process: Process },
): Promise<ReadTrace | string> {
  const open = createOpenLog(() => process.input?.() ?? none());
  const maxRequests = Math.min(mostRequests, request.most ?? mostRequests);
  const reader = createTraceReader({ name: nameOf(path), seed: request.seed, maxRequests, lane });
  const tooLong = { lines: 0, malformed: 0 };
  try {
    for await (const lines of readLines(await unpacked(open(path), 'replay'), tooLong)) {
      for (const line of lines) reader.line(line);
      if (reader.full) break;
    }
  } catch (error) {
    return reasonOf(error);
  }
  if (tooLong.malformed > 0)
    process.err(`warmlane replay: ${tooLong.malformed} lines are too long and were left out\n`);
  return reader.end();
}

function nameOf(path: string): string {
  return path === '-' ? 'stdin' : (path.split('/').at(-1) ?? path);
}

async function* none(): AsyncGenerator<Uint8Array> {}
