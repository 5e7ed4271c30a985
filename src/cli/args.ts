/**
 * The command line: commands and flags, and what was meant by a mistyped one. Reads nothing but its argument list;
 * what the flags' values mean is the configuration's business.
 */
import { parseArgs } from 'node:util';

import { type ConfigFlags, splitUrls, variables } from '../config/environment.ts';
import { nearest } from '../config/suggest.ts';

export const commands = {
  serve: 'Serve the model servers, or the demo when there are none (this is the default).',
  check: 'Check the configuration and name every problem; nothing is started.',
} as const;

/** Commands with flags of their own; each reads its arguments itself and has its own `--help`. */
export const separateCommands = {
  report: 'Read request logs and print the whole account, or compare two. Has flags of its own.',
  replay: 'Play a trace against simulated engines; compare policies and fleets. Has flags of its own.',
  batch: 'Have a file of requests answered; follow it, fetch its results. Has flags of its own.',
  doctor: 'Examine an endpoint from outside; with --cache, how its prompt cache behaves. Has flags of its own.',
} as const;

export interface FlagInfo {
  readonly type: 'string' | 'boolean';
  readonly short?: string;
  readonly multiple?: boolean;
  /** Stands for the value in the help. */
  readonly value?: string;
  /** The environment variable that says the same. */
  readonly variable?: string;
  readonly says: string;
}

export const flags = {
  config: {
    type: 'string',
    short: 'c',
    value: 'FILE',
    variable: variables.config,
    says: 'Read this YAML or JSON file.',
  },
  backend: {
    type: 'string',
    multiple: true,
    value: 'URL',
    variable: variables.backends,
    says: "A model server; give it once for each. Takes the place of the file's list.",
  },
  listen: {
    type: 'string',
    value: 'ADDRESS',
    variable: variables.listen,
    says: 'Where clients connect (127.0.0.1:8484).',
  },
  'admin-listen': {
    type: 'string',
    value: 'ADDRESS',
    variable: variables.adminListen,
    says: 'Where the admin pages listen (127.0.0.1:8485).',
  },
  'log-level': {
    type: 'string',
    value: 'LEVEL',
    variable: variables.logLevel,
    says: 'debug, info, warn or error (info).',
  },
  'log-format': { type: 'string', value: 'FORMAT', variable: variables.logFormat, says: 'logfmt or json (logfmt).' },
  'batch-dir': {
    type: 'string',
    value: 'FOLDER',
    variable: variables.batchDir,
    says: 'Serve the Files and Batch API; keep its files and batches here.',
  },
  demo: { type: 'boolean', variable: variables.demo, says: 'Start simulated model servers and a little traffic.' },
  version: { type: 'boolean', says: 'Print the version.' },
  help: { type: 'boolean', short: 'h', says: 'Print this help.' },
} as const satisfies Readonly<Record<string, FlagInfo>>;

export type Command = keyof typeof commands;

export type Arguments =
  | { readonly kind: Command; readonly file?: string; readonly flags: ConfigFlags }
  | { readonly kind: 'help'; readonly of?: Command }
  | { readonly kind: 'version' }
  | { readonly kind: 'wrong'; readonly exitCode: 2; readonly problems: readonly string[] };

