/**
 * Backends by DNS: resolves one name again and again, and names one backend for each address. A resolution that fails or
 * takes too long changes nothing: the last answer holds, the log says so once. Probes tell which of the addresses serve.
 */
import { isIPv6 } from 'node:net';
import type { Clock, Timer } from '../../platform/clock.ts';
import type { Log } from '../../platform/log.ts';
import type { HostAddress, Resolver } from '../../platform/resolver.ts';
import type { BackendSettings, DnsSource } from '../settings.ts';
import { keptText } from './kept-text.ts';

export interface SourceState {
  /** Wall clock, ms: when it last answered; absent: never. */
  readonly readMs?: number;
  readonly backends: number;
  /** Why the last attempt failed; absent: it didn't. */
  readonly problem?: string;
}

export interface Source {
  /** Resolves after the first attempt, however it ended. Then it goes on by itself. */
  start(): Promise<void>;
  stop(): void;
  state(): SourceState;
}

export interface DnsSourceDeps {
  readonly clock: Clock;
  readonly log: Log;
  readonly resolver: Resolver;
  /** Another answer than before. */
  readonly found: (backends: readonly BackendSettings[]) => void;
}

/** A name server that says nothing for so long has failed; libuv's own patience is half a minute. */
const patienceMs = 5000;
/** Of one name: no fleet behind one name has more. */
const maxAddresses = 256;

interface Place extends HostAddress {
  readonly host: string;
  readonly port: number;
}

export function createDnsSource(settings: DnsSource, deps: DnsSourceDeps): Source {
  const { clock, log } = deps;
  const isSrv = settings.name.startsWith('_');
  let timer: Timer | undefined;
  let stopped = false;
  let answer = '';
  let count = 0;
  let readMs: number | undefined;
  let problem: string | undefined;
  /** The last question is still open: another one would only wait behind it. */
  let open = false;

  async function places(): Promise<readonly Place[]> {
    const ports = isSrv
      ? (await deps.resolver.services(settings.name)).slice(0, maxAddresses)
      : [{ host: settings.name, port: settings.port ?? (settings.scheme === 'https' ? 443 : 80) }];
    const found = await Promise.all(
      ports.map(async ({ host, port }) =>
        wanted(await deps.resolver.addresses(host), settings.family).map((one) => ({ ...one, host, port })),
      ),
    );
    return found
      .flat()
      .toSorted((a, b) => (a.address === b.address ? a.port - b.port : a.address < b.address ? -1 : 1))
      .slice(0, maxAddresses);
  }

  async function ask(): Promise<void> {
    open = true;
    try {
      const found = await within(places(), clock);
      if (stopped) return;
      if (found.length === 0) return failed('it has no address');
      take(found);
    } catch (error) {
      if (!stopped) failed(errorText(error));
    }
  }

  function take(found: readonly Place[]): void {
    if (problem !== undefined) log.info('name resolves again', { name: settings.name });
    problem = undefined;
    readMs = clock.wallMs();
    const backends = found.map((place) => backendAt(place, settings, isSrv));
    const text = JSON.stringify(backends.map(({ name, url }) => [name, url]));
    if (text === answer) return;
    log.info('backends by DNS', { name: settings.name, addresses: found.map(({ address }) => address) });
    answer = text;
    count = backends.length;
    deps.found(backends);
  }

  function failed(why: string): void {
    if (problem !== why) {
      log.warn(`a name does not resolve; ${keptText(count)}`, { name: settings.name, error: why });
    }
    problem = why;
  }

  async function within(asked: Promise<readonly Place[]>, on: Clock): Promise<readonly Place[]> {
    let patience: Timer | undefined;
    const late = new Promise<never>((_, reject) => {
      patience = on.timer(patienceMs, () => reject(new Error(`no answer within ${patienceMs} ms`)));
    });
    const settled = asked.finally(() => (open = false));
    try {
      return await Promise.race([settled, late]);
    } finally {
      patience?.cancel();
      // Once it has lost the race nobody else would hear of its failure.
      settled.catch(() => {});
    }
  }

  function arm(): void {
    if (stopped) return;
    timer = clock.timer(settings.intervalMs, () => {
      if (open) arm();
      else void ask().then(arm);
    });
  }

  return {
    async start() {
      await ask();
      arm();
    },
    stop() {
      stopped = true;
      timer?.cancel();
    },
    state: () => ({
      backends: count,
      ...(readMs === undefined ? {} : { readMs }),
      ...(problem === undefined ? {} : { problem }),
    }),
  };
}

function wanted(found: readonly HostAddress[], family: DnsSource['family']): readonly HostAddress[] {
  const four = found.filter((one) => one.family === 4);
  const six = found.filter((one) => one.family === 6);
  switch (family) {
    case 'ipv4':
      return four;
    case 'ipv6':
      return six;
    case 'both':
      return found;
    case 'auto':
      return four.length > 0 ? four : six;
  }
}

/** Certificates are for names: the address in the URL must not be what is looked for in them. */
function backendAt(place: Place, { scheme, path, each, name }: DnsSource, isSrv: boolean): BackendSettings {
  const { address, port, host } = place;
  const authority = `${isIPv6(address) ? `[${address}]` : address}:${port}`;
  const { tls, ...rest } = each;
  const serverName = tls?.serverName ?? host.replace(/\.$/, '');
  return {
    ...rest,
    name: `${name}/${isSrv ? authority : address}`,
    url: new URL(`${scheme}://${authority}`).origin + path,
    ...(scheme === 'https' ? { tls: { verify: true, ...tls, serverName } } : {}),
  };
}

function errorText(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
