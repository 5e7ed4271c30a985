/** The requests that one looks up next, by their whole ids: the slowest, and those that held others up. Pure. */
import type { SlowRequest } from '../account/report/slowest.ts';
import type { StallResult } from '../account/report/stalls.ts';
import {
  type Column,
  countOf,
  digits,
  duration,
  grouped,
  pageWidth,
  printable,
  short,
  shortened,
  table,
  wrapped,
} from './report-table.ts';

/** The longest id that warmlane takes from a client, or makes; a longer one is nobody's to look up. */
const longestId = 128;
const besideNumbers = 56;
const mostPhases = 3;
/** Keeps the column where no id stands beside the numbers. */
const ownLine = '\u0000';

export function stallLines({
  streams,
  ofStreams,
  stalledMs,
  longestMs,
  causes,
  worst,
}: StallResult): readonly string[] {
  if (streams === 0) return [];
  const lost = `${grouped(streams)} of ${countOf(ofStreams, 'stream')} lost ${duration(stalledMs / 1000)} in all, at most ${digits(longestMs)} ms at once, to ${countOf(causes, 'request')}. The worst, by each stream's longest stall:`;
  // A column without any value is left out.
  const unknown = worst.some(({ promptTokens }) => promptTokens !== undefined) ? '–' : '';
  const rows = worst.map((cause) => [
    shortened(cause.backend ?? '', 20),
    cause.promptTokens === undefined ? unknown : grouped(cause.promptTokens),
    grouped(cause.streams),
    digits(cause.stallMs),
    digits(cause.longestMs),
  ]);
  const columns = [
    { title: 'backend', left: true },
    { title: 'prefilled' },
    { title: 'streams' },
    { title: 'ms in all' },
    { title: 'longest' },
  ];
  const ids = worst.map(({ requestId }) => requestId);
  return [...wrapped(lost), ...tableById('request', ids, { columns, rows, beside: 36 })];
}

export function slowLines(requests: readonly SlowRequest[]): readonly string[] {
  const columns = [{ title: 'ms' }, { title: 'TTFT' }, { title: 'in' }, { title: 'cached' }, { title: 'out' }];
  const rows = requests.map((request) => [
    digits(request.durationMs),
    request.ttftMs === undefined ? '–' : digits(request.ttftMs),
    request.promptTokens === undefined ? '' : short(request.promptTokens),
    request.cachedTokens === undefined ? '' : short(request.cachedTokens),
    request.outputTokens === undefined ? '' : short(request.outputTokens),
  ]);
  const ids = requests.map(({ requestId }) => requestId);
  const notes = requests.map(({ outcome, phases }) =>
    shortened(
      [
        ...(outcome === 'ok' ? [] : [outcome]),
        ...phases.slice(0, mostPhases).map(({ phase, ms }) => `${phase} ${digits(ms)}`),
      ].join(', '),
      pageWidth - 4,
    ),
  );
  return tableById('request, and below it where the time went', ids, { columns, rows, notes, beside: besideNumbers });
}

interface ById {
  /** without that of the id */
  readonly columns: readonly Column[];
  readonly rows: readonly (readonly string[])[];
  /** a line below each row */
  readonly notes?: readonly string[];
  /** Characters of an id that have room beside the numbers; a longer one has a line of its own above them. */
  readonly beside: number;
}

/** A table whose first column is ids, none of which is cut: what they end with is what tells lines of a batch apart. */
function tableById(title: string, ids: readonly string[], { columns, rows, notes, beside }: ById): readonly string[] {
  if (rows.length === 0) return [];
  const whole = ids.map((id) => (id.length > longestId ? shortened(id, beside) : printable(id)));
  const [head = '', ...lines] = table(
    [{ title, left: true }, ...columns],
    rows.map((cells, i) => [(whole[i] ?? '').length > beside ? ownLine : (whole[i] ?? ''), ...cells]),
  );
  const below = (i: number) => (notes?.[i] === undefined || notes[i] === '' ? [] : [`    ${notes[i]}`]);
  return [
    head,
    ...lines.flatMap((line, i) => [
      ...((whole[i] ?? '').length > beside ? [`  ${whole[i]}`] : []),
      line.replace(`  ${ownLine}`, '   '),
      ...below(i),
    ]),
  ];
}
