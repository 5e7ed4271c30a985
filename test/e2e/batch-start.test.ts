/** The storage of batches where warmlane can't start, or fails as it stops: nothing stays open, and nothing else breaks. */
import { mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { createServer, type AddressInfo, type Server } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import type { createRunner } from '../../src/batch/run/runner.ts';
import type { createBatchStore } from '../../src/batch/store/create-batch-store.ts';
import { startProxy } from '../support/proxy.ts';

const failing = vi.hoisted(() => ({ close: false, stop: false }));

vi.mock('../../src/batch/store/create-batch-store.ts', async (importOriginal) => {
  const real = await importOriginal<{ createBatchStore: typeof createBatchStore }>();
  return {
    async createBatchStore(...asked: Parameters<typeof createBatchStore>) {
      const { store, shelf } = await real.createBatchStore(...asked);
      const close = async () => {
        await store.close();
        if (failing.close) throw new Error('no close');
      };
      return { store: { ...store, close }, shelf };
    },
  };
});

vi.mock('../../src/batch/run/runner.ts', async (importOriginal) => {
  const real = await importOriginal<{ createRunner: typeof createRunner }>();
  return {
    createRunner(...asked: Parameters<typeof createRunner>) {
      const runner = real.createRunner(...asked);
      const stop = async (graceMs: number) => {
        await runner.stop(graceMs);
        if (failing.stop) throw new Error('no stop');
      };
      return { ...runner, stop };
    },
  };
});

let directory: string;
let other: Server | undefined;
beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), 'warmlane-batch-start-'));
});
afterEach(async () => {
  Object.assign(failing, { close: false, stop: false });
  await new Promise((resolve) => (other === undefined ? resolve(undefined) : other.close(resolve)));
  other = undefined;
  rmSync(directory, { recursive: true, force: true });
});

/** SQLite takes its log away when the last connection is closed. */
const isOpen = () => readdirSync(directory).includes('batches.sqlite-wal');
const batch = () => ({ store: { kind: 'sqlite' as const, directory } });

async function takenPort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((resolve) => void server.listen(0, '127.0.0.1', resolve));
  other = server;
  return (server.address() as AddressInfo).port;
}

describe('the storage of batches', () => {
  it.each(['listen', 'admin'] as const)('is closed again when the port of %s is taken', async (which) => {
    const http = { [which]: { host: '127.0.0.1', port: await takenPort() } };
    await expect(startProxy(['http://127.0.0.1:1'], { batch: batch(), http })).rejects.toThrow(/EADDRINUSE/);
    expect(readdirSync(directory)).toContain('batches.sqlite');
    expect(isOpen()).toBe(false);
  });

  it('is open while warmlane serves', async () => {
    const proxy = await startProxy(['http://127.0.0.1:1'], { batch: batch() });
    expect(isOpen()).toBe(true);
    await proxy.close();
    expect(isOpen()).toBe(false);
  });

  it('fails to stop and to close with a line in the log each, and warmlane stops all the same', async () => {
    Object.assign(failing, { close: true, stop: true });
    const proxy = await startProxy(['http://127.0.0.1:1'], { batch: batch() });
    await proxy.app.stop();
    const told = proxy.logged.filter(({ level }) => level === 'error').map(({ msg, error }) => [msg, error]);
    expect(told).toEqual([
      ['batches could not be given back', 'no stop'],
      ['the storage of batches could not be closed', 'no close'],
    ]);
    expect(isOpen()).toBe(false);
  });
});
