/**
 * `warmlane doctor`: looks who answers, states what the examination will cost, makes it, prints what was found.
 */
import { isFailure } from '../../fleet/probe-port.ts';
import { systemClock, type Clock } from '../../platform/clock.ts';
import type { Process } from '../process.ts';
import { doctorHelp, parseDoctorArguments, type DoctorOptions } from './arguments.ts';
import { createAsker, type Asker } from './asker.ts';
import { runExperiment } from './cache/experiment.ts';
import { fillCache, fillCost } from './cache/fill.ts';
import { interpret } from './cache/interpret.ts';
import { judgeCache } from './cache/judge.ts';
import { costOf, durationText, planCache, type CacheCost, type CachePlan } from './cache/plan.ts';
import { diagnose, diagnosisBudget, refused } from './diagnose.ts';
import { lookAt, type Endpoint } from './endpoint.ts';
import { exitCodeOf, finding, findingLine, printable, tally, type Finding } from './finding.ts';
import { judgeIdentity } from './identity.ts';
import { budgetText, createPurse, type Budget } from './purse.ts';

const requestMs = 60_000;
/** Where the engine doesn't tell the size of its cache, filling stops here. */
const usualFillTokens = 200_000;

interface Outcome {
  readonly findings: readonly Finding[];
  /** For `--json` only. */
  readonly detail?: object;
}

export interface DoctorDeps {
  readonly clock: Clock;
  readonly random: () => number;
}

const ownDeps: DoctorDeps = { clock: systemClock, random: Math.random };

/** @returns the exit code: 0 nothing bad, 1 something is bad, 2 wrong use or nobody answers */
export async function runDoctor(
  process: Pick<Process, 'argv' | 'env' | 'out' | 'err'>,
  deps: DoctorDeps = ownDeps,
): Promise<0 | 1 | 2> {
  const args = parseDoctorArguments(process.argv.slice(1), process.env);
  if (args.kind === 'help') {
    process.out(doctorHelp);
    return 0;
  }
  if (args.kind === 'wrong') {
    for (const problem of args.problems) process.err(`warmlane doctor: ${problem}\n`);
    process.err('Try warmlane doctor --help.\n');
    return 2;
  }
  const { options } = args;
  const endpoint = await lookAt(options, deps.clock);
  if (endpoint.outcome.kind === 'failed') {
    process.err(`warmlane doctor: ${options.url} ${noAnswer(endpoint, endpoint.outcome.failure)}\n`);
    return 2;
  }
  const { plan, budget } = budgetFor(endpoint, options);
  const told = plan === undefined ? '' : `; ${durationText(budget)}`;
  process.err(`Budget: ${budgetText(budget)}${told}\n`);
  if (budget.large && !options.yes) {
    process.err('warmlane doctor: that is much; write --yes to go on\n');
    return 2;
  }
  const purse = createPurse(budget, deps.clock);
  const model = options.model ?? endpoint.models[0]?.id;
  const asker = createAsker(endpoint, { model, apiKey: options.apiKey, requestMs }, { ...deps, purse });
  try {
    const outcome = plan === undefined ? { findings: await diagnose(asker) } : await examineCache(asker, plan, options);
    report(process, outcome, { asker, json: options.json });
    return exitCodeOf(outcome.findings);
  } finally {
    asker.close();
  }
}

/** Where no word is known for it, what came. */
function noAnswer({ listing }: Endpoint, failure: string): string {
  const known = failure !== 'other' || !isFailure(listing);
  return known ? `does not answer (${failure})` : `does not answer in HTTP (${printable(listing.detail)})`;
}

function budgetFor(
  endpoint: Endpoint,
  options: DoctorOptions,
): { readonly plan: CachePlan | undefined; readonly budget: CacheCost } {
  const { timeoutMs, cache, fill, promptTokens, rounds } = options;
  if (!cache) return { plan: undefined, budget: { ...diagnosisBudget(endpoint, timeoutMs), large: false } };
  const { contextTokens, blockTokens, slots } = endpoint.facts ?? {};
  const plan = planCache({ contextTokens, blockTokens, slots, promptTokens, rounds });
  const cost = costOf(plan, timeoutMs);
  if (!fill) return { plan, budget: cost };
  const more = fillCost(fillTokens(endpoint), plan.longTokens);
  const sum: Budget = {
    requests: cost.requests + more.requests,
    promptTokens: cost.promptTokens + more.promptTokens,
    timeoutMs,
  };
  return { plan, budget: { ...sum, large: cost.large || sum.promptTokens > 2 * cost.promptTokens } };
}

function fillTokens({ facts }: Endpoint): number {
  return facts?.kvTokens === undefined ? usualFillTokens : Math.ceil(facts.kvTokens * 1.25);
}

async function examineCache(asker: Asker, plan: CachePlan, { fill }: DoctorOptions): Promise<Outcome> {
  const { endpoint } = asker;
  const record = await runExperiment(asker, plan);
  if (record.refused !== undefined) return { findings: [...judgeIdentity(endpoint), refused(record.refused)] };
  const reading = interpret(record.observations);
  const findings = [...judgeIdentity(endpoint), ...judgeCache(reading, record.observations, endpoint)];
  if (asker.purse.leftMs() === 0) {
    findings.push(
      finding('time', 'warn', 'the time was over before everything was tried', {
        remedy: 'give it more with --timeout',
      }),
    );
  }
  if (fill) findings.push(await fillCache(asker, { longTokens: plan.longTokens, mostTokens: fillTokens(endpoint) }));
  return { findings, detail: { reading, observations: record.observations } };
}

function report(
  { out }: Pick<Process, 'out'>,
  { findings, detail }: Outcome,
  { asker, json }: { readonly asker: Asker; readonly json: boolean },
): void {
  const { endpoint, model, purse } = asker;
  if (json) {
    const engine = endpoint.facts?.engineKnown === true ? endpoint.facts.engine : undefined;
    out(
      `${JSON.stringify({ url: endpoint.url, engine, model, exitCode: exitCodeOf(findings), spent: purse.spent, findings, ...detail }, null, 2)}\n`,
    );
    return;
  }
  const { requests, promptTokens, ms } = purse.spent;
  out(findings.map(findingLine).join(''));
  out(
    printable(
      `${tally(findings)}; spent ${requests} requests, about ${promptTokens} prompt tokens, ${(ms / 1000).toFixed(1)} s`,
    ) + '\n',
  );
}
