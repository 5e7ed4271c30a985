/**
 * Reads a trace line by line, in whichever of the known formats it is: told by its first line. Bad lines are left out and named.
 * Reads no file itself.
 */
import { assemble } from './assemble.ts';
import { azure, isAzureHeading } from './azure.ts';
import { createBailian } from './bailian.ts';
import { parseJsonLine } from './json-line.ts';
import { mooncake } from './mooncake.ts';
import type { TraceFormat, TraceRow } from './row.ts';
import type { Trace, TraceProblem } from './trace.ts';

export interface TraceReader {
  line(text: string): void;
  /** True once it has all the requests that it may have: the rest need not be read. */
  readonly full: boolean;
  end(): ReadTrace;
}

export interface ReadTrace {
  readonly format: TraceFormat['name'] | 'unknown';
  readonly trace: Trace;
  readonly lines: number;
  readonly badLines: number;
  /** of another lane than was asked for */
  readonly leftOut: number;
  /** the first of them */
  readonly problems: readonly TraceProblem[];
}

export interface ReadSettings {
  readonly name: string;
  /** spreads what a trace put into bins */
  readonly seed: number;
  readonly maxRequests: number;
  /** `all` unless given */
  readonly lane?: TraceLane;
}

export const traceLanes = ['online', 'batch', 'all'] as const;
/** Whose requests are wanted. */
export type TraceLane = (typeof traceLanes)[number];

const shownProblems = 10;

export function createTraceReader(settings: ReadSettings): TraceReader {
  const rows: TraceRow[] = [];
  const problems: TraceProblem[] = [];
  let format: TraceFormat | undefined;
  let lines = 0;
  let badLines = 0;
  let leftOut = 0;
  const { lane = 'all' } = settings;

  function bad(why: string): void {
    badLines += 1;
    if (problems.length < shownProblems) problems.push({ line: lines, why });
  }

  return {
    line(text) {
      lines += 1;
      if (text.trim() === '' || rows.length >= settings.maxRequests) return;
      format ??= formatOf(text);
      if (format === undefined) {
        bad(strangeLine(text));
        return;
      }
      const row = format.read(text, lines);
      if (row === undefined) return;
      if ('why' in row) bad(row.why);
      else if (lane !== 'all' && (row.lane ?? 'online') !== lane) leftOut += 1;
      else rows.push(row);
    },
    get full() {
      return rows.length >= settings.maxRequests;
    },
    end() {
      const known = format ?? mooncake;
      const { trace, problems: more } = assemble(rows, known, settings);
      return {
        format: format?.name ?? 'unknown',
        trace,
        lines,
        badLines: badLines + more.length,
        leftOut,
        problems: [...problems, ...more].slice(0, shownProblems),
      };
    },
  };
}

/** @returns undefined when the line tells nothing of the format: the next one is asked */
function formatOf(text: string): TraceFormat | undefined {
  if (isAzureHeading(text)) return azure;
  const fields = parseJsonLine(text);
  if (fields === undefined) return undefined;
  if ('chat_id' in fields && 'input_length' in fields) return createBailian();
  return 'input_length' in fields ? mooncake : undefined;
}

function strangeLine(text: string): string {
  if (/"msg":"request"|\bmsg=request\b/.test(text))
    return "is a request log's, which keeps nothing of prompts; telemetry.promptTrace writes what can be replayed";
  return 'is of no known format';
}
