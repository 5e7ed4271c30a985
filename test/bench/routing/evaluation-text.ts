/** The evaluation as one Markdown page: where each candidate stands in each setting, then every setting by itself. Pure. */
import type { Evaluated, Row } from './evaluation.ts';

export function tableOf(results: readonly Evaluated[]): string {
  return [
    '# Routing policies on simulated engines',
    '',
    'Good answers in percent: first token within the bound (5 s unless the setting says less), further ones within 100 ms on average.',
    'Bold: the best of those that could be had (`perfect` looks into the engines).',
    '',
    ...overview(results),
    '',
    ...results.flatMap(details),
  ].join('\n');
}

function overview(results: readonly Evaluated[]): readonly string[] {
  const names = [...new Set(results.flatMap(({ rows }) => rows.map(({ candidate }) => candidate)))];
  const lines = results.map(({ setting, rows }) => {
    const best = Math.max(...rows.filter(isReal).map(({ figures }) => figures.goodShare));
    const cells = names.map((name) => {
      const row = rows.find(({ candidate }) => candidate === name);
      if (row === undefined) return '';
      const text = percent(row.figures.goodShare);
      return isReal(row) && row.figures.goodShare === best ? `**${text}**` : text;
    });
    return `| ${[setting.name, ...cells].join(' | ')} |`;
  });
  return [`| setting | ${names.join(' | ')} |`, `| --- |${' ---: |'.repeat(names.length)}`, ...lines];
}

function details({ setting, rows, pooledHitShare, endlessHitShare }: Evaluated): readonly string[] {
  const { backends, scale, ttftMs, requests, seed } = setting;
  return [
    `## ${setting.name}`,
    '',
    `${backends} backends, load × ${scale}, ${requests} requests, seed ${seed}, first token within ${ttftMs} ms. Hits: at most ${percent(pooledHitShare)} % with all caches in one, ${percent(endlessHitShare)} % with an endless one.`,
    '',
    '| policy | good | hits | of the bound | TTFT p50 s | p99 s | slower p99 | TPOT p50 ms | p99 ms | ITL p99 ms | spread | bias | error | preempted | choice p99 µs |',
    `| --- |${' ---: |'.repeat(14)}`,
    ...rows.map((row) => rowOf(row, pooledHitShare)),
    '',
  ];
}

function rowOf({ candidate, figures, choiceMicros }: Row, bound: number): string {
  const cells = [
    candidate,
    percent(figures.goodShare),
    percent(figures.hitShare),
    bound === 0 ? '' : percent(figures.hitShare / bound),
    (figures.ttftMs.p50 / 1000).toFixed(2),
    (figures.ttftMs.p99 / 1000).toFixed(2),
    figures.slowdown.p99.toFixed(1),
    figures.tpotMs.p50.toFixed(0),
    figures.tpotMs.p99.toFixed(0),
    figures.itlMs.p99.toFixed(0),
    figures.imbalance.toFixed(2),
    figures.bias === undefined ? '' : percent(figures.bias),
    figures.error === undefined ? '' : percent(figures.error),
    String(figures.preemptions),
    choiceMicros[1].toFixed(0),
  ];
  return `| ${cells.join(' | ')} |`;
}

function isReal({ candidate }: Row): boolean {
  return candidate !== 'perfect';
}

function percent(share: number): string {
  return (share * 100).toFixed(1);
}
