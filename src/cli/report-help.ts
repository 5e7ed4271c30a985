/** The help of `warmlane report`, made of the same table that its flags are parsed with. */
import { aligned, flagForm } from './help.ts';
import type { FlagInfo } from './args.ts';
import { reportFlags } from './report-args.ts';

const examples: readonly (readonly [string, string])[] = [
  ['warmlane report warmlane.log', 'the whole log'],
  ['warmlane report --since 24h warmlane.log*', 'the last day, rotated and packed files too'],
  ['journalctl -u warmlane -o cat | warmlane report -', 'from the journal'],
  ['warmlane report --split 2026-03-01T12:00 warmlane.log', 'was it better after noon?'],
  ['warmlane report --before a.log --after b.log', 'two runs side by side'],
];

export function reportHelp(): string {
  return [
    'warmlane report: what request logs say, in one account: times, failures, tokens, cache, SLOs, load.',
    '',
    'Usage: warmlane report [flags] FILE…      (- is stdin; .gz is unpacked; logfmt and JSON lines alike)',
    '',
    'Flags',
    ...aligned(Object.entries<FlagInfo>(reportFlags).map(([name, info]) => [flagForm(name, info), info.says])),
    '',
    'TIME is so long ago (90s, 15m, 24h, 7d, 2w) or ISO 8601: 2026-03-01, 2026-03-01T14:30, 2026-03-01T14:30:05Z.',
    'Without Z or +02:00 it is the time of this machine; logs and the account are in UTC.',
    '',
    'Examples',
    ...aligned(examples),
    '',
    'Exit codes: 0 an account was printed, 1 no request could be read, 2 wrong use.',
    'Every figure is defined in deploy/definitions.md, the account itself in deploy/report.md.',
    '',
  ].join('\n');
}
