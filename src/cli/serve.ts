/**
 * `warmlane` and `warmlane serve`: finds what to serve, starts it, says where, and stops when told to.
 * With nothing configured: the model servers of this machine, else the demo.
 */
import { startApp, type App } from '../app.ts';
import type { Config } from '../config/config.ts';
import { loadConfig, type LoadRequest } from '../config/load.ts';
import { noticesOf } from '../config/notices.ts';
import { findLocalServers } from '../fleet/discover.ts';
import { createProbeFetch } from '../fleet/probe-fetch.ts';
import { systemClock } from '../platform/clock.ts';
import { createLog, type Log } from '../platform/log.ts';
import { watchFile } from '../platform/watch-file.ts';
import { banner } from './banner.ts';
import { batchPlaceOf, hasDiscovery, problemList } from './check.ts';
import { startDemo, type Demo } from './demo.ts';
import type { Process } from './process.ts';
import { createReloader, type Reloader } from './reload.ts';

export async function serve(request: LoadRequest, process: Process): Promise<number> {
  const loaded = loadConfig(request);
  if (!loaded.ok) {
    process.err(problemList(loaded.problems));
    return 1;
  }
  // Its level may change while it is in use.
  const logging = { ...loaded.config.log };
  const log = createLog(logging, process.err);
  process.onUncaught((error) => {
    // One request's bug must not end the others' streams: it is logged as what it is, and serving goes on.
    log.error('internal error', { error: error instanceof Error ? (error.stack ?? error.message) : String(error) });
  });
  const signals = listenForSignals(process, log);
  const reloads = listenForReloads(process, loaded.file);
  for (const notice of noticesOf(loaded.config)) log.warn(notice);
  const { config, demo } = await whatToServe(loaded.config, loaded.demo);
  if (signals.stopping()) {
    reloads.stop();
    await demo?.close();
    log.info('stopped');
    return 0;
  }
  let app: App;
  try {
    app = await startApp(config, {
      log,
      env: process.env,
      ...(loaded.file === undefined ? {} : { file: loaded.file }),
    });
  } catch (error) {
    process.err(`warmlane: ${listenProblem(error)}\n`);
    reloads.stop();
    await demo?.close();
    return 1;
  }
  signals.started(app);
  const urls = { data: urlOf(app.data, config.http.tls !== undefined), admin: urlOf(app.admin, false) };
  if (!signals.stopping()) {
    log.info('listening', urls);
    process.out(
      banner({
        ...urls,
        fleet: app.fleet.snapshot(),
        demo: demo === undefined ? undefined : loaded.demo ? 'asked' : 'nothing_found',
        requestLog: logsRequests(config) ? config.log.format : undefined,
        downIntervalMs: config.fleet.probeDownIntervalMs,
        asksForKeys: config.access.auth !== undefined,
        batchPlace: config.batch.store === undefined ? undefined : batchPlaceOf(config.batch.store),
        program: programOf(process.env),
      }),
    );
    app.fleet.onChange(adviser(log));
    // It has no key, and whoever wants keys wants no traffic without: the banner says so.
    const followDemo = ({ access }: Config): void => {
      if (access.auth === undefined) demo?.startTraffic(urls.data);
      else demo?.stopTraffic();
    };
    reloads.started(
      createReloader({
        request,
        app,
        log,
        first: loaded.config,
        found: config === loaded.config ? undefined : config.fleet.backends,
        inForce(now) {
          logging.level = now.log.level;
          followDemo(now);
        },
      }),
    );
    followDemo(config);
  }
  await signals.asked;
  reloads.stop();
  return stopped({ app, demo, log }, process.exit);
}

function logsRequests({ export: { requestLog }, log: { level } }: Config): boolean {
  return requestLog && (level === 'debug' || level === 'info');
}

/** npm says in the environment how it was called. */
function programOf(env: Process['env']): string {
  switch (env['npm_lifecycle_event']) {
    case 'start':
      return 'npm start --';
    case 'npx':
      return 'npx warmlane';
    default:
      return 'warmlane';
  }
}

/** What the configuration names, else what answers on this machine, else simulated servers. */
async function whatToServe(config: Config, wantsDemo: boolean): Promise<{ config: Config; demo: Demo | undefined }> {
  const named = config.fleet.backends.length > 0 || hasDiscovery(config);
  if (!wantsDemo && named) return { config, demo: undefined };
  const found = wantsDemo
    ? []
    : await findLocalServers({ clock: systemClock, probeFetch: (target) => createProbeFetch(target, systemClock) });
  const demo = found.length === 0 ? await startDemo() : undefined;
  const backends = (demo?.backends ?? found.map((url) => ({ url, name: new URL(url).host }))).map((backend) => ({
    ...backend,
  }));
  return { config: { ...config, fleet: { ...config.fleet, backends } }, demo };
}

