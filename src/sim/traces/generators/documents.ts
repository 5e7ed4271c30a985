/** Long documents, each asked about a few times within minutes: 15k to 100k shared tokens, short questions, answers of 250. */
import { createSeededRandom } from '../../seeded-random.ts';
import { createFreshIds, type Trace, type TraceRequest } from '../trace.ts';
import { arrivals, logNormal, turnsOf } from './draws.ts';
import type { GeneratorSettings } from './generator.ts';
import { continued, hashTokens, newText } from './transcript.ts';

const meanQuestions = 5;

export function documents({ requests, ratePerSecond, seed }: GeneratorSettings): Trace {
  const random = createSeededRandom(seed);
  const fresh = createFreshIds(0);
  const made: TraceRequest[] = [];
  for (const startMs of arrivals(random, { ratePerSecond: ratePerSecond / meanQuestions })) {
    if (made.length >= requests * 1.5) break;
    const document = newText(logNormal(random, { median: 30_000, sigma: 0.5, least: 15_000, most: 100_000 }), fresh);
    let atMs = startMs;
    for (let left = turnsOf(random, { mean: meanQuestions, most: 40 }); left > 0; left -= 1) {
      const prompt = continued(document, logNormal(random, { median: 60, sigma: 0.8, least: 8, most: 1000 }), fresh);
      const outputTokens = logNormal(random, { median: 220, sigma: 0.6, least: 5, most: 1500 });
      made.push({ atMs, promptTokens: prompt.tokens, outputTokens, hashIds: prompt.ids });
      atMs += logNormal(random, { median: 40_000, sigma: 1, least: 1000, most: 600_000 });
    }
  }
  made.sort((a, b) => a.atMs - b.atMs);
  return { name: 'documents', hashTokens, requests: made.slice(0, requests) };
}
