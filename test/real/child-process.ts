/**
 * One process that a test started: its log as it grows, its end, its stop. Knows nothing of what the process is.
 * Stops only its own pid: SIGTERM first, SIGKILL when that does not end it in time.
 */
import { spawn } from 'node:child_process';
import { setTimeout as pause } from 'node:timers/promises';

export interface ChildProcess {
  readonly pid: number;
  /** Everything written so far to stdout and stderr. */
  log(): string;
  /** False once the process has ended. */
  running(): boolean;
  /** Exit code, or the signal's name; rejects when it takes longer than `timeoutMs`. */
  ended(timeoutMs: number): Promise<number | string>;
  signal(name: NodeJS.Signals): void;
  /** SIGTERM, then SIGKILL after `graceMs`. Resolves when the process is gone. */
  stop(graceMs?: number): Promise<void>;
}

export interface StartOptions {
  readonly command: string;
  readonly args: readonly string[];
  /** Added to this process's own; undefined takes a variable away. */
  readonly env?: Readonly<Record<string, string | undefined>>;
}

export function startChild(options: StartOptions): ChildProcess {
  const child = spawn(options.command, options.args, {
    env: { ...process.env, ...options.env },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  let output = '';
  let end: number | string | undefined;
  const waiting: ((end: number | string) => void)[] = [];
  const settle = (how: number | string) => {
    end = how;
    for (const resolve of waiting.splice(0)) resolve(how);
  };
  for (const stream of [child.stdout, child.stderr]) {
    stream.setEncoding('utf8').on('data', (piece: string) => (output += piece));
  }
  child.on('error', (error) => {
    output += `\n${error.message}`;
    settle(error.message);
  });
  child.on('exit', (code, signal) => settle(code ?? signal ?? 'unknown'));
  // A test run that dies must not leave servers behind.
  const killAtExit = () => child.kill('SIGKILL');
  process.once('exit', killAtExit);

  const ended = (timeoutMs: number) =>
    new Promise<number | string>((resolve, reject) => {
      if (end !== undefined) return resolve(end);
      const timer = setTimeout(
        () => reject(new Error(`${options.command} still runs after ${timeoutMs} ms`)),
        timeoutMs,
      );
      waiting.push((how) => {
        clearTimeout(timer);
        resolve(how);
      });
    });

  return {
    pid: child.pid ?? -1,
    log: () => output,
    running: () => end === undefined,
    ended,
    signal: (name) => void child.kill(name),
    async stop(graceMs = 5_000) {
      process.removeListener('exit', killAtExit);
      if (end !== undefined) return;
      child.kill('SIGTERM');
      await ended(graceMs).catch(() => child.kill('SIGKILL'));
      await ended(5_000);
    },
  };
}

/**
 * Asks again every `everyMs` until `probe` gives something other than undefined.
 * @throws when `timeoutMs` is over, with `what` in its message
 */
export async function until<T>(
  what: string,
  probe: () => T | undefined | Promise<T | undefined>,
  { timeoutMs = 10_000, everyMs = 50 } = {},
): Promise<T> {
  const deadline = performance.now() + timeoutMs;
  for (;;) {
    const found = await probe();
    if (found !== undefined) return found;
    if (performance.now() > deadline) throw new Error(`waited ${timeoutMs} ms for ${what}`);
    await pause(everyMs);
  }
}

/** Waits for a server that the process is to become; fails early, with the log's end, when the process dies. */
export async function untilReady<T>(
  child: ChildProcess,
  what: string,
  probe: () => Promise<T | undefined>,
  timeoutMs: number,
): Promise<T> {
  try {
    return await until(
      what,
      async () => {
        if (!child.running()) throw new Error(`the process ended before ${what}`);
        return probe();
      },
      { timeoutMs, everyMs: 100 },
    );
  } catch (error) {
    await child.stop();
    throw new Error(`${String(error)}\n${child.log().slice(-4_000)}`, { cause: error });
  }
}
