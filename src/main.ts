#!/usr/bin/env node
/**
 * The process: arguments, environment, signals, exit code. Everything else is below `cli/`.
 */
import { setFlagsFromString } from 'node:v8';

import { createLineBuffer } from './cli/line-buffer.ts';
import { runCli } from './cli/run.ts';

// Without this V8 comes to put what a request makes straight into old space, where it keeps all that it refers to alive until
// a full collection: 18 KB promoted per short request against 2, and a third more CPU (seen with --trace-gc on Node 20).
setFlagsFromString('--no-allocation-site-pretenuring');

// Whoever read our output may be gone; that is no reason to stop serving, and nothing is left to tell it to.
for (const stream of [process.stdout, process.stderr]) stream.on('error', () => {});

const errors = createLineBuffer({
  write: (text) => void process.stderr.write(text),
  waiting: () => process.stderr.writableLength,
});
process.on('exit', errors.flush);

process.exitCode = await runCli({
  argv: process.argv.slice(2),
  env: process.env,
  out: (text) => void process.stdout.write(text),
  err: errors.write,
  input: () => process.stdin,
  terminal: process.stdout.isTTY,
  onSignal(signal, listener) {
    process.on(signal, listener);
    return () => void process.off(signal, listener);
  },
  onUncaught(listener) {
    process.on('uncaughtException', listener);
    process.on('unhandledRejection', listener);
  },
  exit: (code) => process.exit(code),
});
