/**
 * `warmlane check`: says whether a configuration can be served, or everything that is wrong with it. Starts nothing.
 */
import type { Config } from '../config/config.ts';
import { type Loaded, loadConfig, type LoadRequest } from '../config/load.ts';
import { noticesOf } from '../config/notices.ts';
import { readBackendsFile } from '../config/discovery.ts';
import { type ConfigProblem, problemText } from '../config/problem.ts';
import { writeFault } from '../config/writable-file.ts';
import type { BackendSettings } from '../fleet/settings.ts';

/**
 * @param write receives whole lines, newline included
 * @returns the exit code: 0 when it is right, 1 when not
 */
export function runCheck(request: LoadRequest, write: (text: string) => void): 0 | 1 {
  const result = loadConfig(request);
  const problems = result.ok
    ? [...discoveredProblems(result.config, request), ...traceProblems(result)]
    : result.problems;
  write(result.ok && problems.length === 0 ? summary(result) : problemList(problems));
  return problems.length === 0 ? 0 : 1;
}

/** What stands in the file of backends: serving would go on without it, but whoever asks wants to hear of it. */
function discoveredProblems({ discovery, http }: Config, { env }: LoadRequest): readonly ConfigProblem[] {
  if (discovery.file === undefined) return [];
  const read = readBackendsFile(discovery.file.path, { env, own: [http.listen, http.admin] });
  return read.ok ? [] : read.problems;
}

/** Serving would go on without its prompt trace. */
function traceProblems({ config, file }: Loaded): readonly ConfigProblem[] {
  const path = config.promptTrace.file;
  const message = path === undefined ? undefined : writeFault(path);
  if (message === undefined) return [];
  return [{ path: 'telemetry.promptTrace.file', message, ...(file === undefined ? {} : { file }) }];
}

/** All problems, one a line, under a line that counts them; `serve` shows the same before it gives up. */
export function problemList(problems: readonly ConfigProblem[]): string {
  const count = problems.length === 1 ? '1 problem' : `${problems.length} problems`;
  return `${[`The configuration has ${count}:`, ...problems.map((problem) => `  ${problemText(problem)}`)].join('\n')}\n`;
}

function summary({ config, file, demo }: Loaded): string {
  const { http } = config;
  const lines = [
    `OK  ${file ?? 'no file: flags, environment and defaults'}`,
    `  clients   ${http.tls === undefined ? 'http' : 'https'}://${address(http.listen)}`,
    `  admin     http://${address(http.admin)}`,
    ...backendLines(config, demo),
    ...tenantLines(config),
    ...discoveryLines(config),
    ...batchLines(config),
    ...noticesOf(config).map((notice) => `  note      ${notice}`),
  ];
  return `${lines.join('\n')}\n`;
}

function backendLines(config: Config, demo: boolean): readonly string[] {
  if (demo) return ['  backends  simulated (demo)'];
  const { backends } = config.fleet;
  if (backends.length === 0 && hasDiscovery(config)) return [];
  if (backends.length === 0) return ['  backends  none named: usual places on this machine, else the demo'];
  const width = Math.max(...backends.map(({ name }) => name.length));
  return backends.map((backend, index) => `  ${index === 0 ? 'backends' : '        '}  ${backendLine(backend, width)}`);
}

/** Backends come from elsewhere than the list. */
export function hasDiscovery({ discovery }: Config): boolean {
  return discovery.dns.length > 0 || discovery.file !== undefined;
}

/** Who may ask and how much; of keys only how many there are. */
function tenantLines({ access: { auth } }: Config): readonly string[] {
  if (auth === undefined) return [];
  const shown = auth.tenants.slice(0, mostTenants).map(({ name, models, limits }, index) => {
    const keys = auth.keys.filter(({ tenant }) => tenant === name);
    const facts = [
      keys.length === 1 ? '1 key' : `${keys.length} keys`,
      keys.every(({ lane }) => lane === 'batch') ? 'batch' : 'online',
      models === undefined ? undefined : models.join(' '),
      limits.concurrent === undefined ? undefined : `${limits.concurrent} at once`,
      limits.requestsPerMinute === undefined ? undefined : `${limits.requestsPerMinute} requests a minute`,
      limits.tokensPerMinute === undefined ? undefined : `${limits.tokensPerMinute} tokens a minute`,
    ].filter((fact) => fact !== undefined);
    return `  ${index === 0 ? 'tenants ' : '        '}  ${name}  (${facts.join(', ')})`;
  });
  const more = auth.tenants.length - shown.length;
  return more > 0 ? [...shown, `            and ${more} more`] : shown;
}

function discoveryLines({ discovery: { dns, file } }: Config): readonly string[] {
  const names = dns.map(
    ({ name, port, scheme }) => `  by DNS    ${scheme}://${name}${port === undefined ? '' : `:${port}`}`,
  );
  return file === undefined ? names : [...names, `  by file   ${file.path}`];
}

function batchLines({ batch: { store } }: Config): readonly string[] {
  return store === undefined ? [] : [`  batches   /v1/batches, kept in ${batchPlaceOf(store)}`];
}

/** Where files and batches are kept. A database's URL may hold its password: it isn't shown. */
export function batchPlaceOf(store: NonNullable<Config['batch']['store']>): string {
  if (store.kind === 'sqlite') return `${store.directory} (SQLite)`;
  return store.directory === undefined ? 'Postgres' : `Postgres, files in ${store.directory}`;
}

/** A file of keys may have thousands. */
const mostTenants = 50;

/** Says that there is a key, never which. */
function backendLine(backend: BackendSettings, width: number): string {
  const { name, url, engine, maxInFlight, apiKey, models, weight, drain } = backend;
  const facts = [
    engine,
    models === undefined ? undefined : models.join(' '),
    maxInFlight === undefined ? undefined : `at most ${maxInFlight} jobs`,
    weight === undefined ? undefined : `weight ${weight}`,
    apiKey === undefined ? undefined : 'with a key',
    drain === true ? 'drained' : undefined,
  ].filter((fact) => fact !== undefined);
  return `${name.padEnd(width)}  ${url}${facts.length === 0 ? '' : `  (${facts.join(', ')})`}`;
}

function address({ host, port }: { readonly host: string; readonly port: number }): string {
  return `${host.includes(':') ? `[${host}]` : host}:${port}`;
}
