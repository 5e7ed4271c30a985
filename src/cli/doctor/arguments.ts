/**
 * The command line of `warmlane doctor`: its URL and flags. Reads its arguments and the environment that they name;
 * asks nothing.
 */
import { parseArgs } from 'node:util';
import { nearest } from '../../config/suggest.ts';
import { parseTarget } from '../../platform/upstream/target.ts';

export interface DoctorOptions {
  /** Without a last `/v1`. */
  readonly url: string;
  readonly model?: string;
  readonly apiKey?: string;
  readonly json: boolean;
  /** Bound of the whole run. */
  readonly timeoutMs: number;
  readonly cache: boolean;
  /** Fill the cache to find its size. */
  readonly fill: boolean;
  /** Go on though the stated budget is large. */
  readonly yes: boolean;
  /** Length of the long prompts; undefined: chosen by the context. */
  readonly promptTokens?: number;
  /** Repetitions of what is timed. */
  readonly rounds: number;
}

export type DoctorArguments =
  | { readonly kind: 'run'; readonly options: DoctorOptions }
  | { readonly kind: 'help' }
  | { readonly kind: 'wrong'; readonly problems: readonly string[] };

export const keyVariable = 'WARMLANE_DOCTOR_API_KEY';

const flags = {
  model: { type: 'string' },
  'api-key': { type: 'string' },
  json: { type: 'boolean' },
  timeout: { type: 'string' },
  cache: { type: 'boolean' },
  fill: { type: 'boolean' },
  yes: { type: 'boolean', short: 'y' },
  'prompt-tokens': { type: 'string' },
  rounds: { type: 'string' },
  help: { type: 'boolean', short: 'h' },
} as const;

export const doctorHelp = `Usage: warmlane doctor URL [flags]

Looks at a model endpoint from outside, be it an engine, warmlane or any gateway: who answers, buffering, aborts,
keep-alive, flags, errors, latency. With --cache: how its prompt cache behaves, by experiment.

  --cache              Find out how the prompt cache behaves instead.
  --fill               With --cache: also fill the cache to find its size. Costs as many prompt tokens as it holds.
  --model NAME         The model to ask (the first that the endpoint lists).
  --api-key KEY        Sent as a bearer token; \${env:NAME} reads it from the environment.
  --timeout SECONDS    Bound of the whole run (120; with --cache 300).
  --prompt-tokens N    With --cache: length of the long prompts (40 % of the context, 600 at most).
  --rounds N           With --cache: repetitions of what is timed (6).
  -y, --yes            With --cache: go on though the stated budget is large.
  --json               One JSON object instead of lines.

Environment: ${keyVariable} says the same as --api-key, and the flag wins.
Exit code: 0 nothing bad, 1 something is bad, 2 wrong use or nobody answers.
`;

/** @param argv what follows the word `doctor` */
export function parseDoctorArguments(
  argv: readonly string[],
  env: Readonly<Record<string, string | undefined>>,
): DoctorArguments {
  const { tokens } = parseArgs({
    args: [...argv],
    options: flags,
    strict: false,
    allowPositionals: true,
    tokens: true,
  });
  const problems: string[] = [];
  const texts = new Map<string, string>();
  const on = new Set<string>();
  const words: string[] = [];
  for (const token of tokens) {
    if (token.kind === 'positional') words.push(token.value);
    if (token.kind !== 'option') continue;
    if (!Object.hasOwn(flags, token.name)) {
      const near = nearest(token.rawName, Object.keys(flags));
      problems.push(`unknown flag ${token.rawName}${near === undefined ? '' : `; did you mean --${near}?`}`);
    } else if (flags[token.name as keyof typeof flags].type === 'boolean') on.add(token.name); // own key, seen above
    else if (token.value === undefined || token.value === '') problems.push(`${token.rawName} needs a value`);
    else texts.set(token.name, token.value);
  }
  if (on.has('help')) return { kind: 'help' };
  const cache = on.has('cache');
  const url = readUrl(words, problems);
  const apiKey = readKey(texts.get('api-key'), env, problems);
  const timeoutS = readNumber('timeout', texts, problems, [1, 86_400]) ?? (cache ? 300 : 120);
  const promptTokens = readNumber('prompt-tokens', texts, problems, [100, 1_000_000]);
  const rounds = readNumber('rounds', texts, problems, [2, 100]) ?? 6;
  if (on.has('fill') && !cache) problems.push('--fill goes with --cache');
  if (problems.length > 0) return { kind: 'wrong', problems };
  const model = texts.get('model');
  return {
    kind: 'run',
    options: {
      url,
      json: on.has('json'),
      timeoutMs: timeoutS * 1000,
      cache,
      fill: on.has('fill'),
      yes: on.has('yes'),
      rounds,
      ...(model === undefined ? {} : { model }),
      ...(apiKey === undefined ? {} : { apiKey }),
      ...(promptTokens === undefined ? {} : { promptTokens }),
    },
  };
}

function readUrl(words: readonly string[], problems: string[]): string {
  const [word, ...rest] = words;
  if (rest.length > 0)
    problems.push(`one endpoint at a time; too much: ${rest.map((extra) => JSON.stringify(extra)).join(', ')}`);
  if (word === undefined) {
    problems.push('which endpoint? Write warmlane doctor http://HOST:PORT');
    return '';
  }
  const url = (word.includes('://') ? word : `http://${word}`).replace(/\/+$/, '').replace(/\/v1$/, '');
  try {
    parseTarget(url);
  } catch (error) {
    problems.push(error instanceof Error ? error.message : String(error));
  }
  return url;
}

function readKey(
  said: string | undefined,
  env: Readonly<Record<string, string | undefined>>,
  problems: string[],
): string | undefined {
  if (said === undefined) return env[keyVariable] === '' ? undefined : env[keyVariable];
  const name = /^\$\{env:([A-Za-z_][A-Za-z0-9_]*)\}$/.exec(said)?.[1];
  if (name === undefined) return said;
  const value = env[name];
  if (value === undefined) problems.push(`the environment has no ${name}`);
  return value;
}

function readNumber(
  name: string,
  texts: ReadonlyMap<string, string>,
  problems: string[],
  [least, most]: readonly [number, number],
): number | undefined {
  const text = texts.get(name);
  if (text === undefined) return undefined;
  const value = Number(text);
  if (Number.isInteger(value) && value >= least && value <= most) return value;
  problems.push(`--${name} must be a whole number from ${least} to ${most}`);
  return undefined;
}
