/**
 * Composes who is in the fleet: the config's list, DNS, the watched file and the admin API, joined by the roster; each
 * change goes to the fleet in one step, and everything that is kept for each backend follows it. Decides nothing about
 * requests. `app.ts` makes it and hands it each new configuration.
 */
import type { Config } from './config/config.ts';
import {
  type BackendExtra,
  type NamedBackend,
  readBackend,
  readBackendsFile,
  type Surroundings,
} from './config/discovery.ts';
import { problemText } from './config/problem.ts';
import type { Fleet } from './fleet/fleet.ts';
import type { ModelSource } from './fleet/merged-models.ts';
import type { ProbeFetchFactory } from './fleet/probe-port.ts';
import type { BackendSettings, DnsSource } from './fleet/settings.ts';
import { createDnsSource, type Source } from './fleet/sources/dns-source.ts';
import { createFileSource } from './fleet/sources/file-source.ts';
import { createRoster, type RosterRefusal } from './fleet/sources/roster.ts';
import { createWitness } from './fleet/traffic-witness.ts';
import type { BackendChange, BackendsControl } from './http/admin-backends.ts';
import type { Link } from './pipeline-deps.ts';
import type { Clock } from './platform/clock.ts';
import type { Log } from './platform/log.ts';
import type { Resolver } from './platform/resolver.ts';
import { parseTarget } from './platform/upstream/target.ts';

type Caches = Config['route']['caches'];
type Members = Pick<Config, 'fleet' | 'discovery' | 'ceiling' | 'route'>;

export interface MembershipDeps {
  readonly clock: Clock;
  readonly log: Log;
  readonly fleet: Fleet;
  readonly resolver: Resolver;
  readonly probeFetch: ProbeFetchFactory;
  /** Against which other lists than the config's are read. */
  readonly around: () => Surroundings;
}

export interface Membership {
  /** Resolves when each source of the first configuration has answered, or failed to. */
  start(): Promise<void>;
  stop(): void;
  /** From now on these. What the API changed holds on. */
  configure(config: Members): void;
  /** To whoever has that name now. @throws when nobody has: a bug of ours */
  link(backend: string): Link;
  /** In the fleet now; the same array until they are others. */
  backends(): readonly BackendSettings[];
  hardware(): Config['ceiling']['hardware'];
  /** What is told of their caches, by name: one object, kept up to date. */
  readonly caches: Caches;
  models(): readonly ModelSource[];
  readonly control: BackendsControl;
  /** For the page that shows the configuration; without keys. */
  state(): object;
}

/** One that runs, and what it was made of. */
interface RunningSource {
  readonly kind: 'dns' | 'file';
  readonly of: string;
  readonly key: string;
  readonly source: Source;
}

interface Current {
  readonly backends: readonly BackendSettings[];
  readonly byName: ReadonlyMap<string, BackendSettings>;
  readonly hardware: Config['ceiling']['hardware'];
  readonly models: readonly ModelSource[];
}

