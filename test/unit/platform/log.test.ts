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
