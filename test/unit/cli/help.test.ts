import { expect, it } from 'vitest';

import { commands, type FlagInfo, flags } from '../../../src/cli/args.ts';
import { commandHelp, helpText } from '../../../src/cli/help.ts';
import { variables } from '../../../src/config/environment.ts';

it('names every command, flag and variable', () => {
  const text = helpText('1.2.3');
  expect(text).toContain('warmlane 1.2.3');
  for (const name of Object.keys(commands)) expect(text).toMatch(new RegExp(`^ {2}${name} `, 'm'));
  for (const name of Object.keys(flags)) expect(text).toContain(`--${name}`);
  for (const name of Object.values(variables)) expect(text).toMatch(new RegExp(`^ {2}${name} +--`, 'm'));
});

it('knows a flag for every variable', () => {
  const named = Object.values<FlagInfo>(flags).flatMap(({ variable }) => (variable === undefined ? [] : [variable]));
  expect(named.toSorted()).toEqual(Object.values(variables).toSorted());
});

it('fits a terminal and ends with one line end', () => {
  const lines = helpText('0.1.0').split('\n');
  expect(Math.max(...lines.map(({ length }) => length))).toBeLessThanOrEqual(110);
  expect(lines.slice(-1)).toEqual(['']);
  expect(lines.at(-2)).not.toBe('');
});

it('explains in columns', () => {
  const columns = helpText('0')
    .split('\n')
    .filter((line) => /^ {2,}(-\w, )? *--/.test(line))
    .map((line) => line.search(/(?<= {2})[^ -].*$/));
  expect(columns).toHaveLength(Object.keys(flags).length);
  expect(new Set(columns).size).toBe(1);
});

it.each(['serve', 'check'] as const)('explains %s by itself', (command) => {
  const text = commandHelp(command);
  expect(text).toMatch(new RegExp(`^warmlane ${command}: `));
  expect(text).toContain(`Usage: warmlane ${command} [flags]`);
  expect(text).not.toContain('Commands');
  expect(text).toContain('--config FILE');
  expect(text).toContain('Exit codes: 0');
  expect(Math.max(...text.split('\n').map(({ length }) => length))).toBeLessThanOrEqual(110);
});
