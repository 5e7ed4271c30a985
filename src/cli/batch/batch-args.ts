/**
 * The command line of `warmlane batch`: verb, file or id, flags. Reads its arguments and the two variables that stand for
 * flags; asks nobody.
 */
import { parseArgs } from 'node:util';

import { nearest } from '../../config/suggest.ts';
import { parseTarget } from '../../platform/upstream/target.ts';
import type { FlagInfo } from '../args.ts';

export const verbs = {
  submit: 'Upload FILE and have its lines answered.',
  list: 'The newest batches.',
  status: 'How one batch stands.',
  cancel: 'Stop one batch; what is answered stays.',
  results: 'Fetch the answers of a batch that is over.',
} as const;

export type Verb = keyof typeof verbs;

/** For whom `for` is absent: every verb. */
export interface BatchFlagInfo extends FlagInfo {
  readonly for?: readonly Verb[];
}

export const urlVariable = 'WARMLANE_URL';
export const keyVariable = 'WARMLANE_API_KEY';

export const batchFlags = {
  endpoint: {
    type: 'string',
    value: 'PATH',
    for: ['submit'],
    says: 'Route of the lines, such as /v1/chat/completions (the first line says).',
  },
  window: { type: 'string', value: 'TIME', for: ['submit'], says: 'Time that the batch has (24h).' },
  metadata: {
    type: 'string',
    multiple: true,
    value: 'K=V',
    for: ['submit'],
    says: 'Kept with the batch; once for each pair.',
  },
  wait: { type: 'boolean', for: ['submit', 'status', 'results'], says: 'Stay until the batch is over.' },
  output: {
    type: 'string',
    short: 'o',
    value: 'FILE',
    for: ['submit', 'results'],
    says: 'Where the answers go (results: stdout).',
  },
  errors: {
    type: 'string',
    value: 'FILE',
    for: ['submit', 'results'],
    says: 'Where the lines without an answer go, with the reason.',
  },
  limit: { type: 'string', value: 'N', for: ['list'], says: 'How many, 1 to 100 (20).' },
  after: { type: 'string', value: 'ID', for: ['list'], says: 'Those older than this one.' },
  url: { type: 'string', value: 'URL', variable: urlVariable, says: 'Where warmlane is (http://127.0.0.1:8484).' },
  key: {
    type: 'string',
    value: 'KEY',
    variable: keyVariable,
    says: 'Better in the variable: others see command lines.',
  },
  json: { type: 'boolean', says: "Print the API's own object instead of text." },
  help: { type: 'boolean', short: 'h', says: 'Print this help.' },
} as const satisfies Readonly<Record<string, BatchFlagInfo>>;

/** Where warmlane is and who asks. */
export interface Address {
  /** Without a last `/` or `/v1`. */
  readonly url: string;
  readonly key?: string;
}

interface Common {
  readonly address: Address;
  readonly json: boolean;
}

/** Where results go; absent: nowhere, `results` writes answers to stdout. */
export interface Places {
  readonly output?: string;
  readonly errors?: string;
}

export type BatchRequest =
  | (Common & {
      readonly kind: 'submit';
      readonly file: string;
      readonly endpoint?: string;
      readonly window: string;
      readonly metadata: Readonly<Record<string, string>>;
      readonly wait: boolean;
      readonly places: Places;
    })
  | (Common & { readonly kind: 'list'; readonly limit: number; readonly after?: string })
  | (Common & { readonly kind: 'status'; readonly id: string; readonly wait: boolean })
  | (Common & { readonly kind: 'cancel'; readonly id: string })
  | (Common & { readonly kind: 'results'; readonly id: string; readonly wait: boolean; readonly places: Places });

export type BatchArguments =
  | BatchRequest
  | { readonly kind: 'help' }
  | { readonly kind: 'wrong'; readonly problems: readonly string[] };

type FlagName = keyof typeof batchFlags;
type Environment = Readonly<Record<string, string | undefined>>;

