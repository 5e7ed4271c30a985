/**
 * Many customers of one service, each with a long system prompt of its own and short questions: llm-d's public `b2b-saas` benchmark,
 * 150 prompts of 6,000 shared tokens, questions of 1,200, answers of 1,000.
 */
import { createSeededRandom, pick } from '../../seeded-random.ts';
import { createFreshIds, type Trace, type TraceRequest } from '../trace.ts';
import { arrivals } from './draws.ts';
import type { GeneratorSettings } from './generator.ts';
import { continued, hashTokens, newText } from './transcript.ts';

const customers = 150;
const sharedTokens = 6000;
const questionTokens = 1200;
const outputTokens = 1000;

export function sharedPrompts({ requests, ratePerSecond, seed }: GeneratorSettings): Trace {
  const random = createSeededRandom(seed);
  const fresh = createFreshIds(0);
  const prompts = Array.from({ length: customers }, () => newText(sharedTokens, fresh));
  const made: TraceRequest[] = [];
  for (const atMs of arrivals(random, { ratePerSecond })) {
    if (made.length >= requests) break;
    const prompt = continued(pick(random, prompts), questionTokens, fresh);
    made.push({ atMs, promptTokens: prompt.tokens, outputTokens, hashIds: prompt.ids });
  }
  return { name: 'shared-prompts', hashTokens, requests: made };
}
