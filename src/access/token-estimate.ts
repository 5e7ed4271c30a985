/** What a request is charged before anybody has counted its tokens; the engine's counts take its place afterwards. Pure. */
import type { Job } from '../domain/job.ts';

/** As a rule of thumb for text in most languages that are written with Latin letters. */
const bytesPerToken = 4;
/** Where the request sets no bound to its answer: about what a turn of a chat has. */
const assumedOutputTokens = 256;

export interface TokenEstimate {
  readonly prompt: number;
  readonly output: number;
}

const nothing: TokenEstimate = { prompt: 0, output: 0 };

export function estimateTokens(job: Job): TokenEstimate {
  // What is only kept is computed when a generation refers to it.
  const isOnlyKept = job.stored === true && !job.generates;
  if (!job.measured || !job.readable || isOnlyKept) return nothing;
  // Where the prompt itself was read, pictures and the like count for nothing.
  const prompt = Math.ceil((job.prefix?.bytes ?? job.bodyBytes) / bytesPerToken);
  return { prompt, output: job.generates ? (job.maxOutputTokens ?? assumedOutputTokens) * job.choices : 0 };
}
