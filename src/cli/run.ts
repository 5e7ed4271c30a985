/** One command line, run to its end. Chooses the command; each is a file of its own. */
import { readFileSync } from 'node:fs';
import { parseArguments } from './args.ts';
import { runCheck } from './check.ts';
import { runDoctor } from './doctor/run-doctor.ts';
import { commandHelp, helpText } from './help.ts';
import type { Process } from './process.ts';
import { serve } from './serve.ts';

/** @returns the exit code: 0 well, 1 failed, 2 wrong use; `warmlane batch` has more */
export async function runCli(process: Process): Promise<number> {
  if (process.argv[0] === 'report') {
    // Loaded only when it is asked for: serving needs none of it.
    const { runReport } = await import('./report.ts');
    return runReport(process.argv.slice(1), process, Date.now());
  }
  if (process.argv[0] === 'replay') {
    const { runReplay } = await import('./replay/run-replay.ts');
    return runReplay(process.argv.slice(1), process);
  }
  if (process.argv[0] === 'batch') {
    const { runBatch } = await import('./batch/run-batch.ts');
    return runBatch(process.argv.slice(1), process);
  }
  if (process.argv[0] === 'doctor') return runDoctor(process);
  const args = parseArguments(process.argv);
  switch (args.kind) {
    case 'help':
      process.out(args.of === undefined ? helpText(version()) : commandHelp(args.of));
      return 0;
    case 'version':
      process.out(`${version()}\n`);
      return 0;
    case 'wrong':
      for (const problem of args.problems) process.err(`warmlane: ${problem}\n`);
      process.err('Try warmlane --help.\n');
      return args.exitCode;
    case 'check':
      return runCheck(request(args, process), process.out);
    case 'serve':
      return serve(request(args, process), process);
  }
}

function request(args: { file?: string; flags: Parameters<typeof runCheck>[0]['flags'] }, process: Process) {
  return { env: process.env, flags: args.flags, ...(args.file === undefined ? {} : { file: args.file }) };
}

/** Of the package; the same file from `src` and from `dist`. */
export function version(): string {
  const text = readFileSync(new URL('../../package.json', import.meta.url), 'utf8');
  return (JSON.parse(text) as { version: string }).version;
}
