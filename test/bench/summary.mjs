/**
 * The summary: rows of results → Markdown. Figures are medians over the repetitions; a ratio is the median of the
 * per-repetition ratios to nginx, with the smallest and largest beside it.
 */
import { figures, judgeGoals, median } from './goals.mjs';
import { foreignShare } from './measure.mjs';
import { scenarios } from './scenarios.mjs';

/** @typedef {import('./goals.mjs').Row} Row */
/** @typedef {{ title: string, cell: (own: Row[], baseline: Row[], direct: Row[]) => string }} Column */

/** @param {number | undefined} value */
export function show(value) {
  if (value === undefined || Number.isNaN(value)) return '–';
  if (Number.isInteger(value)) return value.toLocaleString('en-GB');
  const size = Math.abs(value);
  return size >= 1000
    ? Math.round(value).toLocaleString('en-GB')
    : size >= 100
      ? value.toFixed(0)
      : size >= 10
        ? value.toFixed(1)
        : value.toFixed(2);
}

/** One run on one line. @param {Row} row */
export function describeRow(row) {
  const parts = [
    row.cpuMicrosPerToken === undefined ? '' : `${show(row.cpuMicrosPerToken)} µs CPU/token`,
    row.tokenLatencyMicros === null
      ? ''
      : `p50 ${show(row.tokenLatencyMicros.p50)} p99 ${show(row.tokenLatencyMicros.p99)} µs`,
    row.firstTokenMicros === null ? '' : `first token p50 ${show(row.firstTokenMicros.p50)} µs`,
    row.requestsPerSecond === 0 ? '' : `${show(row.requestsPerSecond)} requests/s`,
    row.cpuMicrosPerRequest === undefined ? '' : `${show(row.cpuMicrosPerRequest)} µs CPU/request`,
    row.rssBeforeKb === undefined ? '' : `RSS ${show(row.rssBeforeKb / 1024)} → ${show(row.proxyRssKb / 1024)} MB`,
    foreignShare(row) > 0.1 ? `others took ${Math.round(foreignShare(row) * 100)} % of a core` : '',
    row.loadShare > 0.9 ? 'LOAD SIDE SATURATED' : '',
    row.errorCount > 0 ? `ERRORS ${JSON.stringify(row.errors)} ${row.firstError}` : '',
  ];
  return `${row.repetition} ${row.scenario.padEnd(14)} ${row.candidate.padEnd(12)} ${parts.filter((part) => part !== '').join(' · ')}`;
}

/** @param {Row[]} rows @param {(row: Row) => number | null | undefined} figure */
function middle(rows, figure) {
  const values = rows.map(figure).filter((value) => value !== undefined && value !== null);
  return values.length === 0 ? undefined : median(values);
}

/** @param {string} title @param {(row: Row) => number | null | undefined} figure @returns {Column} */
const plain = (title, figure) => ({ title, cell: (own) => show(middle(own, figure)) });

/** @param {string} title @param {(row: Row) => number | undefined} figure @returns {Column} */
const share = (title, figure) => ({
  title,
  cell: (own) => {
    const value = middle(own, figure);
    return value === undefined ? '–' : `${Math.round(value * 100)} %`;
  },
});

/** @param {string} title @param {(own: Row, other: Row) => number | undefined} compare @param {'baseline' | 'direct'} with_ @returns {Column} */
const paired = (title, compare, with_) => ({
  title,
  cell: (own, baseline, direct) => {
    const others = with_ === 'baseline' ? baseline : direct;
    const values = own
      .map((row) => {
        const other = others.find(({ repetition }) => repetition === row.repetition);
        return other === undefined ? undefined : compare(row, other);
      })
      .filter((value) => value !== undefined);
    if (values.length === 0) return '–';
    return `${show(median(values))} (${show(Math.min(...values))}–${show(Math.max(...values))})`;
  },
});

/** @param {string} title @param {((row: Row) => number | undefined) | undefined} figure @returns {Column} */
const toNginx = (title, figure) =>
  paired(
    title,
    (own, other) => {
      const [above, below] = [figure?.(own), figure?.(other)];
      return above === undefined || below === undefined || below === 0 ? undefined : above / below;
    },
    'baseline',
  );

/** @param {string} title @param {(row: Row) => number | undefined} figure @returns {Column} */
const added = (title, figure) =>
  paired(
    title,
    (own, other) => {
      const [with_, without] = [figure(own), figure(other)];
      return own.candidate === 'direct' || with_ === undefined || without === undefined ? undefined : with_ - without;
    },
    'direct',
  );

/** @param {Row} row */
const rssMb = (row) => (row.candidate === 'direct' ? undefined : row.proxyRssKb / 1024);

/** @type {readonly Column[]} */
const loads = [
  share('proxy core', (row) => (row.candidate === 'direct' ? undefined : row.proxyShare)),
  share('load core', (row) => row.loadShare),
  share('others, proxy core', (row) => row.foreignProxyShare),
  share('others, load core', (row) => row.foreignLoadShare),
  plain('errors', (row) => row.errorCount),
];

