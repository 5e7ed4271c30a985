/**
 * Conversations: people who talk with a model, each turn a longer prompt. As Mooncake's public trace of a chat service: prompts of
 * 6.9k tokens (median), 27k (p90) and 85k (p99), answers of 340, a third of all prompt tokens seen before, one system prompt for all.
 */
import { createSeededRandom, type Random } from '../../seeded-random.ts';
import { createFreshIds, type FreshIds, type Trace, type TraceRequest } from '../trace.ts';
import { arrivals, logNormal, turnsOf } from './draws.ts';
import type { GeneratorSettings } from './generator.ts';
import { continued, hashTokens, newText, type Transcript } from './transcript.ts';

const meanTurns = 1.6;
const systemTokens = 512;

export function conversation({ requests, ratePerSecond, seed }: GeneratorSettings): Trace {
  const random = createSeededRandom(seed);
  const fresh = createFreshIds(0);
  const system = newText(systemTokens, fresh);
  const made: TraceRequest[] = [];
  for (const startMs of arrivals(random, { ratePerSecond: ratePerSecond / meanTurns })) {
    // Sessions overlap: those that began early end late, and what comes after the last wanted request is left out.
    if (made.length >= requests * 1.5) break;
    made.push(...oneSession(random, { startMs, system, fresh, session: `session-${made.length}` }));
  }
  made.sort((a, b) => a.atMs - b.atMs);
  return { name: 'conversation', hashTokens, requests: made.slice(0, requests) };
}

function oneSession(
  random: Random,
  about: { readonly startMs: number; readonly system: Transcript; readonly fresh: FreshIds; readonly session: string },
): readonly TraceRequest[] {
  const { session, fresh } = about;
  const firstTokens = logNormal(random, { median: 5000, sigma: 1.3, least: 30, most: 120_000 });
  let prompt = continued(about.system, firstTokens, fresh);
  let atMs = about.startMs;
  const requests: TraceRequest[] = [];
  for (let left = turnsOf(random, { mean: meanTurns, most: 30 }); left > 0; left -= 1) {
    const outputTokens = logNormal(random, { median: 290, sigma: 0.65, least: 1, most: 2000 });
    requests.push({ atMs, promptTokens: prompt.tokens, outputTokens, hashIds: prompt.ids, session });
    const userTokens = logNormal(random, { median: 450, sigma: 1.6, least: 10, most: 60_000 });
    prompt = continued(prompt, outputTokens + userTokens, fresh);
    // Reading, thinking and typing, after an answer of 40 tokens a second.
    atMs += outputTokens * 25 + logNormal(random, { median: 150_000, sigma: 1, least: 3000, most: 1_200_000 });
  }
  return requests;
}
