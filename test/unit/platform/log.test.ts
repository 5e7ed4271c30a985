import { describe, expect, it } from 'vitest';
import { createLog } from '../../../src/platform/log.ts';

describe('log lines that nobody takes', () => {
  it('are counted, and the count is logged before the next line that is taken', () => {
    let takes = false;
    const lines: string[] = [];
    const log = createLog({ level: 'error', format: 'json' }, (line) => {
      if (takes) lines.push(line);
      return takes;
    });
    log.error('lost');
    log.error('lost too');
    log.info('of no interest');
    expect(log.dropped?.()).toBe(2);
    takes = true;
    log.error('here');
    log.error('and here');
    expect(log.dropped?.()).toBe(2);
    const read = lines.map((line) => JSON.parse(line) as Record<string, unknown>);
    expect(read.map(({ msg, lines: count }) => [msg, count])).toEqual([
      ['log lines were dropped: nobody read them', 2],
      ['here', undefined],
      ['and here', undefined],
    ]);
  });
});

describe('numbers in log lines', () => {
  it.each([
    0,
    -0,
    1,
    42,
    999,
    999.999,
    1000,
    1000.5,
    0.001,
    0.01,
    0.1,
    0.5,
    12.34,
    12.345,
    12.3456,
    1e-7,
    3e21,
    -1.5,
    NaN,
    Infinity,
  ])('%s is written as JavaScript writes it', (value) => {
    const lines: string[] = [];
    createLog({ level: 'info', format: 'logfmt' }, (line) => void lines.push(line)).info('m', { value });
    expect(lines[0]).toMatch(new RegExp(` value=${String(value).replace(/[.+]/g, '\\$&')}\n$`));
  });

  it('are the same all along a second, to the microsecond', () => {
    const log = (value: number) => {
      let text = '';
      createLog({ level: 'info', format: 'logfmt' }, (line) => (text = line)).info('m', { value });
      return text.slice(text.indexOf('value=') + 6, -1);
    };
    for (let micros = 0; micros < 1_000_000; micros += 37) expect(log(micros / 1000)).toBe(String(micros / 1000));
  });
});
