/**
 * The bench of the cache experiment: sends one prompt and writes down what it showed: what was reported as cached and
 * where, else what the engine's counters gained. Knows no order of steps. Effects only.
 */
import type { Asker, AskedChat } from '../asker.ts';
import type { EngineCounters } from '../counters.ts';
import { ttftOf, type Seen, type WireRequest } from '../wire.ts';
import type { Observation, Source, Step } from './observation.ts';
import type { CachePlan } from './plan.ts';
import type { Prompt, PromptMaker } from './prompts.ts';

const answerTokens = 4;
/** Pauses between looks at counters that may lag a step behind. */
const countersLagMs: readonly number[] = [0, 100, 300];

export interface Bench {
  readonly asker: Asker;
  readonly plan: CachePlan;
  readonly prompts: PromptMaker;
  /** Sends a prompt and writes down what it showed. @returns what was seen, undefined when it can't be afforded */
  send(step: Step, prompt: Prompt, more?: SendOptions): Promise<Seen | undefined>;
}

interface SendOptions {
  /** What was sent before, that this one begins like. */
  readonly after?: Prompt;
  readonly extra?: Readonly<Record<string, unknown>>;
  readonly model?: string;
  readonly request?: Partial<WireRequest>;
  /** Looked at once the answer is there; true: it proves nothing. */
  readonly spoilt?: () => boolean;
}

export function createBench(
  asker: Asker,
  { plan, prompts, observations }: { plan: CachePlan; prompts: PromptMaker; observations: Observation[] },
): Bench {
  // Read where answers themselves don't report hits; on some engines each look has a price, so not before that is known.
  let usesCounters = false;
  return {
    asker,
    plan,
    prompts,
    async send(step, prompt, more = {}) {
      const before = usesCounters ? await asker.endpoint.counters() : undefined;
      const seen = await asker.chat(chatOf(prompt, more, asker), more.request);
      if (seen === undefined) return undefined;
      if (seen.status === 200 && isWordsOnly(step)) prompts.learn(prompt, promptTokensOf(seen));
      let { cached, sources } = reported(seen);
      if (cached === undefined && seen.status === 200) {
        if (before !== undefined) {
          cached = await countedBetween(asker, before, promptTokensOf(seen));
          if (cached !== undefined) sources = ['counters'];
        }
        usesCounters = true;
      }
      const shared = more.after === undefined ? undefined : await prompts.shared(prompt, more.after);
      const failed = more.spoilt?.() === true ? 'it came too late' : failureOf(seen);
      const [promptTokens, ttftMs] = [promptTokensOf(seen), ttftOf(seen)];
      observations.push({
        step,
        sources,
        ...(promptTokens === undefined ? {} : { promptTokens }),
        ...(shared === undefined ? {} : { shared }),
        ...(cached === undefined ? {} : { cached }),
        ...(ttftMs === undefined ? {} : { ttftMs }),
        ...(failed === undefined ? {} : { failed }),
      });
      return seen;
    },
  };
}

/** Those whose length is a matter of their words alone. */
function isWordsOnly(step: Step): boolean {
  return step === 'first' || step === 'fresh' || step === 'short';
}

function chatOf(prompt: Prompt, { extra, model }: SendOptions, asker: Asker): AskedChat {
  const progress = asker.endpoint.facts?.engine === 'llama-server' ? { return_progress: true } : {};
  const tools = prompt.tools === undefined ? {} : { tools: prompt.tools, tool_choice: 'none' };
  return {
    messages: prompt.messages,
    maxTokens: answerTokens,
    stream: true,
    promptTokens: prompt.words + 30,
    extra: { ...progress, ...tools, ...extra },
    ...(model === undefined ? {} : { model }),
  };
}

function reported({ usage, timings, early }: Seen): { cached: number | undefined; sources: readonly Source[] } {
  const told: readonly (readonly [Source, number | undefined])[] = [
    ['usage', usage?.cached],
    ['timings', timings?.cached],
    ['progress', early?.cached],
  ];
  const sources = told.filter(([, cached]) => cached !== undefined);
  return { cached: sources[0]?.[1], sources: sources.map(([source]) => source) };
}

/** llama-server's usage counts the whole prompt; where there is none, its timings do. */
function promptTokensOf({ usage, timings }: Seen): number | undefined {
  if (usage?.prompt !== undefined) return usage.prompt;
  return timings?.promptNew === undefined ? undefined : timings.promptNew + (timings.cached ?? 0);
}

function failureOf({ status, fault, error, tokenMs, body }: Seen): string | undefined {
  if (fault !== undefined) return fault.detail;
  if (error !== undefined) return error.message;
  if (status !== 200) return `status ${status ?? 'none'}: ${body.slice(0, 120)}`;
  return tokenMs.length === 0 ? 'no token came' : undefined;
}

/** What the engine's counters gained by this one request; undefined when others' requests are in it. */
async function countedBetween(
  asker: Asker,
  before: EngineCounters,
  promptTokens: number | undefined,
): Promise<number | undefined> {
  // They may lag one step behind.
  for (const waitMs of countersLagMs) {
    await asker.pause(waitMs);
    const after = await asker.endpoint.counters();
    if (after === undefined) return undefined;
    const lookedUp = (after.lookedUp ?? 0) - (before.lookedUp ?? 0);
    const generated = (after.generated ?? 0) - (before.generated ?? 0);
    if (promptTokens !== undefined && lookedUp > promptTokens + 2) return undefined;
    if (promptTokens === undefined ? lookedUp > 0 : lookedUp >= promptTokens - 2)
      return (after.cached ?? 0) - (before.cached ?? 0);
    // With caching off nothing is looked up at all, though the engine did work.
    if (waitMs === countersLagMs.at(-1) && lookedUp === 0 && generated > 0 && before.lookedUp !== undefined) return 0;
  }
  return undefined;
}
