/**
 * `GET /v1/models` of several backends as one list (decision 6): the union by id, each object byte for byte as the first
 * backend that has it gave it, and the config's aliases. Clients that ask with the same credentials within a second share
 * one round of questions: many pages and tools ask for the list again and again.
 * With one backend and no alias there is nothing to merge: its answer passes through the pipeline untouched.
 */
import type { BackendView, FleetSnapshot } from '../domain/fleet.ts';
import { scanJson } from '../platform/json-scan.ts';
import { readModelList } from './facts.ts';
import { asObject, listOf, objectIn, textOf } from './json-fields.ts';
import { isFailure, type ProbeFetch, type ProbeResult } from './probe-port.ts';
import { maxProbeBytes } from './probe-fetch.ts';

/** What one backend adds to the list. */
export interface BackendModels {
  /** Ids without an object of their own: named by the config, or known from before when it did not answer. */
  readonly ids: readonly string[];
  /** Raw JSON object by id. */
  readonly objects: ReadonlyMap<string, string>;
}

export interface MergeOptions {
  /** alias → model name that the backends know */
  readonly aliases: Readonly<Record<string, string>>;
  /** The one backend takes any model name, so that an alias of one that it doesn't list works, too. */
  readonly anyModel: boolean;
  /** For entries that no backend described: the time of the call, as the engines themselves give it. */
  readonly epochSeconds: number;
}

export interface ModelSource {
  readonly name: string;
  /** Set by the config: nothing else of it is served. */
  readonly models?: readonly string[];
  readonly fetch: ProbeFetch;
}

export interface MergedModelsDeps {
  /** Those in the fleet now, in its order. */
  readonly sources: () => readonly ModelSource[];
  readonly snapshot: () => FleetSnapshot;
  readonly aliases: () => Readonly<Record<string, string>>;
  readonly timeoutMs: number;
  readonly epochSeconds: () => number;
  /** Monotonic. */
  readonly nowMs: () => number;
}

/** A list is given again for so long, unless what is known of the backends has changed since. */
const keepMs = 1000;
/** Lists kept at once, each for one client's credentials. */
const maxKept = 32;

type Aliases = Readonly<Record<string, string>>;

interface Kept {
  readonly list: Promise<string | undefined>;
  readonly snapshot: FleetSnapshot;
  readonly aliases: Readonly<Record<string, string>>;
  /** Infinity while the backends are being asked. */
  endMs: number;
}

/** Headers by which a client shows who it is. */
const credentialNames = ['authorization', 'x-api-key', 'api-key'] as const;

/**
 * @param only of the returned function: the names that its client may use; there is always a list then
 * @returns asks all backends that aren't down, with the credentials found by the given function; undefined when there is
 * nothing to merge, or no backend has any model to name
 */
export function createMergedModels(
  deps: MergedModelsDeps,
): (header: (name: string) => string | undefined, only?: ReadonlySet<string>) => Promise<string | undefined> {
  const kept = new Map<string, Kept>();

  return async (header, only) => {
    const aliases = deps.aliases();
    const isMerged = deps.sources().length > 1 || Object.keys(aliases).length > 0;
    if (!isMerged && only === undefined) return undefined;
    const list = await listFor(credentialsOf(header), aliases);
    return only === undefined ? list : onlyThese(list, only, aliases);
  };

  async function listFor(credentials: Readonly<Record<string, string>>, aliases: Aliases): Promise<string | undefined> {
    const key = JSON.stringify(credentials);
    const snapshot = deps.snapshot();
    const nowMs = deps.nowMs();
    const found = kept.get(key);
    const holds = found?.snapshot === snapshot && found.aliases === aliases && nowMs < found.endMs;
    if (found !== undefined && holds) return found.list;
    for (const [old, { endMs }] of kept) if (nowMs >= endMs || kept.size >= maxKept) kept.delete(old);
    const entry: Kept = { list: askAll(deps, snapshot, credentials), snapshot, aliases, endMs: Infinity };
    kept.set(key, entry);
    try {
      return await entry.list;
    } catch (error) {
      if (kept.get(key) === entry) kept.delete(key);
      throw error;
    } finally {
      entry.endMs = deps.nowMs() + keepMs;
    }
  }
}

/** The same list, cut to these names and to aliases of them; an empty one where nothing is known. */
function onlyThese(list: string | undefined, only: ReadonlySet<string>, aliases: Aliases): string {
  const objects = list === undefined ? [] : [...rawObjects(list)];
  const allowed = objects.filter(([id]) => {
    const model = Object.hasOwn(aliases, id) ? aliases[id] : undefined;
    return only.has(id) || (model !== undefined && only.has(model));
  });
  return `{"object":"list","data":[${allowed.map(([, object]) => object).join(',')}]}`;
}

