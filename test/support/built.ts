/**
 * The program as users run it: `dist/main.js` in a process of its own, for signals, exit codes and memory.
 * Builds it first when a source is newer; workers that want it at the same time wait for one another.
 */
import { spawn, spawnSync, type ChildProcess } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { stringify } from 'yaml';
import { eventually, sleep } from './stage.ts';

const root = new URL('../../', import.meta.url).pathname;
const main = join(root, 'dist/main.js');

/** @returns the path of `dist/main.js` */
export async function built(): Promise<string> {
  const lock = join(root, '.cache', 'building');
  mkdirSync(join(root, '.cache'), { recursive: true });
  await eventually(() => takeLock(lock), 'the other build is done', 60_000);
  try {
    if (!existsSync(main) || statSync(main).mtimeMs < newestMs(join(root, 'src'))) {
      // Types are judged elsewhere: what can be compiled is compiled.
      spawnSync(process.execPath, [join(root, 'node_modules/typescript/bin/tsc'), '-p', 'tsconfig.build.json'], {
        cwd: root,
      });
    }
  } finally {
    rmSync(lock, { recursive: true, force: true });
  }
  return main;
}

/** A lock left behind by a worker that died counts for a minute. */
function takeLock(lock: string): boolean {
  try {
    mkdirSync(lock);
    return true;
  } catch {
    const { mtimeMs } = statSync(lock, { throwIfNoEntry: false }) ?? { mtimeMs: 0 };
    if (Date.now() - mtimeMs > 60_000) rmSync(lock, { recursive: true, force: true });
    return false;
  }
}

function newestMs(folder: string): number {
  return Math.max(
    ...readdirSync(folder, { recursive: true, withFileTypes: true })
      .filter((entry) => entry.isFile())
      .map((entry) => statSync(join(entry.parentPath, entry.name)).mtimeMs),
  );
}

export interface Served {
  readonly child: ChildProcess;
  /** Of what was started: warmlane itself, or its wrapper. */
  readonly pid: number;
  readonly port: number;
  readonly adminUrl: string;
  /** Log lines so far, as JSON objects; a line that is none as `{ text }`. */
  readonly logged: readonly Record<string, unknown>[];
  readonly exited: Promise<{
    readonly code: number | null;
    readonly signal: NodeJS.Signals | null;
    readonly atMs: number;
  }>;
  /** Ends it, whatever it does. */
  end(): Promise<void>;
}

export interface ServedOptions {
  /** The config file's content, without listeners. */
  readonly config: object;
  /** A command that runs the program: it gets the words of the program's own command behind its own. */
  readonly wrapper?: readonly string[];
  /** A process group of its own, which can be signalled as a whole. */
  readonly group?: boolean;
  readonly nodeArguments?: readonly string[];
  /** Added to the environment. */
  readonly env?: Readonly<Record<string, string>>;
}

export async function serveBuilt(options: ServedOptions): Promise<Served> {
  const program = await built();
  const folder = mkdtempSync(join(tmpdir(), 'warmlane-test-'));
  const file = join(folder, 'warmlane.yaml');
  writeFileSync(
    file,
    stringify({ listen: '127.0.0.1:0', admin: { listen: '127.0.0.1:0' }, log: { format: 'json' }, ...options.config }),
  );
  const command: readonly string[] = [
    ...(options.wrapper ?? []),
    process.execPath,
    ...(options.nodeArguments ?? []),
    program,
    '--config',
    file,
  ];
  const child = spawn(command[0] ?? process.execPath, command.slice(1), {
    detached: options.group === true,
    env: { ...withoutOwn(process.env), ...options.env },
  });
  const logged: Record<string, unknown>[] = [];
  let rest = '';
  child.stderr?.setEncoding('utf8').on('data', (text: string) => {
    const lines = (rest + text).split('\n');
    rest = lines.pop() ?? '';
    logged.push(...lines.filter((line) => line !== '').map(parseLine));
  });
  child.stdout?.resume();
  const exited = new Promise<Awaited<Served['exited']>>((resolve) => {
    child.once('exit', (code, signal) => resolve({ code, signal, atMs: performance.now() }));
  });
  void exited.then(() => rmSync(folder, { recursive: true, force: true }));
  const urls = () => logged.find(({ msg }) => msg === 'listening') as { data: string; admin: string } | undefined;
  await eventually(() => urls() !== undefined || child.exitCode !== null, 'it listens', 20_000);
  const found = urls();
  if (found === undefined || child.pid === undefined) throw new Error(`did not start: ${JSON.stringify(logged)}`);
  return {
    child,
    pid: child.pid,
    port: Number(new URL(found.data).port),
    adminUrl: found.admin,
    logged,
    exited,
    async end() {
      if (child.exitCode === null && child.signalCode === null) {
        if (options.group === true && child.pid !== undefined) process.kill(-child.pid, 'SIGKILL');
        else child.kill('SIGKILL');
      }
      await Promise.race([exited, sleep(5000)]);
    },
  };
}

/** The program refuses `WARMLANE_…` variables that it doesn't know, such as the tests' own; `OTEL_…` would have it send traces. */
function withoutOwn(env: NodeJS.ProcessEnv): NodeJS.ProcessEnv {
  return Object.fromEntries(Object.entries(env).filter(([name]) => !/^(WARMLANE|OTEL)_/.test(name)));
}

function parseLine(line: string): Record<string, unknown> {
  try {
    return JSON.parse(line) as Record<string, unknown>;
  } catch {
    return { text: line };
  }
}
