import fc from 'fast-check';
import { describe, expect, it } from 'vitest';

import type { LogFormat } from '../../../src/platform/log.ts';
import { parseLogLine } from '../../../src/platform/log-line.ts';
import { lineText, parsed } from '../../support/log-rows.ts';

const formats: readonly LogFormat[] = ['json', 'logfmt'];

describe('a line of the log, read back', () => {
  it.each(formats)('has its fields again, whatever they hold (%s)', (format) => {
    fc.assert(
      fc.property(
        fc.string({ unit: 'binary' }),
        fc.string(),
        fc.double({ noNaN: true, noDefaultInfinity: true }),
        (message, text, number) => {
          const { message: said, fields } = parsed(
            lineText(message, { text, number, flag: true, list: ['a', 'b'] }, format),
          );
          expect(said).toBe(message);
          expect(fields['text']).toBe(text);
          // JSON has no −0.
          expect(Number(fields['number']) + 0).toBe(number + 0);
          expect(String(fields['flag'])).toBe('true');
          expect(String(fields['list'])).toBe('a,b');
        },
      ),
      { numRuns: 200 },
    );
  });

  it.each(formats)('knows its time to the millisecond (%s)', (format) => {
    const { timeMs } = parsed(lineText('x', {}, format));
    expect(Math.abs(timeMs - Date.now())).toBeLessThan(5000);
  });

  it.each(formats)('is found behind what a container engine, a journal or a terminal put before it (%s)', (format) => {
    const line = lineText('request', { requestId: 'r 1' }, format).trimEnd();
    for (const text of [
      `2026-03-01T12:00:00.000000000Z stderr F ${line}`,
      `Mar 01 12:00:00 host warmlane[812]: ${line}`,
      `warmlane-1  | ${line}`,
      JSON.stringify({ log: `${line}\n`, stream: 'stderr', time: '2026-03-01T12:00:00Z' }),
      JSON.stringify({ MESSAGE: line, _PID: '812' }),
      `${line}\r`.trimEnd(),
    ])
      expect(parsed(text).fields['requestId']).toBe('r 1');
  });

  it.each([
    ['hello', 'foreign'],
    ['{"level":"info","msg":"of another program"}', 'foreign'],
    ['uptime=3 time=12s', 'foreign'],
    ['{"time":"2026-03-01T12:00:00.000Z","level":"info","msg":"requ', 'malformed'],
    ['{"time":"yesterday","level":"info","msg":"x"}', 'malformed'],
    ['time=2026-03-01T12:00:00.000Z level=info', 'malformed'],
    ['time=2026-03-01T12:00:00.000Z level=info msg="request', 'malformed'],
    ['time=2026-03-01T12:00:00.000Z level=info msg=request stray words=1', 'malformed'],
    ['time=2026-03-01T12:00:00.000Z level=info msg="a"b', 'malformed'],
  ])('%s is %s', (text, what) => {
    expect(parseLogLine(text)).toBe(what);
  });

  it('takes no harm from names that objects know', () => {
    const line = parsed('time=2026-03-01T12:00:00.000Z level=info msg=x __proto__=1 constructor=2');
    expect(line.fields['constructor']).toBe('2');
    expect(({} as Record<string, unknown>)['1']).toBeUndefined();
  });
});
