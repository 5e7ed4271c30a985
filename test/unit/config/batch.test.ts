import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join, resolve } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';

import { loadConfig } from '../../../src/config/load.ts';
import { configOf, loadText, problemsOf } from './load-text.ts';

const folder = mkdtempSync(join(tmpdir(), 'warmlane-batch-config-'));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

describe('batch', () => {
  it("is off by default, with OpenAI's limits", () => {
    expect(configOf('').batch).toEqual({
      maxLines: 50_000,
      maxFileBytes: 200_000_000,
      maxLineBytes: 8 * 1024 * 1024,
      maxTenantBytes: 10 * 1024 ** 3,
      maxUploads: 64,
      maxTenantUploads: 16,
      maxOpenBatches: 100,
      maxLinesInFlight: 256,
      maxAttempts: 5,
      fileLifeSeconds: 30 * 86_400,
      leaseMs: 30_000,
      maxAnswerBytes: 16 * 1024 * 1024,
    });
    expect(configOf('batch:\n').batch).not.toHaveProperty('store');
  });

  it('keeps batches in a folder beside the file, or in Postgres with or without one for the bytes', () => {
    const result = loadText('batch: { directory: kept }');
    if (!result.ok) throw new Error('must load');
    expect(result.config.batch.store).toEqual({
      kind: 'sqlite',
      directory: join(dirname(result.file ?? ''), 'kept'),
    });
    const url = 'postgres://u:p@h/d';
    expect(configOf(`batch: { postgres: { url: "${url}" } }`).batch.store).toEqual({ kind: 'postgres', url });
    expect(configOf(`batch: { directory: ${folder}, postgres: { url: "${url}" } }`).batch.store).toEqual({
      kind: 'postgres',
      url,
      directory: folder,
    });
  });

  it('takes the folder from a flag or the environment, relative to where warmlane was started', () => {
    const named = (flags: object, env = {}) => {
      const loaded = loadConfig({ env, flags });
      return loaded.ok ? loaded.config.batch.store : undefined;
    };
    const here = { kind: 'sqlite', directory: resolve('from-flag') };
    expect(named({ batchDir: 'from-flag' }, { WARMLANE_BATCH_DIR: 'from-env' })).toEqual(here);
    expect(named({}, { WARMLANE_BATCH_DIR: '/from-env' })).toEqual({ kind: 'sqlite', directory: '/from-env' });
    expect(configOf('batch: { directory: kept }', { flags: { batchDir: 'from-flag' } }).batch.store).toEqual(here);
  });

  it('says with its place when the folder is none', () => {
    const file = join(folder, 'file');
    writeFileSync(file, '');
    expect(problemsOf(`batch:\n  directory: ${file}`)).toEqual([`w.yaml:2:14 batch.directory: ${file} is no folder`]);
    expect(problemsOf(`batch:\n  directory: ${file}/below/it`)).toEqual([
      `w.yaml:2:14 batch.directory: the folder ${file}/below/it can't be used (ENOTDIR)`,
    ]);
    expect(problemsOf('', { flags: { batchDir: file } })).toEqual([`--batch-dir: ${file} is no folder`]);
  });

  it.runIf(process.platform === 'linux')('says so where the system keeps nothing, though root may write there', () => {
    for (const place of ['/proc/nope', '/proc/self', '/sys/nope/below'])
      expect(problemsOf('', { flags: { batchDir: place } })).toEqual([
        expect.stringMatching(
          /^--batch-dir: (nothing can be kept in|the folder) \/(proc|proc\/self|sys)(: its files are the system's own| may not be written by this user)$/,
        ),
      ]);
  });

  it("never shows a database's URL", () => {
    const problems = problemsOf('batch: { postgres: { url: "mysql://u:secret@h/d" } }');
    expect(problems).toEqual([expect.stringContaining('must be a URL such as postgres://user@host/database')]);
    expect(problems[0]).not.toContain('secret');
  });
});
