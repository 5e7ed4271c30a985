/** `serve` over real sockets, in a process that is only recorded. */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer, type Server, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
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
  return { said, process, signal: (name: 'SIGTERM' | 'SIGINT' | 'SIGHUP') => listeners.get(name)?.() };
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

it('the demo sends no traffic while auth asks for keys, says so, and serves whoever has one', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'warmlane-demo-'));
  const file = join(folder, 'warmlane.yaml');
  const write = (auth: boolean) =>
    writeFileSync(
      file,
      auth ? 'auth: { keys: [{ name: alice, key: a-key-of-alices-own }] }\n' : 'log: { level: info }\n',
    );
  write(true);
  const { said, process, signal } = recorded();
  const config = { demo: true, listen: '127.0.0.1:0', adminListen: '127.0.0.1:0' };
  const code = serve({ env: {}, file, flags: config }, process);
  const lines = () => said.err.split('\n').filter((line) => line.includes('msg=request'));
  try {
    await expect.poll(() => said.out, { timeout: 20_000 }).toContain('warmlane listens at');
    expect(said.out).toContain('the demo sends no traffic of its own, as auth asks for a key');
    expect(said.out).toContain('-H "Authorization: Bearer $KEY"');
    const url = /listens at (\S+)/.exec(said.out)?.[1] ?? '';
    const ask = (headers: Record<string, string>) =>
      fetch(`${url}/v1/chat/completions`, {
        method: 'POST',
        headers,
        body: JSON.stringify({ model: 'simulated', max_tokens: 2, messages: [{ role: 'user', content: 'hi' }] }),
      });
    const refused = await ask({});
    expect([refused.status, await refused.json()]).toMatchObject([401, { error: { code: 'invalid_api_key' } }]);
    const answer = await ask({ authorization: 'Bearer a-key-of-alices-own' });
    expect([answer.status, await answer.json()]).toMatchObject([200, { object: 'chat.completion' }]);
    await pause(trafficMs);
    expect(lines()).toHaveLength(2);
    // It begins once no key is asked for, and ends again before it would be refused.
    write(false);
    signal('SIGHUP');
    await expect.poll(() => lines().length, { timeout: 20_000 }).toBeGreaterThan(2);
    write(true);
    signal('SIGHUP');
    await expect.poll(() => said.err.split('changed=auth').length, { timeout: 20_000 }).toBe(3);
    await pause(trafficMs);
    expect(lines().filter((line) => line.includes('status=401'))).toHaveLength(1);
  } finally {
    signal('SIGTERM');
    await code;
    rmSync(folder, { recursive: true, force: true });
  }
});

/** In which the demo's traffic would show: several of its gaps. */
const trafficMs = 6000;