/** @type {Record<import('./scenarios.mjs').Kind, readonly Column[]>} */
const columns = {
  tokens: [
    plain('CPU µs/token', (row) => row.cpuMicrosPerToken),
    toNginx('against nginx', figures['cpuPerToken']),
    plain('p50 µs', (row) => row.tokenLatencyMicros?.p50),
    added('added p50 µs', (row) => row.tokenLatencyMicros?.p50),
    plain('p99 µs', (row) => row.tokenLatencyMicros?.p99),
    added('added p99 µs', (row) => row.tokenLatencyMicros?.p99),
    plain('p99.9 µs', (row) => row.tokenLatencyMicros?.p999),
    added('added p99.9 µs', (row) => row.tokenLatencyMicros?.p999),
    plain('max µs', (row) => row.tokenLatencyMicros?.max),
    plain('tokens/s', (row) => row.tokens / row.windowSeconds),
    plain('tokens/read', (row) => (row.readsWithTokens > 0 ? row.tokens / row.readsWithTokens : undefined)),
    plain('RSS MB', rssMb),
    ...loads,
  ],
  'first-token': [
    plain('first token p50 µs', (row) => row.firstTokenMicros?.p50),
    added('added p50 µs', (row) => row.firstTokenMicros?.p50),
    plain('p99 µs', (row) => row.firstTokenMicros?.p99),
    plain('p99.9 µs', (row) => row.firstTokenMicros?.p999),
    plain('CPU µs/request', (row) => row.cpuMicrosPerRequest),
    toNginx('against nginx', figures['cpuPerRequest']),
    ...loads,
  ],
  requests: [
    plain('requests/s', (row) => row.requestsPerSecond),
    toNginx('against nginx', figures['requestsPerSecond']),
    plain('CPU µs/request', (row) => row.cpuMicrosPerRequest),
    toNginx('against nginx', figures['cpuPerRequest']),
    plain('p50 µs', (row) => (row.closedLatencyMicros ?? row.openLatencyMicros)?.p50),
    plain('p99 µs', (row) => (row.closedLatencyMicros ?? row.openLatencyMicros)?.p99),
    plain('RSS MB', rssMb),
    ...loads,
  ],
  memory: [
    plain('RSS before MB', (row) => (row.rssBeforeKb === undefined ? undefined : row.rssBeforeKb / 1024)),
    plain('RSS with streams MB', (row) => row.proxyRssKb / 1024),
    plain('per stream KB', (row) =>
      row.rssBeforeKb === undefined ? undefined : (row.proxyRssKb - row.rssBeforeKb) / 4000,
    ),
    plain('peak MB', (row) => (row.proxyPeakKb === undefined ? undefined : row.proxyPeakKb / 1024)),
    plain('start to ready ms', (row) => row.startMs),
    ...loads,
  ],
};

/** @param {string[]} cells */
const line = (cells) => `| ${cells.join(' | ')} |`;

/** @param {import('./scenarios.mjs').Scenario} scenario @param {Row[]} rows */
function scenarioTable(scenario, rows) {
  const chosen = columns[scenario.kind];
  const of = (/** @type {string} */ name) => rows.filter(({ candidate }) => candidate === name);
  const names = scenario.candidates.filter((name) => of(name).length > 0);
  return [
    `### ${scenario.name}: ${scenario.title}`,
    '',
    line(['', ...chosen.map(({ title }) => title)]),
    line(['---', ...chosen.map(() => '---:')]),
    ...names.map((name) => line([name, ...chosen.map(({ cell }) => cell(of(name), of('nginx'), of('direct')))])),
    '',
  ];
}

/** @param {readonly Row[]} rows */
function goalTable(rows) {
  const words = { reached: 'reached', must: 'must held', missed: '**missed**', 'not measured': 'not measured' };
  return [
    line(['goal', 'must', 'reach for', 'measured (median, min–max)', 'verdict']),
    line(['---', '---:', '---:', '---:', '---']),
    ...judgeGoals(rows).map(({ goal, verdict, median: figure, min, max }) => {
      const sign = goal.atLeast === true ? '≥' : '≤';
      const bound = (/** @type {number | undefined} */ value) =>
        value === undefined ? 'report' : `${sign} ${value} ${goal.unit}`;
      const measured = figure === undefined ? '–' : `${show(figure)} (${show(min)}–${show(max)}) ${goal.unit}`;
      return line([goal.title, bound(goal.must), bound(goal.reach), measured, words[verdict]]);
    }),
    '',
  ];
}

/**
 * @param {{ form: string, startedAt: string, machine: string, command: string, repetitions: number, seconds: number, versions: Record<string, string>, notes: string[] }} head
 * @param {readonly Row[]} rows
 */
export function renderSummary(head, rows) {
  const versions = Object.entries(head.versions).filter(([, version]) => version !== '');
  return [
    `# Bench, ${head.form} form, ${head.startedAt}`,
    '',
    `${head.machine}; \`${head.command}\`; ${head.repetitions} repetitions, windows of ${head.seconds} s.`,
    `${versions.map(([name, version]) => `${name}: ${version}`).join(' · ')}.`,
    'Absolute figures belong to this machine and this hour; only ratios carry over, and differences under 10 % are not resolved.',
    ...head.notes.map((note) => `**${note}**`),
    '',
    ...(rows.some(({ candidate }) => candidate === 'warmlane') ? ['## Goals', '', ...goalTable(rows)] : []),
    '## Scenarios',
    '',
    ...scenarios.flatMap((scenario) => {
      const own = rows.filter((row) => row.scenario === scenario.name);
      return own.length > 0 ? scenarioTable(scenario, own) : [];
    }),
  ].join('\n');
}
