/**
 * A Postgres of the tests' own: real, on a free port of this machine, its data in a temporary folder. Postgres refuses to run as root, so
 * then it runs as the user `postgres`. It ends with its test process, however that ends.
 */
import { spawn, spawnSync, type ChildProcess } from 'node:child_process';
import { chownSync, existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { createServer, type AddressInfo } from 'node:net';
import { join } from 'node:path';
import pg from 'pg';
import { eventually } from './stage.ts';

export interface PostgresServer {
  /** Of the database `postgres`. */
  readonly url: string;
  /** An empty database of its own. @returns its URL */
  database(): Promise<string>;
  /** As if the machine were gone: connections break, new ones are refused. */
  stop(): Promise<void>;
  /** With what it had, on the same port. */
  start(): Promise<void>;
  /** Ends it and removes its data. */
  close(): Promise<void>;
}

const programs = findPrograms();

/** Whether tests with Postgres can run. Says why not; fails where they must. */
export function hasPostgres(): boolean {
  if (programs !== undefined) return true;
  const why = 'no postgres and initdb here (Debian: postgresql)';
  if (process.env['WARMLANE_POSTGRES'] === 'required') throw new Error(`WARMLANE_POSTGRES=required, but ${why}`);
  console.info(`Left out: tests with Postgres: ${why}`);
  return false;
}

export async function startPostgres(): Promise<PostgresServer> {
  if (programs === undefined) throw new Error('no postgres here');
  const { initdb, postgres } = programs;
  const owner = process.getuid?.() === 0 ? userIds('postgres') : undefined;
  // Not the home folder's: the other user must get there.
  const folder = mkdtempSync('/tmp/warmlane-postgres-');
  if (owner !== undefined) chownSync(folder, owner.uid, owner.gid);
  const data = join(folder, 'data');
  const made = spawnSync(
    initdb,
    ['-D', data, '-U', 'postgres', '-A', 'trust', '-E', 'UTF8', '--locale=C', '--no-sync'],
    {
      ...owner,
      cwd: folder,
      encoding: 'utf8',
    },
  );
  if (made.status !== 0) throw new Error(`initdb failed: ${made.stderr}`);
  const port = await freePort();
  const url = `postgres://postgres@127.0.0.1:${port}/postgres`;
  let running: { readonly keeper: ChildProcess; readonly exited: Promise<void> } | undefined;
  let said = '';
  let databases = 0;

  async function start(): Promise<void> {
    if (running !== undefined) return;
    const words = ['-D', data, '-p', String(port), '-k', folder, '-h', '127.0.0.1', '-F'];
    // The shell ends the server when its own input ends, which it does with this process.
    const keeper = spawn('/bin/sh', ['-c', keeping, postgres, ...words], {
      ...owner,
      cwd: folder,
      stdio: ['pipe', 'ignore', 'pipe'],
    });
    keeper.stderr.on('data', (bytes: Buffer) => (said = (said + bytes.toString()).slice(-4000)));
    const exited = new Promise<void>((resolve) => keeper.once('exit', () => resolve()));
    running = { keeper, exited };
    await eventually(
      async () => {
        if (keeper.exitCode !== null) throw new Error(`postgres did not start: ${said}`);
        return await answers(url);
      },
      'Postgres answers',
      15_000,
    );
  }

  async function stop(): Promise<void> {
    running?.keeper.stdin?.end();
    await running?.exited;
    running = undefined;
  }

  async function close(): Promise<void> {
    await stop();
    rmSync(folder, { recursive: true, force: true });
  }

  try {
    await start();
  } catch (error) {
    await close();
    throw error;
  }
  return {
    url,
    async database() {
      const name = `test_${(databases += 1)}`;
      await ask(url, `create database ${name}`);
      return url.replace(/postgres$/, name);
    },
    start,
    stop,
    close,
  };
}

/** For what a test wants to see or do past the store. */
export async function ask<Row>(url: string, sql: string): Promise<readonly Row[]> {
  const client = new pg.Client({ connectionString: url, connectionTimeoutMillis: 2000 });
  await client.connect();
  try {
    return (await client.query(sql)).rows as readonly Row[];
  } finally {
    await client.end();
  }
}

// SIGQUIT: at once, without waiting for clients.
const keeping = 'exec 3<&0; "$0" "$@" </dev/null & server=$!; read -r _ <&3; kill -QUIT $server; wait $server';

async function answers(url: string): Promise<boolean> {
  try {
    await ask(url, 'select 1');
    return true;
  } catch {
    return false;
  }
}

function findPrograms(): { readonly postgres: string; readonly initdb: string } | undefined {
  const debian = '/usr/lib/postgresql';
  const versions = existsSync(debian) ? readdirSync(debian).toSorted((one, other) => Number(other) - Number(one)) : [];
  const folders = [
    ...versions.map((version) => join(debian, version, 'bin')),
    ...(process.env['PATH'] ?? '').split(':'),
  ];
  const folder = folders.find((each) => ['postgres', 'initdb'].every((name) => existsSync(join(each, name))));
  return folder === undefined ? undefined : { postgres: join(folder, 'postgres'), initdb: join(folder, 'initdb') };
}

function userIds(name: string): { readonly uid: number; readonly gid: number } {
  const line = readFileSync('/etc/passwd', 'utf8')
    .split('\n')
    .find((each) => each.startsWith(`${name}:`));
  const [, , uid, gid] = line?.split(':') ?? [];
  if (uid === undefined || gid === undefined) throw new Error(`root can't run postgres, and there is no user ${name}`);
  return { uid: Number(uid), gid: Number(gid) };
}

async function freePort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((resolve) => void server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  await new Promise((resolve) => void server.close(resolve));
  return port;
}