function credentialsOf(header: (name: string) => string | undefined): Record<string, string> {
  const credentials: Record<string, string> = {};
  for (const name of credentialNames) {
    const value = header(name);
    if (value !== undefined) credentials[name] = value;
  }
  return credentials;
}

async function askAll(
  deps: MergedModelsDeps,
  snapshot: FleetSnapshot,
  credentials: Readonly<Record<string, string>>,
): Promise<string | undefined> {
  const sources = deps.sources();
  const aliases = deps.aliases();
  const views = new Map(snapshot.backends.map((view) => [view.name, view]));
  const lists = await Promise.all(
    sources.map(async (source): Promise<BackendModels> => {
      const view = views.get(source.name);
      if (view === undefined || view.health === 'down') return none;
      const answer = await source.fetch('/v1/models', {
        timeoutMs: deps.timeoutMs,
        ...(Object.keys(credentials).length > 0 ? { credentials } : {}),
      });
      return modelsOf(source, view, answer);
    }),
  );
  if (lists.every(({ ids, objects }) => ids.length === 0 && objects.size === 0)) return undefined;
  return mergeModels(lists, { aliases, anyModel: sources.length === 1, epochSeconds: deps.epochSeconds() });
}

const none: BackendModels = { ids: [], objects: new Map() };

function modelsOf(source: ModelSource, view: BackendView, answer: ProbeResult): BackendModels {
  const objects = isFailure(answer) || readModelList(answer) === undefined ? undefined : rawObjects(answer.body);
  if (objects === undefined) return { ids: view.models, objects: new Map() };
  const { models } = source;
  if (models === undefined) return { ids: [], objects };
  return { ids: models, objects: new Map([...objects].filter(([id]) => models.includes(id))) };
}

/** Pure. @returns the list as JSON text */
export function mergeModels(lists: readonly BackendModels[], options: MergeOptions): string {
  const { aliases, anyModel, epochSeconds } = options;
  const merged = new Map<string, string>();
  for (const { objects } of lists) {
    for (const [id, object] of objects) if (!merged.has(id)) merged.set(id, object);
  }
  const described = (id: string) =>
    JSON.stringify({ id, object: 'model', created: epochSeconds, owned_by: 'warmlane' });
  for (const { ids } of lists) {
    for (const id of ids) if (!merged.has(id)) merged.set(id, described(id));
  }
  for (const [alias, model] of Object.entries(aliases)) {
    if (merged.has(alias)) continue;
    const object = merged.get(model);
    if (object !== undefined) merged.set(alias, renamed(object, alias));
    else if (anyModel) merged.set(alias, described(alias));
  }
  return `{"object":"list","data":[${[...merged.values()].join(',')}]}`;
}

/** The same object under another id, nothing else changed. */
function renamed(object: string, id: string): string {
  const bytes = Buffer.from(object);
  const field = scanJson(bytes, idKey).fields.get('id');
  if (field === undefined) return object;
  return Buffer.concat([
    bytes.subarray(0, field.start),
    Buffer.from(JSON.stringify(id)),
    bytes.subarray(field.end),
  ]).toString();
}

const idKey = new Map([['id', 0]]);
const dataKey = new Map([['data', maxProbeBytes]]);

/** The elements of `data` as they stand in the text, by id. The text is a readable list of models. */
function rawObjects(text: string): ReadonlyMap<string, string> {
  const raw = scanJson(Buffer.from(text), dataKey).fields.get('data')?.value?.toString() ?? '[]';
  const ids = (listOf(objectIn(text), 'data') ?? []).map((entry) => textOf(asObject(entry), 'id'));
  const objects = new Map<string, string>();
  for (const [index, element] of elementsOf(raw).entries()) {
    const id = ids[index];
    if (id !== undefined && !objects.has(id)) objects.set(id, element);
  }
  return objects;
}

/** Cuts a valid JSON array of objects at its commas. */
function elementsOf(array: string): readonly string[] {
  const elements: string[] = [];
  let depth = 0;
  let start = 0;
  for (let at = 0; at < array.length; at += 1) {
    const character = array[at];
    if (character === '"') at = endOfString(array, at);
    else if (character === '{' || character === '[') {
      depth += 1;
      if (depth === 2) start = at;
    } else if (character === '}' || character === ']') {
      if (depth === 2) elements.push(array.slice(start, at + 1));
      depth -= 1;
    }
  }
  return elements;
}

/** @returns the index of the closing quote */
function endOfString(text: string, quote: number): number {
  let at = quote + 1;
  while (at < text.length && text[at] !== '"') at += text[at] === '\\' ? 2 : 1;
  return at;
}
