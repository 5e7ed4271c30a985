/**
 * The help text, made of the same tables that the command line is parsed with.
 */
import { type Command, commands, type FlagInfo, flags, separateCommands } from './args.ts';

const examples: readonly (readonly [string, string])[] = [
  ['warmlane', 'what answers at a usual place on this machine, else the demo'],
  ['warmlane --backend http://127.0.0.1:8000', 'one model server, no file'],
  ['warmlane --config warmlane.yaml', 'everything from a file'],
  ['warmlane check --config warmlane.yaml', 'is that file right?'],
  ['warmlane report --since 24h warmlane.log*', 'times, failures, tokens, cache hits, SLOs of the last day'],
  ['warmlane replay prompts.jsonl --backends 4,6', 'would two more servers help?'],
  ['warmlane batch submit in.jsonl --wait', 'a whole file of requests, beside the users'],
  ['warmlane doctor http://127.0.0.1:8000', 'does it stream, stop when told to, cache? (--cache)'],
];

export function helpText(version: string): string {
  const lines = [
    `warmlane ${version}: a streaming reverse proxy for vLLM, llama-server and OpenAI-compatible model servers.`,
    '',
    'Usage: warmlane [command] [flags]',
    '',
    'Commands',
    ...aligned(Object.entries({ ...commands, ...separateCommands })),
    '',
    'Flags',
    ...aligned(Object.entries<FlagInfo>(flags).map(([name, info]) => [flagForm(name, info), info.says])),
    '',
    'Environment: each says the same as its flag, and the flag wins; both win over the file.',
    ...aligned(
      Object.entries<FlagInfo>(flags).flatMap(([name, info]) =>
        info.variable === undefined ? [] : [[info.variable, `--${name}${variableNote(name)}`] as const],
      ),
    ),
    '',
    'Examples',
    ...aligned(examples),
    '',
    'Every key of the file is explained in config/warmlane.example.yaml.',
    '',
  ];
  return lines.join('\n');
}

interface CommandHelp {
  readonly about: readonly string[];
  readonly examples: readonly (readonly [string, string])[];
  readonly end: readonly string[];
}

const helps: Readonly<Record<Command, CommandHelp>> = {
  serve: {
    about: [
      'warmlane serve: relays requests to the model servers and measures every token; the word may be left out.',
      'Without a server to serve it looks at the usual places of this machine, and else starts the demo.',
    ],
    examples: examples.slice(0, 3),
    end: ['SIGTERM lets streams end, SIGHUP reads the file anew. Exit codes: 0 ended, 1 could not serve, 2 wrong use.'],
  },
  check: {
    about: [
      'warmlane check: reads the configuration as serving would, and names every problem of it with file and line.',
      'Starts nothing and asks no server. When all is right it prints what would be served, and notes on it.',
    ],
    examples: [
      ['warmlane check --config warmlane.yaml', 'that file, with the environment and flags given here'],
      ['warmlane check', 'flags, environment and defaults alone'],
    ],
    end: ['Exit codes: 0 it can be served, 1 it has problems (all are printed), 2 wrong use.'],
  },
};

/** Of one command, with the flags that it takes. */
export function commandHelp(command: Command): string {
  const { about, examples: shown, end } = helps[command];
  return [
    ...about,
    '',
    `Usage: warmlane ${command} [flags]`,
    '',
    'Flags',
    ...aligned(Object.entries<FlagInfo>(flags).map(([name, info]) => [flagForm(name, info), info.says])),
    '',
    'Examples',
    ...aligned(shown),
    '',
    ...end,
    '',
  ].join('\n');
}

export function flagForm(name: string, { short, value }: FlagInfo): string {
  const head = short === undefined ? '    ' : `-${short}, `;
  return `${head}--${name}${value === undefined ? '' : ` ${value}`}`;
}

function variableNote(name: string): string {
  if (name === 'backend') return ', several with commas or blanks between them';
  return name === 'demo' ? ' when 1 or true' : '';
}

export function aligned(rows: readonly (readonly [string, string])[]): readonly string[] {
  const width = Math.max(...rows.map(([left]) => left.length));
  return rows.map(([left, right]) => `  ${left.padEnd(width)}  ${right}`);
}
