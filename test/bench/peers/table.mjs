/** Rows → Markdown: a table for each load, a line for each router; medians over the repetitions, with the range where it matters. */
import { median } from '../goals.mjs';
import { show } from '../summary.mjs';

/**
 * @typedef {ReturnType<typeof import('./figures.mjs').figuresOf> & {
 *   load: string, router: string, repetition: number,
 *   routerCpuShare: number | null, fleetCpuShare: number, othersCpuShare: number,
 * }} Row
 */

/** @typedef {(row: Row) => number | null | undefined} Figure */

/** @param {Row[]} rows @param {Figure} figure */
const valuesOf = (rows, figure) => rows.map(figure).filter((value) => value !== null && value !== undefined);

/** @param {Row[]} rows @param {Figure} figure @param {(value: number) => string} [write] */
function middle(rows, figure, write = show) {
  const values = valuesOf(rows, figure);
  return values.length === 0 ? '–' : write(median(values));
}

/** @param {Row[]} rows @param {Figure} figure @param {(value: number) => string} [write] with smallest and largest */
function ranged(rows, figure, write = show) {
  const values = valuesOf(rows, figure);
  if (values.length < 2) return middle(rows, figure, write);
  return `${write(median(values))} (${write(Math.min(...values))}–${write(Math.max(...values))})`;
}

/** @param {number} value */
const percent = (value) => `${(value * 100).toFixed(1)} %`;

/** @type {readonly { title: string, cell: (rows: Row[]) => string }[]} */
const columns = [
  { title: 'hit tokens', cell: (rows) => ranged(rows, (row) => row.hitRate, percent) },
  { title: 'TTFT p50, ms', cell: (rows) => ranged(rows, (row) => row.ttftMs?.p50) },
  { title: 'TTFT p99, ms', cell: (rows) => ranged(rows, (row) => row.ttftMs?.p99) },
  { title: 'TPOT p50, ms', cell: (rows) => middle(rows, (row) => row.tpotMs?.p50) },
  { title: 'TPOT p99, ms', cell: (rows) => middle(rows, (row) => row.tpotMs?.p99) },
  { title: 'within SLO', cell: (rows) => ranged(rows, (row) => row.goodShare, percent) },
  { title: 'goodput, requests/s', cell: (rows) => middle(rows, (row) => row.goodPerSecond) },
  { title: 'requests max/mean', cell: (rows) => middle(rows, (row) => row.peakRequests) },
  { title: 'uncached max/mean', cell: (rows) => middle(rows, (row) => row.peakUncached) },
  { title: 'failed', cell: (rows) => middle(rows, (row) => row.failures + row.skipped) },
  { title: 'router CPU', cell: (rows) => middle(rows, (row) => row.routerCpuShare, percent) },
  {
    title: 'fleet + client CPU',
    cell: (rows) => middle(rows, (row) => row.fleetCpuShare + row.clientCpuShare, percent),
  },
  { title: 'client lag p99, ms', cell: (rows) => middle(rows, (row) => row.clientLagP99Ms) },
  { title: 'others’ CPU', cell: (rows) => middle(rows, (row) => row.othersCpuShare, percent) },
];

/** @param {Row[]} rows @param {{ names: string[], loads: { name: string, title: string }[], slo: import('./figures.mjs').Slo }} of */
export function renderTables(rows, { names, loads, slo }) {
  const lines = [`SLO: first token within ${slo.ttftMs} ms, ${slo.tpotMs} ms for each further one on average.`, ''];
  for (const { name, title } of loads) {
    const own = rows.filter((row) => row.load === name);
    if (own.length === 0) continue;
    lines.push(`## ${title}`, '', `| router | ${columns.map((column) => column.title).join(' | ')} |`);
    lines.push(`| --- |${' ---: |'.repeat(columns.length)}`);
    for (const router of names) {
      const of = own.filter((row) => row.router === router);
      if (of.length > 0) lines.push(`| ${router} | ${columns.map(({ cell }) => cell(of)).join(' | ')} |`);
    }
    lines.push('');
  }
  return lines.join('\n');
}

/** One run on one line. @param {Row} row */
export function describeRow(row) {
  const parts = [
    `hit ${row.hitRate === null ? '–' : percent(row.hitRate)}`,
    `TTFT p50 ${show(row.ttftMs?.p50)} p99 ${show(row.ttftMs?.p99)} ms`,
    `TPOT p50 ${show(row.tpotMs?.p50)} ms`,
    `within SLO ${row.goodShare === null ? '–' : percent(row.goodShare)} of ${row.requests}`,
    `uncached max/mean ${show(row.peakUncached ?? undefined)}`,
    row.failures + row.skipped > 0 ? `FAILED ${row.failures}, not asked ${row.skipped}: ${row.firstFailure}` : '',
    row.toldCachedTokens === row.countedCachedTokens
      ? ''
      : `answers told ${row.toldCachedTokens} cached tokens, engines counted ${row.countedCachedTokens}`,
    row.fleetCpuShare + row.clientCpuShare > 0.8 ? 'LOAD CORE SATURATED' : '',
    row.othersCpuShare > 0.25 ? `others took ${Math.round(row.othersCpuShare * 100)} % of a core` : '',
  ];
  return `${row.repetition} ${row.load.padEnd(10)} ${row.router.padEnd(32)} ${parts.filter((part) => part !== '').join(' · ')}`;
}
