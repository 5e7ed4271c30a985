/**
 * What a new configuration changes while warmlane runs, and what has to wait for a restart. Pure: two whole, valid
 * configurations in, names and the one that holds from now on out.
 */
import type { Config } from './config.ts';

export interface ConfigChanges {
  /** The old one with all of the new one that can change at run time. */
  readonly inForce: Config;
  /** What changed, by the keys of the config file. */
  readonly changed: readonly string[];
  /** What should change and can't without a restart; it keeps its old value. */
  readonly needsRestart: readonly string[];
}

type Part = readonly [key: string, of: (config: Config) => unknown];

const live: readonly Part[] = [
  ['backends', (config) => config.fleet.backends],
  ['backends', (config) => [config.ceiling.hardware, config.route.caches]],
  ['discovery', (config) => config.discovery],
  ['auth', (config) => config.access.auth],
  ['lanes.rules', (config) => config.access.rules],
  ['models.aliases', (config) => config.classify.modelAliases],
  ['routes', (config) => [config.classify.openRoutes, config.relay.passConversationId]],
  ['queue', ({ admit }) => without(admit, ['lanes'])],
  ['lanes', (config) => config.admit.lanes],
  ['deadlines', (config) => config.relay.deadlines],
  ['responseHeaders', (config) => config.relay.responseHeaders],
  ['stream, usage or retry', ({ relay }) => without(relay, ['deadlines', 'passConversationId', 'responseHeaders'])],
  ['routing.sessionHeaders', ({ classify }) => without(classify, ['modelAliases', 'openRoutes'])],
  ['log.level', (config) => config.log.level],
];

const restart: readonly Part[] = [
  ['listen', (config) => config.http.listen],
  ['admin.listen', (config) => config.http.admin],
  ['admin.changes', (config) => config.http.adminChanges],
  ['tls', (config) => config.http.tls],
  ['clients', ({ http }) => [http.maxBodyBytes, http.maxHeldBytes, http.clientHalfClose]],
  ['cors', (config) => config.http.cors],
  ['deadlines.requestHeadMs', (config) => config.http.requestHeadMs],
  ['deadlines.requestMs', (config) => config.http.requestMs],
  ['deadlines.drainMs', (config) => config.http.drainMs],
  ['records', ({ http }) => [http.maxRecords, http.maxRecordBytes]],
  ['probes', ({ fleet }) => without(fleet, ['backends', 'breaker'])],
  ['routing', ({ route }) => without(route, ['caches'])],
  ['breaker', (config) => config.fleet.breaker],
  ['models.shapes', (config) => config.ceiling.shapes],
  ['telemetry.traces', (config) => config.traces],
  ['telemetry.metrics', (config) => config.metrics],
  ['telemetry.promptTrace', (config) => config.promptTrace],
  ['log.format', (config) => config.log.format],
  ['log.requests', (config) => config.export],
];

/** Sections of the configuration that are told apart above. */
const divided: ReadonlySet<string> = new Set([
  'http',
  'access',
  'classify',
  'admit',
  'fleet',
  'discovery',
  'relay',
  'route',
  'ceiling',
  'export',
  'traces',
  'metrics',
  'promptTrace',
  'log',
] satisfies (keyof Config)[]);

export function changesBetween(before: Config, after: Config): ConfigChanges {
  const differing = (parts: readonly Part[]) => [
    ...new Set(parts.filter(([, of]) => !isSame(of(before), of(after))).map(([key]) => key)),
  ];
  const whole = Object.keys(after).filter((key) => !divided.has(key)) as (keyof Config)[]; // its own keys
  return {
    inForce: Object.freeze({
      ...before,
      access: after.access,
      classify: after.classify,
      admit: after.admit,
      fleet: Object.freeze({ ...before.fleet, backends: after.fleet.backends }),
      discovery: after.discovery,
      relay: after.relay,
      ceiling: Object.freeze({ ...before.ceiling, hardware: after.ceiling.hardware }),
      route: Object.freeze({ ...before.route, caches: after.route.caches }),
      log: Object.freeze({ ...before.log, level: after.log.level }),
    }),
    changed: differing(live),
    needsRestart: [...differing(restart), ...whole.filter((key) => !isSame(before[key], after[key]))],
  };
}

function without<T extends object>(section: T, keys: readonly (keyof T & string)[]): object {
  return Object.fromEntries(Object.entries(section).filter(([key]) => !keys.some((one) => one === key)));
}

function isSame(one: unknown, other: unknown): boolean {
  return JSON.stringify(one) === JSON.stringify(other);
}
