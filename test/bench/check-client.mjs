/**
 * Checks the bench's own eyes: between backend and client stands a relay that tampers with the stream, and the client
 * must name the fault; with an honest relay it must name none. usage: node test/bench/check-client.mjs
 */
import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { connect, createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Worker, isMainThread, parentPort, workerData } from 'node:worker_threads';

import { compilePrograms } from './compile.mjs';
import { assertPortsFree, startProcess, stopAll, waitForPort } from './processes.mjs';

const backendPort = 18_460;
const seen = { event: 0 };

/** Each gets one read from the backend and gives what goes on to the client; undefined: the connection is cut. */
/** @type {Record<string, { expects: string | undefined, tamper: (part: Buffer) => Buffer | undefined }>} */
const relays = {
  honest: { expects: undefined, tamper: (part) => part },
  'one byte a write': { expects: undefined, tamper: (part) => part },
  loses: { expects: 'lost', tamper: (part) => (isTenthToken(part) ? Buffer.alloc(0) : part) },
  doubles: { expects: 'doubled', tamper: (part) => (isTenthToken(part) ? Buffer.concat([part, part]) : part) },
  'sends an old one': {
    expects: 'reordered',
    tamper: (part) => (isTenthToken(part) ? Buffer.concat([part, renumber(part, '0000002')]) : part),
  },
  'crosses streams': {
    expects: 'crossed',
    tamper: (part) =>
      isTenthToken(part) ? Buffer.from(part.toString('latin1').replace(/~\d{5}/, '~00777'), 'latin1') : part,
  },
  cuts: { expects: 'cut', tamper: (part) => (isTenthToken(part) ? undefined : part) },
  'ends early': { expects: 'lost', tamper: (part) => (isTenthToken(part) ? Buffer.from('0\r\n\r\n') : part) },
  'breaks the framing': { expects: 'cut', tamper: (part) => (isTenthToken(part) ? Buffer.from('zz\r\n') : part) },
};

/** @param {Buffer} part */
function isTenthToken(part) {
  if (!part.includes('~')) return false;
  seen.event++;
  return seen.event === 10;
}

/** @param {Buffer} part @param {string} number */
function renumber(part, number) {
  return Buffer.from(part.toString('latin1').replace(/\.\d{7}@/, `.${number}@`), 'latin1');
}

/** The relay runs beside the main thread, which waits for the client. @param {string} name */
function serveRelay(name) {
  const relay = relays[name];
  const server = createServer({ noDelay: true }, (client) => {
    const backend = connect({ port: backendPort, host: '127.0.0.1', noDelay: true });
    client
      .on('data', (part) => backend.write(part))
      .on('error', () => backend.destroy())
      .on('close', () => backend.destroy());
    backend.on('error', () => client.destroy()).on('close', () => client.destroy());
    backend.on('data', (part) => {
      const passed = relay?.tamper(part);
      if (passed === undefined) client.destroy();
      else if (name === 'one byte a write') for (const byte of passed) client.write(Buffer.of(byte));
      else client.write(passed);
    });
  });
  server.listen(0, '127.0.0.1', () => {
    const address = server.address();
    parentPort?.postMessage(typeof address === 'object' ? address?.port : undefined);
  });
}

/** @param {string} client @param {string} name @returns {Promise<Record<string, number>>} the client's error counters */
async function runThrough(client, name) {
  const worker = new Worker(new URL(import.meta.url), { workerData: name });
  const port = await new Promise((resolve) => worker.once('message', resolve));
  const load = ['--streams', '2', '--rate', '40', '--ramp', '0.1', '--warmup', '0.2', '--seconds', '0.5'];
  const result = spawnSync(client, ['--port', String(port), ...load], { encoding: 'utf8', timeout: 30_000 });
  await worker.terminate();
  return JSON.parse(result.stdout).errors;
}

async function main() {
  const programs = compilePrograms(import.meta.dirname, join(import.meta.dirname, '../../.cache/bench'));
  if ('missing' in programs) {
    console.log(`bench: ${programs.missing}; nothing was checked`);
    return 0;
  }
  await assertPortsFree([backendPort]);
  const folder = mkdtempSync(join(tmpdir(), 'warmlane-bench-'));
  startProcess([programs.backend, String(backendPort)], join(folder, 'backend.log'));
  let failed = 0;
  try {
    await waitForPort(backendPort);
    for (const [name, { expects }] of Object.entries(relays)) {
      const errors = await runThrough(programs.client, name);
      const named = Object.entries(errors)
        .filter(([, count]) => count > 0)
        .map(([error]) => error);
      const good = expects === undefined ? named.length === 0 : named.includes(expects);
      failed += good ? 0 : 1;
      console.log(
        `${good ? 'ok  ' : 'FAIL'} relay that ${name}: expected ${expects ?? 'no error'}, client named ${named.join(', ') || 'none'}`,
      );
    }
  } finally {
    await stopAll();
    rmSync(folder, { recursive: true, force: true });
  }
  return failed > 0 ? 1 : 0;
}

if (isMainThread) process.exitCode = await main();
else serveRelay(workerData);
