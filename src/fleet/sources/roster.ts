/**
 * Who is to be in the fleet: joins what the config, a file, DNS and the admin API name, each backend once, and remembers
 * what was asked by API until the restart: backends added, taken out, drained. Pure state; watches nothing and sends
 * nothing. Whoever changes it is told what is wrong; conflicts between sources are left to the first and named.
 */
import type { BackendSettings, BackendSource } from '../settings.ts';

/** A backend as a source names it, with what others than the fleet want to know of it. */
export interface Named<Extra> {
  readonly settings: BackendSettings;
  readonly extra?: Extra;
}

/** Why nothing was changed. */
export type RosterRefusal =
  | { readonly kind: 'unknown_name' }
  | { readonly kind: 'name_taken'; readonly name: string; readonly url: string }
  | { readonly kind: 'url_taken'; readonly name: string }
  | { readonly kind: 'full'; readonly most: number };

/** One that a source names and that is not taken in. */
export interface LeftOut {
  readonly name: string;
  readonly url: string;
  readonly source: BackendSource;
  readonly why: 'same_url' | 'name_taken' | 'full';
}

export interface Roster<Extra> {
  /** What one source names from now on; takes the place of what it named before. @param key one for each source of a kind */
  put(source: BackendSource, key: string, backends: readonly Named<Extra>[]): void;
  /** By API. One that was taken out and that a source still names comes back as its source names it. */
  add(backend: Named<Extra>): RosterRefusal | undefined;
  /** By API: out, wherever it was named, until its source names it no more, it is added again, or the restart. */
  remove(name: string): RosterRefusal | undefined;
  /** By API; beats what the source says, until the restart. */
  drain(name: string, drain: boolean): RosterRefusal | undefined;
  /** In the order config, file, DNS, API; source and drain filled in. */
  list(): readonly Named<Extra>[];
  leftOut(): readonly LeftOut[];
}

/** As many as the config may name. */
export const maxBackends = 1000;
const order: readonly BackendSource[] = ['config', 'file', 'dns', 'api'];

export function createRoster<Extra>(): Roster<Extra> {
  const named = new Map<string, { readonly source: BackendSource; readonly backends: readonly Named<Extra>[] }>();
  let added: readonly Named<Extra>[] = [];
  /** URLs of those taken out. */
  const removed = new Set<string>();
  /** By name; those that aren't there (any more) are dropped first when it is full. */
  const asked = new Map<string, boolean>();
  let kept: { readonly list: readonly Named<Extra>[]; readonly leftOut: readonly LeftOut[] } | undefined;

  function all(): readonly { readonly source: BackendSource; readonly one: Named<Extra> }[] {
    const groups = [...named.values(), { source: 'api' as const, backends: added }];
    return order.flatMap((source) =>
      groups
        .filter((group) => group.source === source)
        .flatMap(({ backends }) => backends.map((one) => ({ source, one }))),
    );
  }

  function join() {
    const list: Named<Extra>[] = [];
    const leftOut: LeftOut[] = [];
    const names = new Set<string>();
    const urls = new Set<string>();
    for (const { source, one } of all()) {
      const { name, url } = one.settings;
      if (removed.has(url)) continue;
      const why = urls.has(url)
        ? 'same_url'
        : names.has(name)
          ? 'name_taken'
          : list.length >= maxBackends
            ? 'full'
            : undefined;
      if (why !== undefined) {
        leftOut.push({ name, url, source, why });
        continue;
      }
      names.add(name);
      urls.add(url);
      const drain = asked.get(name) ?? one.settings.drain ?? false;
      list.push({ ...one, settings: { ...one.settings, source, drain } });
    }
    return { list, leftOut };
  }

  const current = () => (kept ??= join());
  const find = (name: string) => current().list.find(({ settings }) => settings.name === name);

  function forgetGone(): void {
    const urls = new Set(all().map(({ one }) => one.settings.url));
    for (const url of removed) if (!urls.has(url)) removed.delete(url);
  }

  return {
    put(source, key, backends) {
      named.set(`${source} ${key}`, { source, backends });
      forgetGone();
      kept = undefined;
    },
    add(backend) {
      const { name, url } = backend.settings;
      const { list } = current();
      const sameUrl = list.find(({ settings }) => settings.url === url);
      if (sameUrl !== undefined) return { kind: 'url_taken', name: sameUrl.settings.name };
      const comesBack = removed.has(url) ? all().find(({ one }) => one.settings.url === url)?.one : undefined;
      const sameName = find(comesBack?.settings.name ?? name);
      if (sameName !== undefined) {
        const taken = sameName.settings;
        return { kind: 'name_taken', name: taken.name, url: taken.url };
      }
      if (list.length >= maxBackends) return { kind: 'full', most: maxBackends };
      removed.delete(url);
      if (comesBack === undefined) added = [...added.filter(({ settings }) => settings.url !== url), backend];
      kept = undefined;
      return undefined;
    },
    remove(name) {
      if (find(name) === undefined) return { kind: 'unknown_name' };
      // Another one that stood behind it under the same name would come forward: whoever asked means both.
      for (let found = find(name); found !== undefined; found = find(name)) {
        const { url } = found.settings;
        added = added.filter(({ settings }) => settings.url !== url);
        removed.add(url);
        kept = undefined;
      }
      asked.delete(name);
      forgetGone();
      kept = undefined;
      return undefined;
    },
    drain(name, drain) {
      if (find(name) === undefined) return { kind: 'unknown_name' };
      asked.delete(name);
      for (const old of asked.keys()) if (asked.size >= maxBackends && find(old) === undefined) asked.delete(old);
      asked.set(name, drain);
      kept = undefined;
      return undefined;
    },
    list: () => current().list,
    leftOut: () => current().leftOut,
  };
}
