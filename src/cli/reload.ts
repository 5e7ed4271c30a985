/**
 * Loads the configuration anew, on SIGHUP or when its file is another one, and hands it to the running app: whole, or not
 * at all. A file that is wrong or gone changes nothing but the log, which names every problem. Reloads can't overlap: each
 * runs from reading to the end of its swap in one turn of the event loop.
 */
import type { App } from '../app.ts';
import type { Config } from '../config/config.ts';
import { loadConfig, type LoadRequest } from '../config/load.ts';
import { noticesOf } from '../config/notices.ts';
import { problemText } from '../config/problem.ts';
import type { Log } from '../platform/log.ts';
import { hasDiscovery } from './check.ts';

export interface ReloadDeps {
  readonly request: LoadRequest;
  readonly app: Pick<App, 'reload' | 'reloadFailed'>;
  readonly log: Log;
  /** What was loaded at the start. */
  readonly first: Config;
  /** The backends that were taken where none was named: found on this machine, or simulated. */
  readonly found: Config['fleet']['backends'] | undefined;
  /** What holds from now on. */
  readonly inForce: (config: Config) => void;
}

export interface Reloader {
  /** @param by what asked for it, for the log */
  reload(by: 'SIGHUP' | 'file'): void;
}

const noBackends =
  'it names no backends, neither under backends nor under discovery; an empty fleet is taken for a mistake';

export function createReloader(deps: ReloadDeps): Reloader {
  const { app, log } = deps;
  let latest = deps.first;

  function rejected(by: string, problems: readonly string[]): void {
    log.error('the new configuration is wrong; the old one holds', { by, problems: problems.length });
    for (const problem of problems) log.error('configuration', { problem });
    app.reloadFailed(problems);
  }

  return {
    reload(by) {
      const loaded = loadConfig({ ...deps.request, isRunning: true });
      if (!loaded.ok) return rejected(by, loaded.problems.map(problemText));
      const isEmpty = loaded.config.fleet.backends.length === 0 && !hasDiscovery(loaded.config);
      if (isEmpty && deps.found === undefined) return rejected(by, [noBackends]);
      const next = isEmpty || loaded.demo ? withBackends(loaded.config, deps.found ?? []) : loaded.config;
      const { changed, needsRestart, inForce } = app.reload(next);
      deps.inForce(inForce);
      log.info('configuration reloaded', { by, changed: changed.length === 0 ? 'nothing' : changed.join(', ') });
      if (needsRestart.length > 0)
        log.warn(`needs a restart: ${needsRestart.join(', ')}; until then the old values hold`, { by });
      const said = new Set(noticesOf(latest));
      for (const notice of noticesOf(next)) if (!said.has(notice)) log.warn(notice);
      latest = next;
    },
  };
}

function withBackends(config: Config, backends: Config['fleet']['backends']): Config {
  return { ...config, fleet: { ...config.fleet, backends } };
}
