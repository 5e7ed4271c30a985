#!/usr/bin/env node
/**
 * The process: arguments, environment, signals, exit code. Everything else is below `cli/`.
 */
import { availableParallelism } from 'node:os';
import { getHeapSpaceStatistics, setFlagsFromString } from 'node:v8';

import { setUpCollector } from './cli/collector.ts';
import { createLineBuffer } from './cli/line-buffer.ts';

setUpCollector({
  cores: availableParallelism(),
  setFlag: setFlagsFromString,
  youngBytes: () => getHeapSpaceStatistics().find((space) => space.space_name === 'new_space')?.space_size ?? Infinity,
  later: (waitMs, call) => void setTimeout(call, waitMs).unref(),
});

// Only now: loading the rest makes the first full collection, which must find the flags set.
const { runCli } = await import('./cli/run.ts');

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
  columns: () => process.stdout.columns,
  // A reader that left is an error for the callback, not for us: what is still to come goes nowhere.
  outBytes: (bytes) => new Promise((resolve) => void process.stdout.write(bytes, () => resolve())),
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
