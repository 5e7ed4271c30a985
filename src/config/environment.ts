/**
 * The `WARMLANE_*` variables: each says what a flag says, and the flag wins. An empty one counts as unset.
 * Any other variable with that prefix is a problem, save those that Kubernetes makes of services named `warmlane…`.
 */
import type { Environment } from './reference.ts';
import { nearest } from './suggest.ts';

/** What may be said without a file. */
export interface ConfigFlags {
  /** URLs; they take the place of the file's whole list. */
  readonly backends?: readonly string[];
  readonly listen?: string;
  readonly adminListen?: string;
  readonly logLevel?: string;
  readonly logFormat?: string;
  /** Folder for files and batches; relative to where warmlane was started. */
  readonly batchDir?: string;
  /** Start the demo even though model servers are there. */
  readonly demo?: boolean;
}

export const variables = {
  config: 'WARMLANE_CONFIG',
  backends: 'WARMLANE_BACKEND',
  listen: 'WARMLANE_LISTEN',
  adminListen: 'WARMLANE_ADMIN_LISTEN',
  logLevel: 'WARMLANE_LOG_LEVEL',
  logFormat: 'WARMLANE_LOG_FORMAT',
  batchDir: 'WARMLANE_BATCH_DIR',
  demo: 'WARMLANE_DEMO',
} as const;

const known: ReadonlySet<string> = new Set(Object.values(variables));
/** Read by `warmlane doctor` and `warmlane batch`; they say nothing to a server. */
const clientVariables: ReadonlySet<string> = new Set(['WARMLANE_DOCTOR_API_KEY', 'WARMLANE_URL', 'WARMLANE_API_KEY']);

export interface EnvironmentFlags {
  readonly flags: ConfigFlags;
  readonly problems: readonly { readonly path: string; readonly message: string }[];
}

/** @param named variables that the config file names itself: they may be called as they like */
export function readEnvironment(env: Environment, named: ReadonlySet<string>): EnvironmentFlags {
  const problems: { path: string; message: string }[] = [];
  for (const name of Object.keys(env).toSorted()) {
    if (!name.startsWith('WARMLANE_') || known.has(name) || clientVariables.has(name)) continue;
    if (named.has(name) || isServiceLink(name, env[name])) continue;
    const near = nearest(name, known);
    const hint = near === undefined ? `known are ${[...known].join(', ')}` : `did you mean ${near}?`;
    problems.push({ path: name, message: `unknown variable; ${hint}` });
  }
  const demo = flagOf(env[variables.demo]);
  if (demo === 'unclear') problems.push({ path: variables.demo, message: 'must be 1, true, 0 or false' });
  const backends = splitUrls(env[variables.backends] ?? '');
  const { listen, adminListen, logLevel, logFormat, batchDir } = variables;
  return {
    flags: {
      ...(backends.length > 0 ? { backends } : {}),
      ...given('listen', env[listen]),
      ...given('adminListen', env[adminListen]),
      ...given('logLevel', env[logLevel]),
      ...given('logFormat', env[logFormat]),
      ...given('batchDir', env[batchDir]),
      ...(typeof demo === 'boolean' ? { demo } : {}),
    },
    problems,
  };
}

/** URLs with commas or blanks between them. */
export function splitUrls(text: string): readonly string[] {
  return text.split(/[\s,]+/).filter((url) => url !== '');
}

function given<Key extends string>(key: Key, value: string | undefined): { readonly [Name in Key]?: string } {
  // The computed key's type is lost without this.
  return (value === undefined || value === '' ? {} : { [key]: value }) as { readonly [Name in Key]?: string };
}

function flagOf(value: string | undefined): boolean | 'unclear' | undefined {
  if (value === undefined || value === '') return undefined;
  if (value === '1' || value.toLowerCase() === 'true') return true;
  if (value === '0' || value.toLowerCase() === 'false') return false;
  return 'unclear';
}

/** https://kubernetes.io/docs/concepts/services-networking/service/#environment-variables */
function isServiceLink(name: string, value: string | undefined): boolean {
  if (/_SERVICE_(HOST|PORT(_[A-Z0-9_]+)?)$/.test(name)) return true;
  if (/_PORT_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?$/.test(name)) return true;
  return name.endsWith('_PORT') && /^(tcp|udp|sctp):\/\//.test(value ?? '');
}
