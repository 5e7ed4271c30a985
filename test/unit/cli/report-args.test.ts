import { describe, expect, it } from 'vitest';

import { parseReportArguments, parseTime, reportFlags } from '../../../src/cli/report-args.ts';
import { reportHelp } from '../../../src/cli/report-help.ts';

const nowMs = Date.parse('2026-03-02T00:00:00Z');
const parse = (line: string) =>
  parseReportArguments(
    line.split(' ').filter((word) => word !== ''),
    nowMs,
  );

describe('the arguments of warmlane report', () => {
  it('are files and what is wanted of them', () => {
    expect(parse('a.log --since 24h --model m --json b.log.gz --backend b --lane batch --top 0')).toEqual({
      kind: 'report',
      files: [{ path: 'a.log' }, { path: 'b.log.gz' }],
      sinceMs: nowMs - 86_400_000,
      model: 'm',
      backend: 'b',
      lane: 'batch',
      top: 0,
      json: true,
    });
    expect(parse('-')).toEqual({ kind: 'report', files: [{ path: '-' }], top: 5, json: false });
  });

  it('take what a shell makes of --before a* --after b*', () => {
    expect(parse('--before a1 a2 --after b1 b2 --json')).toMatchObject({
      files: [
        { path: 'a1', side: 'before' },
        { path: 'a2', side: 'before' },
        { path: 'b1', side: 'after' },
        { path: 'b2', side: 'after' },
      ],
    });
  });

  it('give help to whoever asks for it', () => {
    for (const line of ['--help', '-h', '--nonsense -h']) expect(parse(line)).toEqual({ kind: 'help' });
    for (const name of Object.keys(reportFlags)) expect(reportHelp()).toContain(`--${name}`);
    expect(
      Math.max(
        ...reportHelp()
          .split('\n')
          .map(({ length }) => length),
      ),
    ).toBeLessThanOrEqual(110);
  });

  it.each([
    ['', 'name a log file, or - for what comes on stdin'],
    ['a --sinc 1h', 'unknown flag --sinc; did you mean --since?'],
    ['a --compare x', 'unknown flag --compare; write --split TIME, or --before FILE and --after FILE'],
    ['a --since', '--since needs a value'],
    ['a --since yesterday', '--since "yesterday" is no time; write 24h, 90m, 2026-03-01 or 2026-03-01T14:30'],
    ['a --since 1h --until 2h', '--since lies behind --until'],
    ['a --split 3h --since 2h', '--split must lie between --since and --until'],
    ['a --json=yes', '--json takes no value'],
    ['a --top many', '--top "many" is no whole number from 0 to 1000'],
    ['- -', '- stands once: there is one stdin'],
    ['--before a', '--before and --after go together'],
    ['--before a --json c --after b', 'with --before and --after each file belongs to one of them'],
    ['--before a --after b --split 1h', '--split, or --before and --after; not both'],
  ])('%j is wrong: %s', (line, problem) => {
    const result = parse(line);
    expect(result.kind === 'wrong' ? result.problems : []).toContain(problem);
  });
});

describe('a time', () => {
  it.each([
    ['90s', nowMs - 90_000],
    ['1.5h', nowMs - 5_400_000],
    ['2w', nowMs - 14 * 86_400_000],
    ['2026-03-01T14:30Z', Date.parse('2026-03-01T14:30:00Z')],
    ['2026-03-01 14:30:05+02:00', Date.parse('2026-03-01T12:30:05Z')],
    ['2026-03-01', new Date(2026, 2, 1).getTime()],
    ['2026-03-01T14:30', new Date(2026, 2, 1, 14, 30).getTime()],
  ])('%s', (text, atMs) => {
    expect(parseTime(text, nowMs)).toBe(atMs);
  });

  it.each(['', '24', 'h', '-1h', '2026-13-01', '01/03/2026', '24hours'])('is not %j', (text) => {
    expect(parseTime(text, nowMs)).toBeUndefined();
  });
});