/** @param argv what follows the program's name */
export function parseArguments(argv: readonly string[]): Arguments {
  const { tokens } = parseArgs({
    args: [...argv],
    options: flags,
    strict: false,
    allowPositionals: true,
    tokens: true,
  });
  const said = { texts: new Map<FlagName, string>(), backends: [] as string[], on: new Set<FlagName>() };
  const words: string[] = [];
  const problems: string[] = [];
  // What follows an unknown flag is likely its value, not a command.
  let skipIndex = -1;
  for (const token of tokens) {
    if (token.kind === 'positional' && token.index !== skipIndex) words.push(token.value);
    if (token.kind !== 'option') continue;
    if (!isFlag(token.name)) {
      problems.push(unknownFlag(token.rawName));
      skipIndex = token.value === undefined ? token.index + 1 : -1;
    } else if (flags[token.name].type === 'boolean') {
      if (token.value !== undefined) problems.push(`${token.rawName} takes no value`);
      said.on.add(token.name);
    } else if (!hasValue(token)) problems.push(`${token.rawName} needs a value; ${example(token.name)}`);
    else if (token.name === 'backend') said.backends.push(...splitUrls(token.value));
    else {
      // Of any other flag the last one wins; of two files one would be left unread.
      if (token.name === 'config' && said.texts.has('config'))
        problems.push(`${token.rawName} twice; there is one file`);
      said.texts.set(token.name, token.value);
    }
  }
  // Whoever asks for help has it, whatever else is wrong.
  const asked = words[0] === 'help' ? words[1] : words[0];
  if (said.on.has('help') || words[0] === 'help')
    return asked !== undefined && isCommand(asked) ? { kind: 'help', of: asked } : { kind: 'help' };
  const [word = 'serve', ...rest] = words;
  if (!isCommand(word)) problems.push(unknownCommand(word));
  if (rest.length > 0) problems.push(`unexpected: ${rest.map((extra) => JSON.stringify(extra)).join(', ')}`);
  if (problems.length > 0) return { kind: 'wrong', exitCode: 2, problems };
  if (said.on.has('version')) return { kind: 'version' };
  const file = said.texts.get('config');
  return {
    kind: isCommand(word) ? word : 'serve',
    ...(file === undefined ? {} : { file }),
    flags: configFlags(said.texts, said.backends, said.on.has('demo')),
  };
}

type FlagName = keyof typeof flags;

function configFlags(texts: ReadonlyMap<FlagName, string>, backends: readonly string[], demo: boolean): ConfigFlags {
  const listen = texts.get('listen');
  const adminListen = texts.get('admin-listen');
  const logLevel = texts.get('log-level');
  const logFormat = texts.get('log-format');
  const batchDir = texts.get('batch-dir');
  return {
    ...(backends.length > 0 ? { backends } : {}),
    ...(listen === undefined ? {} : { listen }),
    ...(adminListen === undefined ? {} : { adminListen }),
    ...(logLevel === undefined ? {} : { logLevel }),
    ...(logFormat === undefined ? {} : { logFormat }),
    ...(batchDir === undefined ? {} : { batchDir }),
    ...(demo ? { demo } : {}),
  };
}

/** `--listen --demo` forgot a value; `--listen=--demo` did not. */
function hasValue<Token extends { readonly value?: string | undefined; readonly inlineValue?: boolean | undefined }>(
  token: Token,
): token is Token & { readonly value: string } {
  if (token.value === undefined || token.value.trim() === '') return false;
  return token.inlineValue === true || !token.value.startsWith('-');
}

function example(name: FlagName): string {
  const info: FlagInfo = flags[name];
  return `--${name} ${info.value ?? ''}`.trim();
}

function isFlag(name: string): name is FlagName {
  return Object.hasOwn(flags, name);
}

function isCommand(word: string): word is Command {
  return Object.hasOwn(commands, word);
}

/** What other servers call it. */
const otherNames: Readonly<Record<string, string>> = {
  '--port': '--listen HOST:PORT',
  '--host': '--listen HOST:PORT',
  '-p': '--listen HOST:PORT',
};

function unknownFlag(rawName: string): string {
  const form = Object.hasOwn(otherNames, rawName) ? otherNames[rawName] : undefined;
  if (form !== undefined) return `unknown flag ${rawName}; write ${form}`;
  const near = rawName.startsWith('--') ? nearest(rawName, Object.keys(flags)) : undefined;
  return `unknown flag ${rawName}; ${near === undefined ? 'warmlane --help names them all' : `did you mean --${near}?`}`;
}

function unknownCommand(word: string): string {
  if (/^https?:\/\//.test(word)) return `a URL stands alone; write --backend before it`;
  const near = nearest(word, [...Object.keys(commands), ...Object.keys(separateCommands), 'help']);
  const hint =
    near === undefined
      ? `commands are ${[...Object.keys(commands), ...Object.keys(separateCommands)].join(', ')}`
      : `did you mean "${near}"?`;
  return `unknown command ${JSON.stringify(word)}; ${hint}`;
}