interface Said {
  readonly texts: ReadonlyMap<FlagName, string>;
  readonly on: ReadonlySet<FlagName>;
  readonly pairs: readonly string[];
  readonly words: readonly string[];
}

const ownAddress = 'http://127.0.0.1:8484';

/** @param argv what follows the word `batch` */
export function parseBatchArguments(argv: readonly string[], env: Environment): BatchArguments {
  const problems: string[] = [];
  const said = readTokens(argv, problems);
  const [verb, ...rest] = said.words;
  if (said.on.has('help') || verb === 'help' || (verb === undefined && argv.length === 0)) return { kind: 'help' };
  const address = readAddress(said.texts, env, problems);
  if (verb === undefined || !isVerb(verb)) {
    problems.unshift(verb === undefined ? `what is to be done? ${verbList}` : unknownVerb(verb));
    return { kind: 'wrong', problems };
  }
  for (const name of [...said.texts.keys(), ...said.on, ...(said.pairs.length > 0 ? (['metadata'] as const) : [])]) {
    const info: BatchFlagInfo = batchFlags[name];
    if (info.for?.includes(verb) === false) problems.push(`--${name} goes with ${info.for.join(', ')}, not ${verb}`);
  }
  const common = { address, json: said.on.has('json') };
  const request = verb === 'list' ? listOf(common, said, problems) : namedOf(verb, common, { said, rest, problems });
  if (verb === 'list' && rest.length > 0) problems.push(`list takes no name; unexpected: ${quoted(rest)}`);
  return problems.length > 0 ? { kind: 'wrong', problems } : request;
}

function readTokens(argv: readonly string[], problems: string[]): Said {
  const { tokens } = parseArgs({
    args: [...argv],
    options: batchFlags,
    strict: false,
    allowPositionals: true,
    tokens: true,
  });
  const texts = new Map<FlagName, string>();
  const on = new Set<FlagName>();
  const pairs: string[] = [];
  const words: string[] = [];
  for (const token of tokens) {
    if (token.kind === 'positional') words.push(token.value);
    if (token.kind !== 'option') continue;
    const { name, rawName, value } = token;
    if (!isFlag(name)) problems.push(unknownFlag(rawName));
    else if (batchFlags[name].type === 'boolean') {
      if (value !== undefined) problems.push(`${rawName} takes no value`);
      on.add(name);
    } else if (value === undefined || value === '' || (value.startsWith('--') && !token.inlineValue))
      problems.push(`${rawName} needs a value`);
    else if (name === 'metadata') pairs.push(value);
    else texts.set(name, value);
  }
  return { texts, on, pairs, words };
}

function listOf(common: Common, { texts }: Said, problems: string[]): BatchRequest {
  const text = texts.get('limit') ?? '20';
  const limit = Number(text);
  if (!Number.isInteger(limit) || limit < 1 || limit > 100)
    problems.push(`--limit ${JSON.stringify(text)} is no whole number from 1 to 100`);
  const after = texts.get('after');
  return { kind: 'list', ...common, limit, ...(after === undefined ? {} : { after }) };
}

interface Named {
  readonly said: Said;
  readonly rest: readonly string[];
  readonly problems: string[];
}

function namedOf(kind: Exclude<Verb, 'list'>, common: Common, { said, rest, problems }: Named): BatchRequest {
  const [name = '', ...more] = rest;
  const what = kind === 'submit' ? 'file' : 'batch';
  if (name === '') problems.push(kind === 'submit' ? 'submit which FILE?' : `${kind} of which batch? Write its ID`);
  if (more.length > 0) problems.push(`one ${what} at a time; unexpected: ${quoted(more)}`);
  const wait = said.on.has('wait');
  if (kind === 'cancel') return { kind, ...common, id: name };
  if (kind === 'status') return { kind, ...common, id: name, wait };
  const places = placesOf(said, problems);
  if (kind === 'results') {
    if (common.json) problems.push('results are JSON lines as they are; status ID --json prints the batch');
    return { kind, ...common, id: name, wait, places };
  }
  if (!wait)
    for (const flag of ['output', 'errors'] as const)
      if (said.texts.has(flag)) problems.push(`--${flag} goes with --wait; later it is warmlane batch results ID`);
  if (places.output === '-') problems.push('-o - goes with results; submit says on stdout how far it is');
  const endpoint = said.texts.get('endpoint');
  if (endpoint !== undefined && !endpoint.startsWith('/'))
    problems.push(`--endpoint ${JSON.stringify(endpoint)} is no path; write /v1/chat/completions`);
  return {
    kind,
    ...common,
    file: name,
    ...(endpoint === undefined ? {} : { endpoint }),
    window: windowOf(said.texts.get('window') ?? '24h', problems),
    metadata: metadataOf(said.pairs, problems),
    wait,
    places,
  };
}

