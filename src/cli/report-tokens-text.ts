/** Tokens, cache hits, speeds, SLOs and goodput as text. Pure. */
import type { ReportResult } from '../account/report/report.ts';
import type { SloResult } from '../account/report/slo-sums.ts';
import type { TokenResult } from '../account/report/tokens.ts';
import { digits, grouped, percent, shortened, table, wrapped } from './report-table.ts';

const mostNames = 12;

export function tokenLines({ tokens, rates }: Pick<ReportResult, 'tokens' | 'rates'>): readonly string[] {
  const { all, byModel, byBackend } = tokens;
  const rows = [
    tokenRow('all', all),
    ...(Object.keys(byModel).length > 1 ? namedRows(byModel) : []),
    ...(Object.keys(byBackend).length > 1 ? namedRows(byBackend) : []),
  ];
  const columns = [
    { title: '', left: true },
    ...['prompt', 'cached', 'output', 'reasoning', 'hit rate', 'reported by'].map((title) => ({ title })),
  ];
  const speeds = [
    ...(rates.outputTokensPerSecond === undefined || rates.requestsPerSecond === undefined
      ? []
      : [
          `Over the whole time: ${digits(rates.requestsPerSecond)} requests/s, ${digits(rates.outputTokensPerSecond)} output tokens/s, ${digits(rates.promptTokensPerSecond ?? 0)} prompt tokens/s.`,
        ]),
    ...(rates.decodePerUser === undefined
      ? []
      : [
          `Per user while decoding: median ${digits(rates.decodePerUser.p50)} tokens/s, nine of ten had ${digits(rates.decodePerUser.p10)} or more (n = ${grouped(rates.decodePerUser.n)}).`,
        ]),
    ...(rates.overallPerUser === undefined
      ? []
      : [
          `Per user, waiting included: median ${digits(rates.overallPerUser.p50)} tokens/s, nine of ten had ${digits(rates.overallPerUser.p10)} or more (n = ${grouped(rates.overallPerUser.n)}).`,
        ]),
  ];
  return [...table(columns, rows), ...unknownLines(all), ...speeds.flatMap((line) => wrapped(line))];
}

function namedRows(results: Readonly<Record<string, TokenResult>>): readonly (readonly string[])[] {
  return Object.entries(results)
    .toSorted(([, a], [, b]) => b.prompt + b.output - a.prompt - a.output)
    .slice(0, mostNames)
    .map(([name, result]) => tokenRow(shortened(name, 28), result));
}

function tokenRow(name: string, result: TokenResult): readonly string[] {
  const { cache } = result;
  return [
    name,
    grouped(result.prompt),
    cache.reported === 0 ? '–' : grouped(result.cached),
    grouped(result.output),
    result.reasoning === 0 ? '' : grouped(result.reasoning),
    cache.hitRate === undefined ? '–' : percent(cache.hitRate),
    cache.coverage === undefined ? '–' : `${percent(cache.coverage)} of ${grouped(result.answers)}`,
  ];
}

function unknownLines(all: TokenResult): readonly string[] {
  const parts = [
    ...(all.promptUnknown > 0 ? [`${grouped(all.promptUnknown)} answers have no count of their prompt`] : []),
    ...(all.outputUnknown > 0 ? [`${grouped(all.outputUnknown)} none of their output`] : []),
    ...(all.estimatedOutput > 0
      ? [`${percent(all.estimatedOutput / all.output)} of the output is an estimate from events`]
      : []),
  ];
  return parts.length === 0 ? [] : wrapped(`Not known: ${parts.join('; ')}.`);
}

export function sloLines({ slo, useful, window }: ReportResult): readonly string[] {
  const { seconds } = window;
  const rate = (value: number) => (seconds === 0 ? '' : digits(value / seconds));
  const columns = [
    { title: 'profile', left: true },
    ...['judged', 'met', 'share', 'goodput/s', 'tokens/s met', 'of tokens/s', 'smooth'].map((title) => ({ title })),
  ];
  const rows = slo.map((result) => [
    shortened(result.profile, 24),
    grouped(result.requests),
    grouped(result.met),
    percent(result.attainment),
    rate(result.met),
    rate(result.metTokens),
    rate(result.outputTokens),
    result.benefitTokens === undefined ? '' : rate(result.benefitTokens),
  ]);
  return [
    ...(rows.length === 0 ? [] : table(columns, rows)),
    ...slo.flatMap(breachLines),
    ...(rows.length === 0 && useful.checked === 0 && useful.retries === 0 ? [] : wrapped(usefulText(useful, rate))),
  ];
}

const mostBreaches = 6;

function breachLines({ profile, breaches, failed }: SloResult): readonly string[] {
  const parts = [
    ...breaches
      .slice(0, mostBreaches)
      .map(
        ({ bound, phase, requests, over }) =>
          `${bound} by ${phase} ${grouped(requests)} (median ${digits(over.p50)} ms over)`,
      ),
    ...(breaches.length > mostBreaches ? [`${breaches.length - mostBreaches} more kinds`] : []),
    ...(failed > 0 ? [`failed ${grouped(failed)}`] : []),
  ];
  return parts.length === 0 ? [] : wrapped(`${shortened(profile, 24)} was missed: ${parts.join(', ')}.`);
}

function usefulText(useful: ReportResult['useful'], rate: (value: number) => string): string {
  const reasons = Object.entries(useful.uselessBy).map(([reason, count]) => `${reason} ${grouped(count)}`);
  const tokens = rate(useful.usefulTokens) === '' ? '' : `, ${rate(useful.usefulTokens)} tokens/s`;
  return [
    `Useful tokens: ${grouped(useful.usefulTokens)} of ${grouped(useful.outputTokens)}${tokens}.`,
    `Checked for use: ${grouped(useful.checked)}, of no use ${grouped(useful.useless)}${reasons.length === 0 ? '' : ` (${reasons.join(', ')})`}.`,
    `Retries: ${grouped(useful.retries)}.`,
  ].join(' ');
}
