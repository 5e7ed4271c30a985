/** `serve` over real sockets, in a process that is only recorded. */
import { createServer, type Server, type Socket } from 'node:net';
import { afterEach, expect, it } from 'vitest';

import type { Process } from '../../../src/cli/process.ts';
import { serve } from '../../../src/cli/serve.ts';

const open: Server[] = [];
afterEach(() => {
  for (const server of open.splice(0)) server.close();
});

/** Takes requests and answers none; `asked` gives the function that closes what was asked and all that follows. */
function mute(): Promise<{ readonly url: string; readonly asked: Promise<() => void> }> {
  return new Promise((resolve) => {
    const sockets = new Set<Socket>();
    let released = false;
    let heard = (_release: () => void) => {};
    const asked = new Promise<() => void>((settle) => {
      heard = settle;
    });
    const release = () => {
      released = true;
      for (const socket of sockets) socket.destroy();
    };
    const server = createServer((socket) => {
      sockets.add(socket);
      socket.on('error', () => {});
      socket.once('data', () => {
        heard(release);
        if (released) socket.destroy();
      });
    });
    open.push(server);
    server.listen(0, '127.0.0.1', () => {
      const address = server.address();
      if (address === null || typeof address === 'string') throw new Error('no port');
      resolve({ url: `http://127.0.0.1:${address.port}`, asked });
    });
  });
}

function recorded() {
  const said = { out: '', err: '', exits: [] as number[] };
  const listeners = new Map<string, () => void>();
  const process: Process = {
    argv: [],
    env: {},
    out: (text) => {
      said.out += text;
    },
    err: (text) => {
      said.err += text;
    },
    onSignal(signal, listener) {
      listeners.set(signal, listener);
      return () => listeners.delete(signal);
    },
    onUncaught() {},
    exit: (code) => {
      said.exits.push(code);
    },
  };
  return { said, process, signal: (name: 'SIGTERM' | 'SIGINT') => listeners.get(name)?.() };
}

const flags = (url: string) => ({ backends: [url], listen: '127.0.0.1:0', adminListen: '127.0.0.1:0' });

it('ends well and says so when the signal comes before anything is open', async () => {
  const { url } = await mute();
  const { said, process, signal } = recorded();
  const code = serve({ env: {}, flags: flags(url) }, process);
  signal('SIGTERM');
  expect(await code).toBe(0);
  expect(said.err).toContain('stopping: it had not started yet');
  expect(said.err).toContain('msg=stopped');
  expect(said.out).toBe('');
});

it('ends well and says so when the signal comes during the first probes', async () => {
  const { url, asked } = await mute();
  const { said, process, signal } = recorded();
  const code = serve({ env: {}, flags: flags(url) }, process);
  const release = await asked;
  signal('SIGINT');
  expect(said.err).toContain('stopping: it had not started yet');
  release();
  expect(await code).toBe(0);
  expect(said.out).toBe('');
  expect(said.err).toContain('msg=stopped');
  expect(said.exits).toEqual([]);
});

it('a second signal ends at once, during the start too', async () => {
  const { url } = await mute();
  const { said, process, signal } = recorded();
  const code = serve({ env: {}, flags: flags(url) }, process);
  signal('SIGTERM');
  signal('SIGTERM');
  await expect.poll(() => said.exits).toEqual([1]);
  await code;
});

it('ends at once where batches can not be kept, and names the option and the folder', async () => {
  const { url } = await mute();
  const { said, process } = recorded();
  const code = await serve({ env: {}, flags: { ...flags(url), batchDir: `${import.meta.filename}/below` } }, process);
  expect(code).toBe(1);
  expect(said.err).toContain(`--batch-dir: the folder ${import.meta.filename}/below can't be used (ENOTDIR)`);
  expect(said.out).toBe('');
});
