/**
 * Agents with tools: a long system prompt with the tools of its kind, then many short steps, each of which waits for the answer
 * before it and for a tool. Nine tenths of all prompt tokens were seen before.
 */
import { createSeededRandom, wholeBetween, type Random } from '../../seeded-random.ts';
import { createFreshIds, type FreshIds, type Trace, type TraceRequest } from '../trace.ts';
import { arrivals, logNormal, turnsOf } from './draws.ts';
import type { GeneratorSettings } from './generator.ts';
import { continued, hashTokens, newText, type Transcript } from './transcript.ts';

const kinds = 12;
const meanSteps = 12;

export function agents({ requests, ratePerSecond, seed }: GeneratorSettings): Trace {
  const random = createSeededRandom(seed);
  const fresh = createFreshIds(0);
  const systems = Array.from({ length: kinds }, () => newText(wholeBetween(random, 3000, 8000), fresh));
  const made: TraceRequest[] = [];
  let tasks = 0;
  for (const atMs of arrivals(random, { ratePerSecond: ratePerSecond / meanSteps })) {
    if (made.length >= requests) break;
    // A few kinds of agents do most of the work.
    const system = systems[Math.floor(random() ** 2 * kinds)];
    if (system !== undefined) addTask(made, random, { atMs, system, fresh, session: `task-${tasks++}` });
  }
  return { name: 'agents', hashTokens, requests: made.slice(0, requests) };
}

function addTask(
  made: TraceRequest[],
  random: Random,
  about: { readonly atMs: number; readonly system: Transcript; readonly fresh: FreshIds; readonly session: string },
): void {
  const { atMs, fresh, session } = about;
  let prompt = continued(about.system, logNormal(random, { median: 400, sigma: 0.8, least: 20, most: 8000 }), fresh);
  const steps = turnsOf(random, { mean: meanSteps, most: 60 });
  for (let step = 0; step < steps; step += 1) {
    const outputTokens = logNormal(random, { median: 120, sigma: 0.8, least: 10, most: 1500 });
    const delayMs = logNormal(random, { median: 1500, sigma: 1.2, least: 50, most: 60_000 });
    const after = step === 0 ? {} : { after: { request: made.length - 1, delayMs } };
    made.push({ atMs, ...after, promptTokens: prompt.tokens, outputTokens, hashIds: prompt.ids, session });
    const toolTokens = logNormal(random, { median: 500, sigma: 1, least: 20, most: 10_000 });
    prompt = continued(prompt, outputTokens + toolTokens, fresh);
  }
}
