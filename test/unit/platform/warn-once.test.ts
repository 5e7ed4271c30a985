import { expect, it } from 'vitest';
import { createLog } from '../../../src/platform/log.ts';
import { warnOnce } from '../../../src/platform/warn-once.ts';

it('a sentence is in a log once, and in another log again', () => {
  const lines: string[] = [];
  const settings = { level: 'info', format: 'logfmt' } as const;
  const [one, other] = [1, 2].map(() => createLog(settings, (line) => void lines.push(line)));
  if (one === undefined || other === undefined) throw new Error('no logs');
  for (const sentence of ['a', 'b', 'a']) warnOnce(one, sentence);
  expect(lines.map((line) => /msg=(\w)/.exec(line)?.[1])).toEqual(['a', 'b']);
  warnOnce(other, 'a');
  expect(lines).toHaveLength(3);
});
