/**
 * `warmlane check`: says whether a configuration can be served, or everything that is wrong with it. Starts nothing.
 */
import type { Config } from '../config/config.ts';
import { type Loaded, loadConfig, type LoadRequest } from '../config/load.ts';
import { noticesOf } from '../config/notices.ts';
import { type ConfigProblem, problemText } from '../config/problem.ts';
import type { BackendSettings } from '../fleet/settings.ts';

/**
 * @param write receives whole lines, newline included
 * @returns the exit code: 0 when it is right, 1 when not
 */
export function runCheck(request: LoadRequest, write: (text: string) => void): 0 | 1 {
  const result = loadConfig(request);
  write(result.ok ? summary(result) : problemList(result.problems));
  return result.ok ? 0 : 1;
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
    ...noticesOf(config).map((notice) => `  note      ${notice}`),
  ];
  return `${lines.join('\n')}\n`;
}

function backendLines(config: Config, demo: boolean): readonly string[] {
  if (demo) return ['  backends  simulated (demo)'];
  const { backends } = config.fleet;
  if (backends.length === 0) return ['  backends  none named: usual places on this machine, else the demo'];
  const width = Math.max(...backends.map(({ name }) => name.length));
  return backends.map((backend, index) => `  ${index === 0 ? 'backends' : '        '}  ${backendLine(backend, width)}`);
}

/** Says that there is a key, never which. */
function backendLine({ name, url, engine, maxInFlight, apiKey, models }: BackendSettings, width: number): string {
  const facts = [
    engine,
    models === undefined ? undefined : models.join(' '),
    maxInFlight === undefined ? undefined : `at most ${maxInFlight} jobs`,
    apiKey === undefined ? undefined : 'with a key',
  ].filter((fact) => fact !== undefined);
  return `${name.padEnd(width)}  ${url}${facts.length === 0 ? '' : `  (${facts.join(', ')})`}`;
}

function address({ host, port }: { readonly host: string; readonly port: number }): string {
  return `${host.includes(':') ? `[${host}]` : host}:${port}`;
}
