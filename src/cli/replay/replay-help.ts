/** The help of `warmlane replay`, made of the same tables that its flags are parsed with. */
import { engineModels } from '../../sim/fleet/engine-models.ts';
import { generators } from '../../sim/traces/generators/generator.ts';
import type { FlagInfo } from '../args.ts';
import { aligned, flagForm } from '../help.ts';
import { replayFlags } from './replay-args.ts';
import { replayPolicies } from './routers.ts';

const examples: readonly (readonly [string, string])[] = [
  ['warmlane replay prompts.jsonl --backends 4,6', 'would two more servers help?'],
  ['warmlane replay prompts.jsonl --kv-tokens 300k,600k', 'would more KV help?'],
  ['warmlane replay prompts.jsonl --policy warm,round-robin', 'would another policy help?'],
  ['warmlane replay --generate shared-prompts --capacity', 'how much load can four backends take?'],
];

export function replayHelp(): string {
  return [
    'warmlane replay: plays a trace against simulated engines behind the router that serves, and compares policies and fleets.',
    '',
    'Usage: warmlane replay [flags] TRACE       (- is stdin; .gz is unpacked)',
    '       warmlane replay [flags] --generate NAME',
    '',
    'Flags',
    ...aligned(Object.entries<FlagInfo>(replayFlags).map(([name, info]) => [flagForm(name, info), info.says])),
    '',
    `Policies: ${replayPolicies.join(', ')}.`,
    'perfect is warm with an index that is never wrong: what better knowledge of the caches could bring.',
    '',
    'Engines',
    ...aligned(Object.entries(engineModels).map(([name, { says }]) => [name, says])),
    '',
    'Requests that can be made',
    ...aligned(Object.entries(generators).map(([name, { says }]) => [name, says])),
    '',
    'A trace is Mooncake, AIPerf, Dynamo or Qwen-Bailian JSONL, Azure CSV, or what telemetry.promptTrace wrote.',
    '',
    'Examples',
    ...aligned(examples),
    '',
    'Exit codes: 0 tables were printed, 1 there was no request to play, 2 wrong use.',
    'Every column is explained in deploy/replay.md, with what a simulation can and cannot tell.',
    '',
  ].join('\n');
}
