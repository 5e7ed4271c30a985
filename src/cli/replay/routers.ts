/** The routers that a replay compares: the shipped one under each of its policies, and the default one with perfect knowledge. */
import type { PrefixChain } from '../../domain/prefix.ts';
import { policyNames } from '../../domain/routing.ts';
import { type RouteSettings, routeDefaults } from '../../route/settings.ts';
import { createRouting } from '../../routing.ts';
import type { HashedPrompt } from '../../sim/prompt.ts';
import type { MakeRouter } from './play.ts';
import { createTrueIndex } from './true-index.ts';
import type { Workload } from './workload.ts';

export const replayPolicies = [...policyNames, 'perfect'] as const;

export type ReplayPolicy = (typeof replayPolicies)[number];

export function routerFor(
  policy: ReplayPolicy,
  workload: Workload,
  { ttftMs, settings = routeDefaults }: { readonly ttftMs: number; readonly settings?: RouteSettings },
): MakeRouter {
  // Late binding is bound to the objective: a quarter of it, as the default is of the default one.
  const cost = { ...settings.cost, holdMs: ttftMs / 4 };
  if (policy !== 'perfect') return (deps) => createRouting({ ...settings, cost, policy }, deps);
  const promptOf = promptsByChain(workload);
  return ({ engines, ...deps }) =>
    createRouting({ ...settings, cost, policy: 'warm' }, { ...deps, index: createTrueIndex({ engines, promptOf }) });
}

function promptsByChain({ items }: Workload): (chain: PrefixChain) => HashedPrompt {
  const prompts = new Map(items.map(({ job, prompt }) => [job.prefix, prompt]));
  return (chain) => {
    const prompt = prompts.get(chain);
    if (prompt === undefined) throw new Error('a prompt of another workload');
    return prompt;
  };
}
