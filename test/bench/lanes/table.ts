/** The plays as Markdown: each setting and part a table, and what the shipped lanes are behind in. Pure. */
import { percentile } from '../../../src/admit/online-feel.ts';
import type { LaneRow } from './evaluation.ts';
import { binMs, tolerance } from './paired.ts';
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
    `Paired with online alone, ${first.recovery.absolute.length} steps. All together: seconds until no more than ${points(tolerance.pooled, 0)} point is lost for the rest of`,
    'the step, by when requests came and of the users who are there. Step by step: seconds to the end of the first spell in which more than',
    `${points(tolerance.perStep, 0)} points of the users are behind who alone wouldn't be, p50 / p90 / worst, and how many steps take longer than 2 s; and the share of`,
    'later moments in which that is so. Then points lost of the users who are there, and of the requests that came, by the time since the step.',
    '',
    `| rule | all: requests s | users s | each step s | > 2 s | later % | ${groups.map((name) => `users ${name}`).join(' | ')} | ${groups.map((name) => `requests ${name}`).join(' | ')} |`,
    `| --- |${' ---: |'.repeat(5 + 2 * groups.length)}`,
    ...known.map(({ candidate, recovery: { paired, arrivals } }) => {
      const cells = [
        candidate,
        (paired.pooled.requests / 1000).toFixed(2),
        (paired.pooled.users / 1000).toFixed(2),
        spread(paired.perStep.map((ms) => ms / 1000)),
        String(paired.perStep.filter((ms) => ms > 2000).length),
        percent(paired.later),
        ...arrivalSeconds.map((from, index) =>
          points(-meanOf(paired.lost.users, from, arrivalSeconds[index + 1] ?? step.onMs / 1000), 0),
        ),
        ...arrivals.map(({ requests, inside }, index) => {
          const before = usual[index];
          return before === undefined ? '' : points(inside / requests, before.inside / before.requests);
        }),
      ];
      return `| ${cells.join(' | ')} |`;
    }),
    '',
    "Pressure (p90 of the running TPOT on the worst backend, or anybody's wait, over its bound): seconds to the end of a step's first spell,",
    'p50 / p90 / worst, and how many take longer than 2 s; less the same of online alone; of those moments only in which online alone is not',
    'pressed. Later spells: of any later five seconds, how many have one.',
    '',
    '| rule | absolute s | > 2 s | excess s | > 2 s | attributable s | > 2 s | later spells % |',
    `| --- |${' ---: |'.repeat(7)}`,
    ...known.map(({ candidate, recovery: { absolute, excess, attributable, late } }) => {
      const cells = [
        candidate,
        ...[absolute, excess, attributable].flatMap((seconds) => [
          spread(seconds),
          String(seconds.filter((one) => one > 2).length),
        ]),
        (late * 100).toFixed(0),
      ];
      return `| ${cells.join(' | ')} |`;
    }),
    '',
  ];
}

/** Of bins, from and until seconds. */
function meanOf(lost: readonly number[], from: number, until: number): number {
  const some = lost.slice((from * 1000) / binMs, (until * 1000) / binMs);
  return some.reduce((total, one) => total + one, 0) / Math.max(1, some.length);
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
