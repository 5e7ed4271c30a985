/** The plays as Markdown: each setting and part a table, and what the shipped lanes are behind in. Pure. */
import { percentile } from '../../../src/admit/online-feel.ts';
import type { LaneRow } from './evaluation.ts';
import { arrivalSeconds } from './recovery.ts';
import { step } from './settings.ts';

export function tableOf(rows: readonly LaneRow[]): string {
  const groups = new Map<string, LaneRow[]>();
  for (const row of rows) {
    const { fromSeconds, seconds, seed, heldOut } = row.part;
    const part = `from second ${fromSeconds}, ${seconds} s, seed ${seed}, ${heldOut ? 'held out' : 'chosen by'}`;
    const title = `## ${row.setting}: ${row.source}, ${part}`;
    groups.set(title, [...(groups.get(title) ?? []), row]);
  }
  const parts = [...groups].flatMap(([title, group]) => [
    title,
    '',
    ...table(group),
    '',
    ...recoveries(group),
    ...verdict(group),
    '',
  ]);
  return [
    '# Online alone against online with an endless batch, on simulated engines',
    '',
    'Online: answers inside both bounds (TTFT 1 s, TPOT 60 ms), and the points lost against online alone. Batch: tokens a second, and',
    'percent of those without any control.',
    '',
    ...parts,
  ].join('\n');
}

function table(rows: readonly LaneRow[]): readonly string[] {
  const alone = rows.find(({ kind }) => kind === 'online only')?.figures.attainment;
  const free = rows.find(({ kind }) => kind === 'unbounded')?.figures.batchTokensPerSecond;
  return [
    '| rule | online % | points | batch tokens/s | % | waste % | TTFT p50 / p99 ms | TPOT p50 / p99 ms | at once | oldest s | taken back |',
    `| --- |${' ---: |'.repeat(10)}`,
    ...rows.map(({ candidate, figures }) => {
      const { attainment, batchTokensPerSecond, waste, ttftMs, tpotMs, batchRunning, oldestSeconds } = figures;
      const cells = [
        candidate,
        percent(attainment),
        alone === undefined ? '' : points(attainment, alone),
        batchTokensPerSecond.toFixed(0),
        free === undefined ? '' : ((batchTokensPerSecond / free) * 100).toFixed(0),
        percent(waste),
        ttftMs.map((ms) => ms.toFixed(0)).join(' / '),
        tpotMs.map((ms) => ms.toFixed(1)).join(' / '),
        batchRunning.toFixed(1),
        oldestSeconds.toFixed(0),
        String(figures.reclaimed),
      ];
      return `| ${cells.join(' | ')} |`;
    }),
  ];
}

/** Of settings with steps: how long each is felt, and what came of the requests by the second in which they came. */
function recoveries(rows: readonly LaneRow[]): readonly string[] {
  const known = rows.flatMap(({ candidate, recovery }) => (recovery === undefined ? [] : [{ candidate, recovery }]));
  const [first] = known;
  if (first === undefined) return [];
  const usual = first.recovery.arrivals;
  const groups = arrivalSeconds.map((from, index) => `${from} to ${arrivalSeconds[index + 1] ?? step.onMs / 1000} s`);
  return [
    `Recovery, ${first.recovery.absolute.length} steps: seconds to the end of a step's first spell of pressure, p50 / p90 / worst, and how`,
    'many take longer than 2 s; the same of what online alone is not pressed by. Later spells: of any later five seconds, how many have',
    'one. Then the points lost against online alone by the requests that came so long after a step.',
    '',
    `| rule | absolute s | > 2 s | attributable s | > 2 s | later spells % | ${groups.join(' | ')} |`,
    `| --- |${' ---: |'.repeat(5 + groups.length)}`,
    ...known.map(({ candidate, recovery: { absolute, attributable, late, arrivals } }) => {
      const cells = [
        candidate,
        spread(absolute),
        String(absolute.filter((seconds) => seconds > 2).length),
        spread(attributable),
        String(attributable.filter((seconds) => seconds > 2).length),
        (late * 100).toFixed(0),
        ...arrivals.map(({ requests, inside }, index) => {
          const before = usual[index];
          return before === undefined ? '' : points(inside / requests, before.inside / before.requests);
        }),
      ];
      return `| ${cells.join(' | ')} |`;
    }),
    '',
  ];
}

function spread(seconds: readonly number[]): string {
  return [0.5, 0.9, 1].map((share) => (percentile([...seconds], share) ?? 0).toFixed(1)).join(' / ');
}

/** Where the shipped lanes lose: to whom in both columns, and in one of them by how much of the other. */
function verdict(rows: readonly LaneRow[]): readonly string[] {
  const own = rows.find(({ kind }) => kind === 'shipped')?.figures;
  if (own === undefined) return [];
  const compared = rows.filter(({ kind }) => kind === 'bar' || kind === 'unbounded');
  const gains = compared.map(({ candidate, figures }) => ({
    candidate,
    online: figures.attainment - own.attainment,
    batch: figures.batchTokensPerSecond / own.batchTokensPerSecond - 1,
  }));
  const says = (found: typeof gains) =>
    found.length === 0
      ? 'nobody'
      : found
          .map(
            ({ candidate, online, batch }) =>
              `${candidate} (${signed(online * 100, 2)} points, batch ${signed(batch * 100, 0)} %)`,
          )
          .join(', ');
  const inBoth = gains.filter(({ online, batch }) => online >= 0 && batch >= 0 && online + batch > 0);
  const others = gains.filter((gain) => !inBoth.includes(gain));
  return [
    `Better than the shipped lanes in both: ${says(inBoth)}. For online users only: ${says(others.filter(({ online }) => online > 0))}.`,
    `For batch only: ${says(others.filter(({ batch }) => batch > 0))}.`,
  ];
}

function points(attainment: number, alone: number): string {
  return ((attainment - alone) * 100).toFixed(2);
}

function signed(value: number, digits: number): string {
  return `${value > 0 ? '+' : ''}${value.toFixed(digits)}`;
}

function percent(share: number): string {
  return (share * 100).toFixed(2);
}
