#!/usr/bin/env node
/**
 * The process: arguments, environment, signals, exit code. Everything else is below `cli/`.
 */
import { runCli } from './cli/run.ts';

process.exitCode = await runCli({
  argv: process.argv.slice(2),
  env: process.env,
  out: (text) => void process.stdout.write(text),
  err: (text) => void process.stderr.write(text),
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
