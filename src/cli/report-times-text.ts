/** The tables of times: one for each figure, a line for each population, and below what has no value and why. Pure. */
import type { FigureName, FigureResult, QuantileName } from '../account/report/figures.ts';
import type { PopulationResult } from '../account/report/populations.ts';
import { countOf, digits, grouped, listed, shortened, table, wrapped } from './report-table.ts';

const titles: Readonly<Record<FigureName, string>> = {
  ttft: 'TTFT',
  ttfa: 'TTFA',
  tpot: 'TPOT',
  itl: 'ITL',
  e2e: 'E2E',
  queue: 'queue',
  overhead: 'overhead',
};
const figures = Object.keys(titles) as readonly FigureName[];
/** Each with the values below which it would only be the largest one. */
const quantiles: readonly (readonly [QuantileName, number])[] = [
  ['p50', 1],
  ['p90', 10],
  ['p95', 20],
  ['p99', 100],
  ['p999', 1000],
];
/** Of each model and each backend only these are printed; `--json` has all. */
const figuresByName: readonly FigureName[] = ['ttft', 'tpot', 'e2e'];
const briefFigures: readonly FigureName[] = ['ttft', 'tpot', 'e2e', 'queue'];
const mostNames = 12;

export function timesLines(populations: readonly PopulationResult[]): readonly string[] {
  const main = populations.filter(({ by }) => by === 'all' || by === 'warmth');
  const all = populations.find(({ by }) => by === 'all');
  const sameFirst = all !== undefined && isSame(all.figures.ttft, all.figures.ttfa);
  const rows = figures.flatMap((figure) => {
    if (figure === 'ttfa' && sameFirst) return [];
    const lines = main.flatMap((population) => figureRow(population.figures[figure], population.name ?? 'all'));
    // One warmth alone is all of them.
    const shown = lines.length === 2 ? lines.slice(1) : lines;
    const title = figure === 'ttft' && sameFirst ? 'TTFT, TTFA' : titles[figure];
    return shown.map((cells, i) => [i === 0 ? title : '', ...cells]);
  });
  const lines = [
    ...(rows.length === 0 ? [] : timesTable(rows)),
    ...(rows.some((cells) => cells.includes('–'))
      ? ['  – needs more values: p90 has a meaning from 10 on, p95 from 20, p99 from 100, p99.9 from 1,000.']
      : []),
    ...(all === undefined ? [] : withoutLines(all)),
    ...namedTable(populations, 'model'),
    ...namedTable(populations, 'backend'),
    ...endpointTable(populations),
  ];
  return [...lines, ...starLines(lines)];
}

/** Of a lane whose users wait for nothing: the figures of all of it, by no name. */
export function briefTimesLines(populations: readonly PopulationResult[]): readonly string[] {
  const all = populations.find(({ by }) => by === 'all');
  if (all === undefined) return endpointTable(populations);
  const rows = briefFigures.flatMap((figure) =>
    figureRow(all.figures[figure], '').map((cells) => [titles[figure], ...cells]),
  );
  const lines = [...(rows.length === 0 ? [] : timesTable(rows)), ...endpointTable(populations)];
  return [...lines, ...starLines(lines)];
}

function timesTable(rows: readonly (readonly string[])[]): readonly string[] {
  const columns = [
    { title: '', left: true },
    { title: '', left: true },
    { title: 'n' },
    ...['p50', 'p90', 'p95', 'p99', 'p99.9', 'max', 'mean'].map((title) => ({ title })),
    { title: 'not ok' },
  ];
  return table(columns, rows);
}

/** Without reasoning the first answer token is the first token. */
function isSame(a: FigureResult, b: FigureResult): boolean {
  return a.values === b.values && a.spread?.mean === b.spread?.mean && a.spread?.max === b.spread?.max;
}

/** @returns nothing when no request has the figure */
function figureRow(figure: FigureResult, name: string): readonly (readonly string[])[] {
  const { spread, values, notOk, never } = figure;
  if (spread === undefined) return [];
  return [
    [
      shortened(name, 24),
      grouped(values),
      ...quantiles.map(([quantile, least]) =>
        values < least ? '–' : `${digits(spread[quantile])}${never.includes(quantile) ? '*' : ''}`,
      ),
      digits(spread.max),
      digits(spread.mean),
      notOk === 0 ? '' : grouped(notOk),
    ],
  ];
}

/** Where there are several models (backends): each by warmth. */
function namedTable(populations: readonly PopulationResult[], by: 'model' | 'backend'): readonly string[] {
  const names = populations
    .filter((population) => population.by === by && population.warmth === undefined)
    .toSorted((a, b) => b.requests - a.requests);
  if (names.length < 2) return [];
  const shown = names.slice(0, mostNames);
  const rows = shown.flatMap(({ name = '' }) => {
    const own = populations.filter((population) => population.by === by && population.name === name);
    return figuresByName.flatMap((figure) => {
      const lines = own.flatMap((population) => figureRow(population.figures[figure], population.warmth ?? 'all'));
      const reduced = lines.length === 2 ? lines.slice(1) : lines;
      return reduced.map((cells, i) => [i === 0 ? titles[figure] : '', ...cells]);
    });
  });
  const counts = shown.map(({ name = '' }) => rowsOf(populations, by, name));
  const whole = timesTable(rows);
  const blocks = shown.flatMap(({ name = '', requests }, i) => {
    const from = 1 + counts.slice(0, i).reduce((sum, count) => sum + count, 0);
    return [
      `  ${by} ${shortened(name, 60)}, ${countOf(requests, 'request')}`,
      ...whole.slice(from, from + (counts[i] ?? 0)),
    ];
  });
  const more = names.length - shown.length;
  return ['', ...whole.slice(0, 1), ...blocks, ...(more > 0 ? [`  ${more} more: see --json`] : [])];
}

function rowsOf(populations: readonly PopulationResult[], by: string, name: string): number {
  const own = populations.filter((population) => population.by === by && population.name === name);
  return figuresByName.reduce((sum, figure) => {
    const lines = own.filter((population) => population.figures[figure].spread !== undefined).length;
    return sum + (lines === 2 ? 1 : lines);
  }, 0);
}

/** Endpoints that generate nothing are no population of the others. */
function endpointTable(populations: readonly PopulationResult[]): readonly string[] {
  const rows = populations
    .filter(({ by }) => by === 'endpoint')
    .flatMap(({ name = '', figures: own }) => figureRow(own.e2e, name).map((cells) => ['E2E', ...cells]));
  return rows.length === 0 ? [] : ['', '  Other endpoints', ...timesTable(rows)];
}

function withoutLines({ figures: own }: PopulationResult): readonly string[] {
  const width = Math.max(...figures.map((figure) => `no ${titles[figure]}`.length));
  const lines = figures.flatMap((figure) => {
    const items = Object.entries(own[figure].without).map(([reason, count]) => `${reason} ${grouped(count)}`);
    return listed(`no ${titles[figure]}`, items, width);
  });
  return lines.length === 0 ? [] : ['', '  Requests that have no value, by reason', ...lines];
}

/** @param lines of all tables: a star that isn't printed needs no word. */
function starLines(lines: readonly string[]): readonly string[] {
  return lines.some((line) => /\s[\d.,]+\*(\s|$)/.test(line))
    ? wrapped(
        '* Of the requests that have a value. So many failed before they could have one that, with those counted in, this percentile is never reached.',
      )
    : [];
}