export function createMembership(config: Members, deps: MembershipDeps): Membership {
  const { clock, log, fleet } = deps;
  const roster = createRoster<BackendExtra>();
  let sources: readonly RunningSource[] = [];
  let current: Current = { backends: [], byName: new Map(), hardware: [], models: [] };
  let links = new Map<string, Link>();
  /** Without a prototype: a backend called `toString` must find nothing. */
  const caches: { [backend: string]: Caches[string] } = Object.create(null) as object as Record<string, Caches[string]>;
  let toldLeftOut = '';
  let running = false;
  /** Several changes in one turn are one. */
  let together = false;

  function apply(): void {
    if (together) return;
    const list = roster.list();
    const backends = list.map(({ settings }) => settings);
    current = {
      backends,
      byName: new Map(backends.map((backend) => [backend.name, backend])),
      hardware: list.flatMap(({ settings, extra }) =>
        extra?.hardware === undefined ? [] : [{ backend: settings.name, hardware: extra.hardware }],
      ),
      models: backends.map((backend) => ({
        name: backend.name,
        fetch: deps.probeFetch(backend),
        ...(backend.models === undefined ? {} : { models: backend.models }),
      })),
    };
    for (const name of Object.keys(caches)) delete caches[name];
    for (const { settings, extra } of list) if (extra?.cache !== undefined) caches[settings.name] = extra.cache;
    links = new Map();
    fleet.set(backends);
    tellLeftOut();
  }

  function tellLeftOut(): void {
    const out = roster.leftOut().filter(({ why }) => why !== 'same_url');
    const text = JSON.stringify(out);
    if (text !== toldLeftOut)
      for (const { name, url, source, why } of out)
        log.warn('a backend is left out', {
          name,
          url,
          source,
          why: why === 'full' ? 'there are too many' : 'another one has its name',
        });
    toldLeftOut = text;
  }

  function put(kind: 'dns' | 'file', key: string, backends: readonly NamedBackend[]): void {
    roster.put(kind, key, backends);
    apply();
  }

  function wanted({ discovery }: Members): readonly Omit<RunningSource, 'source'>[] {
    const { dns, file } = discovery;
    return [
      ...(file === undefined ? [] : [{ kind: 'file' as const, of: file.path, key: file.path }]),
      ...dns.map((entry) => ({ kind: 'dns' as const, of: JSON.stringify(entry), key: entry.name })),
    ];
  }

  function open({ kind, key }: Omit<RunningSource, 'source'>, dns: readonly DnsSource[]): Source {
    const entry = dns.find(({ name }) => name === key);
    if (kind === 'dns' && entry !== undefined) {
      const found = (backends: readonly BackendSettings[]) =>
        put(
          'dns',
          key,
          backends.map((settings) => ({ settings })),
        );
      return createDnsSource(entry, { clock, log, resolver: deps.resolver, found });
    }
    return createFileSource<BackendExtra>(key, {
      clock,
      log,
      read(path) {
        const read = readBackendsFile(path, deps.around());
        return read.ok ? read : { ok: false, problems: read.problems.map(problemText) };
      },
      found: (backends) => put('file', key, backends),
    });
  }

  function configure(next: Members): void {
    together = true;
    const hardware = new Map(next.ceiling.hardware.map((one) => [one.backend, one.hardware]));
    const named = next.fleet.backends.map((settings) => {
      const [cards, cache] = [hardware.get(settings.name), next.route.caches[settings.name]];
      if (cards === undefined && cache === undefined) return { settings };
      const extra = { ...(cards === undefined ? {} : { hardware: cards }), ...(cache === undefined ? {} : { cache }) };
      return { settings, extra };
    });
    roster.put('config', '', named);
    const want = wanted(next);
    const kept = sources.filter((one) => want.some(({ kind, of }) => kind === one.kind && of === one.of));
    for (const one of sources) {
      if (kept.includes(one)) continue;
      one.source.stop();
      // One that is only asked in another way keeps its backends until it has answered.
      if (!want.some(({ kind, key }) => kind === one.kind && key === one.key)) roster.put(one.kind, one.key, []);
    }
    const fresh = want
      .filter(({ kind, of }) => !kept.some((one) => one.kind === kind && one.of === of))
      .map((one) => ({ ...one, source: open(one, next.discovery.dns) }));
    sources = [...kept, ...fresh];
    together = false;
    apply();
    if (running) for (const { source } of fresh) void source.start();
  }

  configure(config);

  return {
    async start() {
      running = true;
      await Promise.all(sources.map(({ source }) => source.start()));
    },
    stop() {
      for (const { source } of sources) source.stop();
    },
    configure,
    link(backend) {
      const known = links.get(backend);
      const member = fleet.member(backend);
      if (known !== undefined && known.member === member) return known;
      const settings = current.byName.get(backend);
      if (settings === undefined) throw new Error(`no link for backend ${backend}`);
      const { url, tls, apiKey, priorityField } = settings;
      const target = parseTarget(url, tls);
      const witness = createWitness(member);
      const link: Link = {
        target,
        witness,
        member,
        ...(apiKey === undefined ? {} : { apiKey }),
        ...(priorityField === true ? { priorityField } : {}),
      };
      links.set(backend, link);
      return link;
    },
    backends: () => current.backends,
    hardware: () => current.hardware,
    caches,
    models: () => current.models,
    control: {
      add(value) {
        const read = readBackend(value, deps.around());
        const one = read.ok ? read.backends[0] : undefined;
        if (!read.ok || one === undefined) return wrong(read.ok ? [] : read.problems);
        const { url } = one.settings;
        const refused = roster.add(one);
        if (refused !== undefined) return refusalOf(refused, one.settings.name);
        // One that its source still names has the name that it has there.
        const name = roster.list().find(({ settings }) => settings.url === url)?.settings.name ?? one.settings.name;
        log.info('backend added by the admin API', { backend: name, url });
        apply();
        return { ok: true, name };
      },
      remove(name) {
        const refused = roster.remove(name);
        if (refused !== undefined) return refusalOf(refused, name);
        log.info('backend taken out by the admin API', { backend: name });
        apply();
        return { ok: true, name };
      },
      drain(name, drain) {
        const refused = roster.drain(name, drain);
        if (refused !== undefined) return refusalOf(refused, name);
        log.info(drain ? 'backend drained by the admin API' : 'backend undrained by the admin API', { backend: name });
        apply();
        return { ok: true, name };
      },
    },
    state: () => ({
      sources: sources.map(({ kind, key, source }) => {
        const { readMs, ...rest } = source.state();
        return {
          kind,
          name: key,
          ...rest,
          ...(readMs === undefined ? {} : { readAt: new Date(readMs).toISOString() }),
        };
      }),
      leftOut: roster.leftOut(),
    }),
  };
}

function wrong(problems: readonly { readonly path: string; readonly message: string }[]): BackendChange {
  const [first] = problems;
  const message = problems.map((problem) => sentence(problemText(problem))).join(' ');
  return { ok: false, status: 400, message, ...(first === undefined ? {} : { param: first.path }) };
}

function sentence(text: string): string {
  return /[.?!]$/.test(text) ? text : `${text}.`;
}

function refusalOf(refused: RosterRefusal, name: string): BackendChange {
  switch (refused.kind) {
    case 'unknown_name':
      return { ok: false, status: 404, message: `There is no backend ${name}.` };
    case 'name_taken':
      return { ok: false, status: 409, message: `The name ${refused.name} is taken by ${refused.url}.`, param: 'name' };
    case 'url_taken':
      return { ok: false, status: 409, message: `This URL is there already, as ${refused.name}.`, param: 'url' };
    case 'full':
      return { ok: false, status: 409, message: `There are ${refused.most} backends already, the most there may be.` };
  }
}
