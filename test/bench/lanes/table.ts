/** The plays as Markdown: each setting and part a table, and what the shipped lanes are behind in. Pure. */
import type { LaneRow } from './evaluation.ts';

export function tableOf(rows: readonly LaneRow[]): string {
  const groups = new Map<string, LaneRow[]>();
  for (const row of rows) {
    const { fromSeconds, seconds, seed, heldOut } = row.part;
    const part = `from second ${fromSeconds}, ${seconds} s, seed ${seed}, ${heldOut ? 'held out' : 'chosen by'}`;
    const title = `## ${row.setting}: ${row.source}, ${part}`;
    groups.set(title, [...(groups.get(title) ?? []), row]);
  }
  const parts = [...groups].flatMap(([title, group]) => [title, '', ...table(group), '', ...verdict(group), '']);
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
    '| rule | online % | points | batch tokens/s | % | waste % | TTFT p50 / p99 ms | TPOT p50 / p99 ms | at once | oldest s | taken back | recovery p50 / p90 / worst s |',
    `| --- |${' ---: |'.repeat(11)}`,
    ...rows.map(({ candidate, figures }) => {
      const { attainment, batchTokensPerSecond, waste, ttftMs, tpotMs, batchRunning, oldestSeconds } = figures;
      const cells = [
        candidate,
        percent(attainment),
        alone === undefined ? '' : ((attainment - alone) * 100).toFixed(2),
        batchTokensPerSecond.toFixed(0),
        free === undefined ? '' : ((batchTokensPerSecond / free) * 100).toFixed(0),
        percent(waste),
        ttftMs.map((ms) => ms.toFixed(0)).join(' / '),
        tpotMs.map((ms) => ms.toFixed(1)).join(' / '),
        batchRunning.toFixed(1),
        oldestSeconds.toFixed(0),
        String(figures.reclaimed),
        figures.recoverySeconds?.map((seconds) => seconds.toFixed(1)).join(' / ') ?? '',
      ];
      return `| ${cells.join(' | ')} |`;
    }),
  ];
}

function verdict(rows: readonly LaneRow[]): readonly string[] {
  const own = rows.find(({ kind }) => kind === 'shipped')?.figures;
  if (own === undefined) return [];
  const better = rows.filter(
    ({ kind, figures }) =>
      (kind === 'bar' || kind === 'other') &&
      figures.attainment > own.attainment &&
      figures.batchTokensPerSecond > own.batchTokensPerSecond,
  );
  if (better.length === 0) return ['Nobody is better than the shipped lanes in both.'];
  return [`Better than the shipped lanes in both: ${better.map(({ candidate }) => candidate).join(', ')}.`];
}

function percent(share: number): string {
  return (share * 100).toFixed(2);
}
