/**
 * warmlane itself as a user runs it: the built program in a process of its own, on free ports, asked about its records
 * through the admin listener.
 */
import { join } from 'node:path';
import type { RequestRecord } from '../../src/domain/record.ts';
import type { FleetSnapshot } from '../../src/domain/fleet.ts';
import { startChild, until, untilReady, type ChildProcess } from './child-process.ts';

/** A record as the admin listener writes it: the stamps are plain arrays, gaps in seconds say so. */
export type WireRecord = Omit<RequestRecord, 'stamps' | 'itl'> & {
  readonly itlSeconds?: NonNullable<RequestRecord['itl']>;
  readonly stamps?: {
    readonly atMs: readonly number[];
    readonly choice?: readonly number[];
    readonly tokens?: readonly number[];
    readonly coalesced?: readonly number[];
  };
};

export interface Warmlane {
  readonly url: string;
  readonly adminUrl: string;
  readonly process: ChildProcess;
  /** The record of one request, once it is there. */
  record(requestId: string): Promise<WireRecord>;
  running(): Promise<unknown[]>;
  backends(): Promise<FleetSnapshot['backends']>;
  stop(): Promise<void>;
}

const program = join(import.meta.dirname, '..', '..', 'dist', 'main.js');

/** @param flags after `--backend` for each url, the free ports and the log's form */
export async function startWarmlane(
  backendUrls: readonly string[],
  flags: readonly string[] = [],
  env: Readonly<Record<string, string>> = {},
): Promise<Warmlane> {
  const child = startChild({
    command: process.execPath,
    args: [
      program,
      ...backendUrls.flatMap((url) => ['--backend', url]),
      ...['--listen', '127.0.0.1:0', '--admin-listen', '127.0.0.1:0', '--log-format', 'json', ...flags],
    ],
    // Whoever runs the tests may have set up a warmlane of their own.
    env: { ...Object.fromEntries(ownVariables().map((name) => [name, undefined])), ...env },
  });
  const listening = await untilReady(
    child,
    'warmlane to say where it listens',
    async () => logLines(child.log()).find((line) => line['msg'] === 'listening'),
    20_000,
  );
  const url = toUrl(listening['data']);
  const adminUrl = toUrl(listening['admin']);

  const backends = async () => ((await admin('/backends')) as { backends: FleetSnapshot['backends'] }).backends;
  async function admin(path: string): Promise<unknown> {
    const answer = await fetch(adminUrl + path, { signal: AbortSignal.timeout(10_000) });
    if (!answer.ok) throw new Error(`${path}: ${answer.status}`);
    return answer.json();
  }
  async function findRecord(requestId: string): Promise<WireRecord | undefined> {
    const answer = await fetch(`${adminUrl}/records/${requestId}`, { signal: AbortSignal.timeout(10_000) });
    const body = await answer.json();
    return answer.ok ? (body as WireRecord) : undefined;
  }

  await untilReady(
    child,
    'warmlane to have found its backends',
    async () => ((await backends()).every((backend) => backend.health === 'up') ? true : undefined),
    20_000,
  );
  return {
    url,
    adminUrl,
    process: child,
    record: (requestId) => until(`the record of ${requestId}`, () => findRecord(requestId)),
    running: async () => ((await admin('/running')) as { running: unknown[] }).running,
    backends,
    stop: () => child.stop(),
  };
}

function ownVariables(): string[] {
  return Object.keys(process.env).filter((name) => name.startsWith('WARMLANE_') || name.startsWith('OTEL_'));
}

/** The JSON lines of a log; other lines (a banner, a crash) are left out. */
export function logLines(log: string): Record<string, unknown>[] {
  return log
    .split('\n')
    .filter((line) => line.startsWith('{') && line.endsWith('}'))
    .map((line) => JSON.parse(line) as Record<string, unknown>); // an object, as its braces say
}

function toUrl(address: unknown): string {
  const text = String(address);
  return text.startsWith('http') ? text.replace(/\/$/, '') : `http://${text}`;
}
