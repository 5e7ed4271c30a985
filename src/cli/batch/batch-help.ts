/** The help of `warmlane batch`, made of the same tables that its words and flags are parsed with. */
import { aligned, flagForm } from '../help.ts';
import { batchFlags, keyVariable, urlVariable, verbs, type BatchFlagInfo, type Verb } from './batch-args.ts';

const forms: Readonly<Record<Verb, string>> = {
  submit: 'submit FILE',
  list: 'list',
  status: 'status ID',
  cancel: 'cancel ID',
  results: 'results ID',
};

const examples: readonly (readonly [string, string])[] = [
  ['warmlane batch submit in.jsonl --wait -o out.jsonl', 'from the file to its answers'],
  ['warmlane batch submit in.jsonl --metadata run=7', 'and away; prints the ID'],
  ['warmlane batch status batch_… --wait', 'come back to it'],
  ['warmlane batch results batch_… -o out.jsonl', 'fetch the answers'],
];

/** What scripts can rely on. */
export const exitCodes: readonly (readonly [string, string])[] = [
  ['0', 'done; of a batch that was waited for, every line has its answer'],
  ['1', 'not done: it failed, expired or was cancelled, or warmlane refused or was not reachable'],
  ['2', 'wrong use, or FILE is not what can be submitted'],
  ['3', 'completed, but lines failed: they are in the error file (results ID --errors FILE)'],
  ['130', 'left by Ctrl-C while waiting; the batch goes on'],
];

export function batchHelp(): string {
  return [
    "warmlane batch: files of requests, answered with what online traffic leaves, by OpenAI's Files and Batch API.",
    '',
    'Usage: warmlane batch VERB [flags]',
    '',
    'Verbs',
    ...aligned((Object.keys(verbs) as Verb[]).map((verb) => [forms[verb], verbs[verb]])),
    '',
    'Flags',
    ...aligned(Object.entries<BatchFlagInfo>(batchFlags).map(([name, info]) => [flagForm(name, info), saysOf(info)])),
    '',
    `Environment: ${urlVariable} says the same as --url, ${keyVariable} as --key; the flags win.`,
    '',
    'Exit codes',
    ...aligned(exitCodes),
    '',
    'Examples',
    ...aligned(examples),
    '',
    'The server must have the Batch API on: warmlane --batch-dir DIR. All about it is in deploy/batch.md.',
    '',
  ].join('\n');
}

function saysOf(info: BatchFlagInfo): string {
  return info.for === undefined ? info.says : `${info.for.join(', ')}: ${info.says}`;
}