interface Reloads {
  /** From here on there is something to reload; what was asked before is done now. */
  readonly started: (reloader: Reloader) => void;
  readonly stop: () => void;
}

/** From the first moment on: a file that changes during the start is not missed, and SIGHUP doesn't end the process. */
function listenForReloads(process: Process, file: string | undefined): Reloads {
  let reloader: Reloader | undefined;
  let early: 'SIGHUP' | 'file' | undefined;
  const ask = (by: 'SIGHUP' | 'file') => () => {
    if (reloader === undefined) early = by;
    else reloader.reload(by);
  };
  const unhear = process.onSignal('SIGHUP', ask('SIGHUP'));
  const watch = file === undefined ? undefined : watchFile(file, { clock: systemClock, changed: ask('file') });
  return {
    started(made) {
      reloader = made;
      if (early !== undefined) made.reload(early);
    },
    stop() {
      unhear();
      watch?.stop();
    },
  };
}

interface Signals {
  /** Resolves with the first signal. */
  readonly asked: Promise<void>;
  readonly stopping: () => boolean;
  /** From here on there is something to stop. */
  readonly started: (app: App) => void;
}

/** So long may it take to record what a second signal ended. */
const recordedMs = 200;

/** From the first moment on: a signal during the start is kept until there is something to stop. The second ends at once. */
function listenForSignals(process: Process, log: Log): Signals {
  let app: App | undefined;
  let stopping = false;
  let ask = () => {};
  const asked = new Promise<void>((resolve) => {
    ask = resolve;
  });
  const stop = (signal: string) => () => {
    if (stopping) {
      log.warn('second signal: ending at once', { signal });
      app?.kill();
      // What was ended is recorded some turns later; nothing may hold the exit up.
      const exit = () => process.exit(1);
      setTimeout(exit, recordedMs);
      void app?.pipeline.idle().then(exit);
      if (app === undefined) exit();
      return;
    }
    stopping = true;
    if (app === undefined) log.info('stopping: it had not started yet', { signal });
    else {
      const running = app.running().length;
      log.info('stopping: no new requests, running streams may end', { signal, running });
    }
    ask();
  };
  process.onSignal('SIGTERM', stop('SIGTERM'));
  process.onSignal('SIGINT', stop('SIGINT'));
  return {
    asked,
    stopping: () => stopping,
    started(running) {
      app = running;
    },
  };
}

/** After everything is closed and written. */
const lastMs = 250;

/** Lets streams end, then closes all. @returns the exit code */
async function stopped(
  { app, demo, log }: { app: App; demo: Demo | undefined; log: Log },
  exit: Process['exit'],
): Promise<number> {
  try {
    demo?.stopTraffic();
    await app.stop();
    await demo?.close();
  } catch (error) {
    log.error('stopping failed', { error: String(error) });
    return 1;
  }
  log.info('stopped');
  // An exporter whose collector is away would keep the process for as long as it tries again (C199).
  setTimeout(() => exit(0), lastMs).unref();
  return 0;
}

/** Logs each piece of advice once, when it first shows. */
function adviser(log: Log): (snapshot: ReturnType<App['fleet']['snapshot']>) => void {
  const told = new Set<string>();
  return ({ backends }) => {
    for (const { name, advice } of backends) {
      for (const text of advice) {
        const key = `${name} ${text}`;
        if (told.has(key) || told.size > maxAdvice) continue;
        told.add(key);
        log.warn(text, { backend: name });
      }
    }
  };
}

const maxAdvice = 1000;

function urlOf({ host, port }: { readonly host: string; readonly port: number }, secure: boolean): string {
  const shown = host === '0.0.0.0' || host === '::' ? 'localhost' : host;
  return `${secure ? 'https' : 'http'}://${shown.includes(':') ? `[${shown}]` : shown}:${port}`;
}

function listenProblem(error: unknown): string {
  const { code, address, port, message } = error as NodeJS.ErrnoException & { address?: string; port?: number };
  const where = `${address ?? ''}:${port ?? ''}`;
  if (code === 'EADDRINUSE') return `${where} is in use; choose other addresses with --listen and --admin-listen`;
  if (code === 'EACCES') return `${where} may not be opened by this user; choose a port above 1023 with --listen`;
  if (code === 'EADDRNOTAVAIL') return `${where} is no address of this machine; see --listen and --admin-listen`;
  return message ?? String(error);
}
