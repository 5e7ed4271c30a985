/**
 * Prompts that share nothing, as in Azure's public traces of 2023: a chat service with a steady load, and a code service with bursts of
 * twelve times its mean.
 */
import { createSeededRandom } from '../../seeded-random.ts';
import { createFreshIds, type Trace, type TraceRequest } from '../trace.ts';
import { arrivals, logNormal } from './draws.ts';
import type { GeneratorSettings } from './generator.ts';
import { hashTokens, newText } from './transcript.ts';

interface Lengths {
  readonly median: number;
  readonly sigma: number;
}

interface Shape {
  readonly name: string;
  readonly prompt: Lengths;
  readonly output: Lengths;
  /** of the rate's logarithm, every ten seconds anew */
  readonly sigma: number;
}

/** Means of 1,155 and 211 tokens, the count of ten seconds varies by 27 %. */
export function smooth(settings: GeneratorSettings): Trace {
  const shape = {
    name: 'smooth',
    prompt: { median: 870, sigma: 0.75 },
    output: { median: 150, sigma: 0.8 },
    sigma: 0.23,
  };
  return unrelated(settings, shape);
}

/** Means of 2,048 and 28 tokens, the count of ten seconds varies by 167 %. */
export function bursty(settings: GeneratorSettings): Trace {
  const shape = {
    name: 'bursty',
    prompt: { median: 1550, sigma: 0.75 },
    output: { median: 15, sigma: 1.1 },
    sigma: 1.15,
  };
  return unrelated(settings, shape);
}

function unrelated({ requests, ratePerSecond, seed }: GeneratorSettings, shape: Shape): Trace {
  const random = createSeededRandom(seed);
  const fresh = createFreshIds(0);
  const made: TraceRequest[] = [];
  for (const atMs of arrivals(random, { ratePerSecond, sigma: shape.sigma })) {
    if (made.length >= requests) break;
    const prompt = newText(logNormal(random, { ...shape.prompt, least: 4, most: 14_000 }), fresh);
    const outputTokens = logNormal(random, { ...shape.output, least: 1, most: 2000 });
    made.push({ atMs, promptTokens: prompt.tokens, outputTokens, hashIds: prompt.ids });
  }
  return { name: shape.name, hashTokens, requests: made };
}
