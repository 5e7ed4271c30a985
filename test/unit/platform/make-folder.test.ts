import { mkdirSync, mkdtempSync, rmSync, statSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, expect, it } from 'vitest';

import { makeFolder } from '../../../src/platform/make-folder.ts';

const folder = mkdtempSync(join(tmpdir(), 'warmlane-make-folder-'));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const modeOf = (path: string) => statSync(path).mode & 0o777;

it('makes a folder and those above it, for this user alone', () => {
  makeFolder(join(folder, 'a', 'b', 'c'), 0o700);
  for (const made of ['a', 'a/b', 'a/b/c']) expect(modeOf(join(folder, made))).toBe(0o700);
});

it('leaves one alone that is there', () => {
  mkdirSync(join(folder, 'there'), { mode: 0o750 });
  makeFolder(join(folder, 'there'), 0o700);
  expect(modeOf(join(folder, 'there'))).toBe(0o750);
});

it('says which one can not be made, and stops there', () => {
  const file = join(folder, 'file');
  writeFileSync(file, '');
  expect(() => makeFolder(file, 0o700)).toThrow(`EEXIST: file already exists, mkdir '${file}'`);
  expect(() => makeFolder(join(file, 'below', 'it'), 0o700)).toThrow(`mkdir '${file}'`);
  symlinkSync(join(folder, 'nowhere'), join(folder, 'dangling'));
  expect(() => makeFolder(join(folder, 'dangling'), 0o700)).toThrow('EEXIST');
});

it.runIf(process.platform === 'linux')('does not try for ever where the system says that there is no such file', () => {
  expect(() => makeFolder('/proc/nope/below', 0o700)).toThrow("ENOENT: no such file or directory, mkdir '/proc/nope'");
});
