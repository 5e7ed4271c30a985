/** A whole warmlane in this process, on ports of its own, for tests over real sockets. */
import { startApp, type App } from '../../src/app.ts';
import type { Config } from '../../src/config/config.ts';
import { loadConfig } from '../../src/config/load.ts';
import { problemText } from '../../src/config/problem.ts';
import type { RequestRecord } from '../../src/domain/record.ts';
import type { SketchData } from '../../src/domain/sketch.ts';
import { createLog, silentLog } from '../../src/platform/log.ts';

type Part<T> = {
  readonly [K in keyof T]?: T[K] extends readonly unknown[] ? T[K] : T[K] extends object ? Part<T[K]> : T[K];
};
export type ConfigChange = Part<Config>;

export interface Proxy {
  readonly app: App;
  /** What it began with. */
  readonly config: Config;
  /** `http://127.0.0.1:port` of the data listener. */
  readonly url: string;
  readonly port: number;
  readonly adminUrl: string;
  /** Log lines so far, as JSON objects. */
  readonly logged: readonly Record<string, unknown>[];
  /** Waits until `count` requests are recorded; oldest first. */
  records(count: number, timeoutMs?: number): Promise<readonly RequestRecord[]>;
  close(): Promise<void>;
}

/** Backends by URL, and whatever of the configuration a test wants otherwise than by default. */
export async function startProxy(
  backends: readonly string[],
  change: ConfigChange = {},
  env: Readonly<Record<string, string>> = {},
): Promise<Proxy> {
  const loaded = loadConfig({
    env: {},
    flags: { backends: [...backends], listen: '127.0.0.1:0', adminListen: '127.0.0.1:0', logLevel: 'debug' },
  });
  if (!loaded.ok) throw new Error(loaded.problems.map(problemText).join('\n'));
  const config = merge(loaded.config, change) as Config;
  const logged: Record<string, unknown>[] = [];
  const log =
    process.env['WARMLANE_TEST_LOG'] === undefined
      ? createLog(
          { level: 'debug', format: 'json' },
          (line) => void logged.push(JSON.parse(line) as Record<string, unknown>),
        )
      : createLog({ level: 'debug', format: 'logfmt' });
  const app = await startApp(config, { log: log ?? silentLog, env });
  const adminUrl = `http://127.0.0.1:${app.admin.port}`;
  const records = async (): Promise<readonly RequestRecord[]> => {
    const answer = await fetch(`${adminUrl}/records`);
    return ((await answer.json()) as { records: readonly ShownRecord[] }).records.map(asRecord).toReversed();
  };
  return {
    app,
    config,
    url: `http://127.0.0.1:${app.data.port}`,
    port: app.data.port,
    adminUrl,
    logged,
    async records(count, timeoutMs = 5000) {
      const untilMs = performance.now() + timeoutMs;
      for (;;) {
        const found = await records();
        if (found.length >= count) return found;
        if (performance.now() > untilMs) throw new Error(`only ${found.length} of ${count} records in ${timeoutMs} ms`);
        await new Promise((resolve) => void setTimeout(resolve, 10));
      }
    },
    async close() {
      app.kill();
      await Promise.all([app.data.close(), app.admin.close(), app.batches?.close()]);
    },
  };
}

function merge(base: unknown, change: unknown): unknown {
  if (change === undefined) return base;
  if (!isPlain(base) || !isPlain(change)) return change;
  const merged: Record<string, unknown> = { ...base };
  for (const [key, value] of Object.entries(change)) merged[key] = merge(base[key], value);
  return merged;
}

function isPlain(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** As admin-json.ts writes it: what is in seconds says so. */
export interface ShownRecord extends Omit<RequestRecord, 'itl'> {
  readonly itlSeconds?: SketchData;
}

export function asRecord({ itlSeconds, ...record }: ShownRecord): RequestRecord {
  return itlSeconds === undefined ? record : { ...record, itl: itlSeconds };
}
