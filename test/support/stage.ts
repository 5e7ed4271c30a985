/**
 * What one test opens: scripted backends, whole proxies, raw clients. Closes all of it, and looks for what must never be
 * there afterwards: an internal error in a proxy's log, a script that failed, a request still under way.
 */
import type { ConfigChange, Proxy } from './proxy.ts';
import { startProxy } from './proxy.ts';
import { rawClient, type RawClient } from './raw-http.ts';
import type { RawRequest } from '../../src/sim/raw-request.ts';
import { createScriptedServer, type ScriptedServer, type ScriptedServerSettings } from '../../src/sim/faults.ts';
import { isFromProber } from '../../src/sim/probe-answers.ts';
import { wholeAnswer } from '../../src/sim/sse-script.ts';
import type { RunningView } from '../../src/domain/running-view.ts';

export interface StageOptions {
  /** Jobs that each backend takes at once. */
  readonly places?: number;
  readonly change?: ConfigChange;
  /** Variables of the environment: the standard `OTEL_*` ones. */
  readonly env?: Readonly<Record<string, string>>;
}

export interface Stage {
  backend(settings?: ScriptedServerSettings): Promise<ScriptedServer>;
  proxy(backends: ScriptedServer | readonly ScriptedServer[], options?: StageOptions): Promise<Proxy>;
  client(proxy: Proxy): Promise<RawClient>;
  /** Ends everything. @throws when something went wrong that no test may leave behind */
  close(): Promise<void>;
}

export function createStage(): Stage {
  const backends: ScriptedServer[] = [];
  const proxies: Proxy[] = [];
  const clients: RawClient[] = [];

  return {
    async backend(settings = {}) {
      const { onRequest } = settings;
      const server = await createScriptedServer({
        ...settings,
        // Whatever else a probe asks is not there, whoever answers the users.
        ...(onRequest === undefined
          ? {}
          : { onRequest: (request, connection) => (isUsers(request) ? onRequest(request, connection) : [missing]) }),
      });
      backends.push(server);
      return server;
    },
    async proxy(behind, options = {}) {
      const servers = 'url' in behind ? [behind] : behind;
      const { places, change = {}, env = {} } = options;
      const limited = servers.map(({ url, port }) => ({ url, name: `b${port}`, maxInFlight: places ?? 0 }));
      const proxy = await startProxy(
        servers.map(({ url }) => url),
        { ...change, ...(places === undefined ? {} : { fleet: { ...change.fleet, backends: limited } }) },
        env,
      );
      proxies.push(proxy);
      return proxy;
    },
    async client(proxy) {
      const client = await rawClient(proxy.port);
      clients.push(client);
      return client;
    },
    async close() {
      for (const client of clients.splice(0)) client.leave();
      const problems: string[] = [];
      for (const proxy of proxies.splice(0)) {
        await untilIdle(proxy).catch((error: unknown) => problems.push(String(error)));
        problems.push(...proxy.logged.filter(({ level }) => level === 'error').map((line) => JSON.stringify(line)));
        await proxy.close();
      }
      for (const server of backends.splice(0)) {
        problems.push(...server.faults.map(String));
        await server.close();
      }
      if (problems.length > 0) throw new Error(`left behind:\n${problems.join('\n')}`);
    },
  };
}

/** A test with a stage of its own, closed after it: for tests that run beside one another. */
export function staged(test: (stage: Stage) => Promise<void>): () => Promise<void> {
  return async () => {
    const stage = createStage();
    try {
      await test(stage);
    } finally {
      await stage.close();
    }
  };
}

const missing = wholeAnswer(404, { error: { message: 'Not Found' } });

function isUsers(request: RawRequest): boolean {
  return !isFromProber(request);
}

/** Users' requests that a backend got. */
export function usersOf(backend: ScriptedServer): readonly RawRequest[] {
  return backend.requests.filter(isUsers);
}

/** Waits until a backend has got this many users' requests; gives the last of them. */
export async function untilAsked(backend: ScriptedServer, count: number, timeoutMs = 5000): Promise<RawRequest> {
  await eventually(() => usersOf(backend).length >= count, `request ${count} at the backend`, timeoutMs);
  const request = usersOf(backend)[count - 1];
  if (request === undefined) throw new Error('no such request');
  return request;
}

export async function eventually(
  holds: () => boolean | Promise<boolean>,
  what: string,
  timeoutMs = 5000,
): Promise<void> {
  const endMs = performance.now() + timeoutMs;
  while (!(await holds())) {
    if (performance.now() > endMs) throw new Error(`not within ${timeoutMs} ms: ${what}`);
    await sleep(3);
  }
}

export function sleep(ms: number): Promise<void> {
  return new Promise((resolve) => void setTimeout(resolve, ms));
}

export interface Load {
  readonly running: readonly RunningView[];
  readonly waiting: number;
  readonly jobs: number;
  readonly slots: number;
  readonly ghostSlots: number;
}

/** What the admin listener says is under way, all backends together. */
export async function loadOf(proxy: Pick<Proxy, 'adminUrl'>): Promise<Load> {
  const [under, fleet] = await Promise.all([
    getJson<{ waiting: number; running: RunningView[] }>(`${proxy.adminUrl}/running`),
    getJson<{ backends: { ghostSlots: number; load: { jobs: number; slots: number } }[] }>(
      `${proxy.adminUrl}/backends`,
    ),
  ]);
  const sum = (figure: (backend: (typeof fleet.backends)[number]) => number) =>
    fleet.backends.reduce((total, backend) => total + figure(backend), 0);
  return {
    ...under,
    jobs: sum(({ load }) => load.jobs),
    slots: sum(({ load }) => load.slots),
    ghostSlots: sum(({ ghostSlots }) => ghostSlots),
  };
}

async function getJson<T>(url: string): Promise<T> {
  const answer = await fetch(url);
  return (await answer.json()) as T;
}

/** Nothing runs, nothing waits, no place is taken. */
export async function untilIdle(proxy: Pick<Proxy, 'adminUrl'>, timeoutMs = 5000): Promise<void> {
  let last: Load | undefined;
  try {
    await eventually(
      async () => {
        last = await loadOf(proxy);
        return last.running.length === 0 && last.waiting === 0 && last.jobs === 0 && last.slots === 0;
      },
      'idle',
      timeoutMs,
    );
  } catch (error) {
    throw new Error(`${String(error)}; left: ${JSON.stringify(last)}`, { cause: error });
  }
}
