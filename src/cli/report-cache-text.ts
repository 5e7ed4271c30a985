/** The prefix cache as text: what could have been reused, what was, and why not more. Pure. */
import type { PrefixCacheResult, PrefixCacheSums } from '../account/report/prefix-cache.ts';
import { countOf, digits, grouped, percent, shortened, table, wrapped } from './report-table.ts';

const mostBackends = 12;
const mostPlaces = 5;

export function prefixCacheLines({ all, byBackend, divergences }: PrefixCacheResult): readonly string[] {
  if (all.answers === 0) return [];
  const titles = ['prompt', 'reusable', 'captured', 'delivered', 'bias', 'error', 'answers'];
  const backends = Object.entries(byBackend).toSorted(([, a], [, b]) => b.promptTokens - a.promptTokens);
  const rows = [
    cacheRow('all', all),
    ...(backends.length > 1 ? backends.slice(0, mostBackends) : []).map(([name, sums]) =>
      cacheRow(shortened(name, 28), sums),
    ),
  ];
  return [
    ...table([{ title: '', left: true }, ...titles.map((title) => ({ title }))], rows),
    ...missedLines(all),
    ...placeLines(divergences),
  ];
}

function cacheRow(name: string, sums: PrefixCacheSums): readonly string[] {
  const share = (value: number | undefined) => (value === undefined ? '–' : percent(value));
  return [
    name,
    grouped(sums.promptTokens),
    share(sums.reusable),
    share(sums.captured),
    share(sums.delivered),
    points(sums.bias),
    points(sums.error),
    grouped(sums.answers),
  ];
}

function points(share: number | undefined): string {
  if (share === undefined) return '–';
  return `${share < 0 ? '−' : ''}${digits(Math.abs(100 * share))} pts`;
}

/** Of all prompt tokens: together with what was delivered they are all. */
function missedLines({ missed, promptTokens, reusableTokens, capturedTokens }: PrefixCacheSums): readonly string[] {
  const parts = Object.entries(missed).map(
    ([cause, tokens]) => `${cause.replaceAll('_', ' ')} ${percent(tokens / promptTokens)}`,
  );
  const avoidable = reusableTokens - capturedTokens;
  return [
    ...(parts.length === 0 ? [] : wrapped(`Missed, of all prompt tokens: ${parts.join(', ')}.`)),
    ...(avoidable > 0
      ? wrapped(
          `Held by another backend than the one they were sent to: ${grouped(avoidable)} tokens (${percent(avoidable / promptTokens)}).`,
        )
      : []),
  ];
}

function placeLines(divergences: PrefixCacheResult['divergences']): readonly string[] {
  const parts = divergences
    .slice(0, mostPlaces)
    .filter(({ lostTokens }) => lostTokens > 0)
    .map(({ place, requests, lostTokens }) => {
      return `${placeText(place)} (${grouped(lostTokens)} in ${countOf(requests, 'request')})`;
    });
  if (parts.length === 0) return [];
  return wrapped(`Where prompts first differ from earlier ones, by tokens lost behind it: ${parts.join('; ')}.`);
}

/** `0:0-256` → `message 0, bytes 0–256` */
function placeText(place: string): string {
  const [, part = '', bytes = ''] = /^([^:]*):(.*)$/.exec(shortened(place, 40)) ?? [];
  const name = /^\d+$/.test(part) ? `message ${part}` : part === 'head' ? 'before the messages' : part;
  return `${name}, bytes ${bytes.replace('-', '–')}`;
}
