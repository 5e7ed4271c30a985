/** Real files in a folder of their own; each test waits for what it is told, and for nothing else. */
import { mkdirSync, mkdtempSync, renameSync, rmSync, symlinkSync, unlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { systemClock } from '../../../src/platform/clock.ts';
import { type FileWatch, watchFile } from '../../../src/platform/watch-file.ts';
import { eventually, sleep } from '../../support/stage.ts';

let folder: string;
let watch: FileWatch | undefined;
let told = 0;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'warmlane-watch-'));
  told = 0;
});
afterEach(() => {
  watch?.stop();
  rmSync(folder, { recursive: true, force: true });
});

function begin(path: string, pollMs = 20): void {
  watch = watchFile(path, { clock: systemClock, changed: () => (told += 1), pollMs, restMs: 10 });
}

const heard = (times: number) => eventually(() => told >= times, `told ${times} times`);

it('tells of a file written in place, replaced by rename, gone and there again', async () => {
  const file = join(folder, 'w.yaml');
  writeFileSync(file, 'a');
  begin(file);
  writeFileSync(file, 'b');
  await heard(1);
  writeFileSync(join(folder, '.w.yaml.swp'), 'c');
  renameSync(join(folder, '.w.yaml.swp'), file);
  await heard(2);
  unlinkSync(file);
  await heard(3);
  writeFileSync(file, 'd');
  await heard(4);
  expect(told).toBe(4);
});

it('tells of a link whose folder is swapped, as Kubernetes does with a ConfigMap', async () => {
  for (const [name, content] of [
    ['..1', 'a'],
    ['..2', 'b'],
  ] as const) {
    mkdirSync(join(folder, name));
    writeFileSync(join(folder, name, 'w.yaml'), content);
  }
  symlinkSync('..1', join(folder, '..data'));
  symlinkSync('..data/w.yaml', join(folder, 'w.yaml'));
  begin(join(folder, 'w.yaml'));
  symlinkSync('..2', join(folder, '..data_tmp'));
  renameSync(join(folder, '..data_tmp'), join(folder, '..data'));
  await heard(1);
  expect(told).toBe(1);
});

it('tells by its own looks alone where the system gives no notice', async () => {
  // Of a folder that isn't there yet there can be none.
  const file = join(folder, 'later', 'w.yaml');
  begin(file);
  mkdirSync(join(folder, 'later'));
  writeFileSync(file, 'a');
  await heard(1);
  expect(told).toBe(1);
});

it('tells once of many writes that follow one another, when the file has come to rest', async () => {
  const file = join(folder, 'w.yaml');
  writeFileSync(file, '0');
  watch = watchFile(file, { clock: systemClock, changed: () => (told += 1), pollMs: 10_000, restMs: 60 });
  for (let i = 1; i <= 10; i += 1) {
    writeFileSync(file, String(i).repeat(i));
    await sleep(5);
  }
  await heard(1);
  await sleep(150);
  expect(told).toBe(1);
});

it('says nothing of a file that stays as it is, nor after it was stopped', async () => {
  const file = join(folder, 'w.yaml');
  writeFileSync(file, 'a');
  begin(file, 10);
  await sleep(60);
  expect(told).toBe(0);
  watch?.stop();
  writeFileSync(file, 'bb');
  await sleep(60);
  expect(told).toBe(0);
});
