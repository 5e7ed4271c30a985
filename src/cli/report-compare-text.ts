/** Before and after as text: what was seen to differ, by how much at least and at most, and what was not. Pure. */
import type { Comparison, Difference } from '../account/report/compare.ts';
import { countOf, digits, duration, grouped, percent, short, table, wrapped } from './report-table.ts';

const titles: Readonly<Record<Difference['figure'], string>> = {
  ttft: 'TTFT',
  tpot: 'TPOT',
  itl: 'ITL',
  e2e: 'E2E',
  failed: 'failed',
  hitRate: 'cache hit rate',
  sloMet: 'SLO met',
  decodeSpeed: 'tokens/s per user',
};
const shares: ReadonlySet<string> = new Set(['failed', 'hitRate', 'sloMet']);

export function comparisonLines({ before, after, confidence, differences }: Comparison): readonly string[] {
  const columns = [
    { title: '', left: true },
    { title: 'before' },
    { title: 'after' },
    { title: 'change' },
    { title: 'between' },
    { title: 'seen', left: true },
    { title: 'n' },
  ];
  const load = (name: string, of: Comparison['before']) =>
    `${name} ${countOf(of.requests, 'request')} in ${countOf(of.slices, 'slice')} of ${duration(of.sliceSeconds)}, on average ${digits(of.promptTokensMean)} tokens in and ${digits(of.outputTokensMean)} out`;
  if (before.requests === 0 || after.requests === 0)
    return wrapped(
      `Nothing to compare: ${countOf(before.requests, 'request')} came before and ${grouped(after.requests)} after.`,
    );
  return [
    ...wrapped(`${load('Before:', before)}. ${load('After:', after)}.`),
    ...(loadsDiffer(before, after)
      ? wrapped('The two loads are not alike: a change below may be theirs, not the server’s.')
      : []),
    '',
    ...table(columns, differences.map(differenceRow)),
    ...wrapped(
      `“Between” is where the change lies, for all lines together with ${percent(confidence)} confidence, by the spread between slices of the same window. Where it includes 0, no difference was seen: that is not proof that there is none.`,
    ),
  ];
}

function differenceRow(difference: Difference): readonly string[] {
  const { figure, warmth, quantile, before, after, interval } = difference;
  const form = formOf(figure);
  return [
    [titles[figure], quantile, warmth].filter((word) => word !== undefined).join(' '),
    before.value === undefined ? '–' : form(before.value),
    after.value === undefined ? '–' : form(after.value),
    difference.difference === undefined ? '' : change(difference, difference.difference),
    interval === undefined ? '' : `${change(difference, interval.low)} … ${change(difference, interval.high)}`,
    verdict(difference),
    shares.has(figure) || figure === 'decodeSpeed' ? '' : `${short(before.n)}/${short(after.n)}`,
  ];
}

/** Relative to what it was before; of a share in its own points. */
function change({ figure, before }: Difference, by: number): string {
  if (shares.has(figure)) return signed(by, (value) => `${(value * 100).toFixed(1)} pts`);
  if (before.value === undefined || before.value === 0) return signed(by, digits);
  return signed(by / before.value, (value) => `${(value * 100).toFixed(1)} %`);
}

function verdict({ verdict: word }: Difference): string {
  switch (word) {
    case 'higher':
    case 'lower':
      return word;
    case 'no_difference_seen':
      return 'no difference';
    case 'too_little_data':
      return 'too little data';
  }
}

function formOf(figure: Difference['figure']): (value: number) => string {
  return shares.has(figure) ? percent : digits;
}

function signed(value: number, form: (value: number) => string): string {
  return value < 0 ? `−${form(-value)}` : `+${form(value)}`;
}

function loadsDiffer(before: Comparison['before'], after: Comparison['after']): boolean {
  const apart = (a: number, b: number) => Math.max(a, b) > 1.25 * Math.min(a, b);
  return (
    apart(before.promptTokensMean, after.promptTokensMean) || apart(before.outputTokensMean, after.outputTokensMean)
  );
}