function placesOf({ texts }: Said, problems: string[]): Places {
  const [output, errors] = [texts.get('output'), texts.get('errors')];
  if (output !== undefined && output === errors) problems.push('--output and --errors name the same file');
  if (errors === '-') problems.push('--errors needs a file; stdout is for the answers');
  return { ...(output === undefined ? {} : { output }), ...(errors === undefined ? {} : { errors }) };
}

function windowOf(text: string, problems: string[]): string {
  if (!/^\d+[smhd]$/.test(text)) problems.push(`--window ${JSON.stringify(text)} is no time; write 24h`);
  return text;
}

function metadataOf(pairs: readonly string[], problems: string[]): Readonly<Record<string, string>> {
  const metadata = new Map<string, string>();
  for (const pair of pairs) {
    const at = pair.indexOf('=');
    const key = pair.slice(0, Math.max(0, at));
    if (key === '') problems.push(`--metadata ${JSON.stringify(pair)} is no KEY=VALUE`);
    else if (metadata.has(key)) problems.push(`--metadata ${JSON.stringify(key)} twice`);
    else metadata.set(key, pair.slice(at + 1));
  }
  return Object.fromEntries(metadata);
}

function readAddress(texts: ReadonlyMap<FlagName, string>, env: Environment, problems: string[]): Address {
  const said = texts.get('url') ?? nonEmpty(env[urlVariable]) ?? ownAddress;
  const url = (said.includes('://') ? said : `http://${said}`).replace(/\/+$/, '').replace(/\/v1$/, '');
  try {
    parseTarget(url);
  } catch {
    // Not what it says: that is written for backends, and quotes an address that may hold a password.
    problems.push('--url must be http://HOST:PORT or https://HOST, without a name, password or query');
  }
  const key = texts.get('key') ?? nonEmpty(env[keyVariable]);
  // A header can't carry it, and node would quote it in its error.
  if (key !== undefined && !/^[\x21-\x7e]+$/.test(key)) problems.push('the key has characters that no key has');
  return key === undefined ? { url } : { url, key };
}

function nonEmpty(text: string | undefined): string | undefined {
  return text === '' ? undefined : text;
}

function isFlag(name: string): name is FlagName {
  return Object.hasOwn(batchFlags, name);
}

function isVerb(word: string): word is Verb {
  return Object.hasOwn(verbs, word);
}

const verbList = `Write warmlane batch ${Object.keys(verbs).join('|')}`;

function unknownVerb(word: string): string {
  const near = nearest(word, Object.keys(verbs));
  if (near !== undefined) return `unknown: batch ${JSON.stringify(word)}; did you mean ${near}?`;
  const file = /\.jsonl?$/.test(word) ? `; a file is submitted: warmlane batch submit ${word}` : '';
  return `unknown: batch ${JSON.stringify(word)}${file === '' ? `. ${verbList}` : file}`;
}

function unknownFlag(rawName: string): string {
  const near = rawName.startsWith('--') ? nearest(rawName, Object.keys(batchFlags)) : undefined;
  return `unknown flag ${rawName}; ${near === undefined ? 'warmlane batch --help names them all' : `did you mean --${near}?`}`;
}

function quoted(words: readonly string[]): string {
  return words.map((word) => JSON.stringify(word)).join(', ');
}
