/** One job and one backend in the terms that policies count in. Pure: made of what the other parts know at this moment. */
import type { BackendView } from '../domain/fleet.ts';
import type { Job } from '../domain/job.ts';
import type { PrefixChain } from '../domain/prefix.ts';
import { hashText } from './hash.ts';
import type { RouteJob } from './policy.ts';

/** Where nothing is known of a prompt, its tokens are taken for so many bytes of the body. */
const bytesPerToken = 4;
/** Prompts are told apart by this much of their beginning; most system prompts are longer, and so are alike. */
const prefixBytes = 1024;
const slowestShare = 0.1;

export interface RouteJobParts {
  readonly job: Job;
  /** as far as the index can tell */
  readonly promptTokens: number | undefined;
  /** expected of its model */
  readonly outputTokens: number;
  readonly sessionHome: string | undefined;
  readonly waitedMs: number;
}

export function routeJobOf({ job, promptTokens, outputTokens, sessionHome, waitedMs }: RouteJobParts): RouteJob {
  const made: { -readonly [key in keyof RouteJob]: RouteJob[key] } = {
    promptTokens: job.generates ? Math.max(1, promptTokens ?? Math.ceil(job.bodyBytes / bytesPerToken)) : 0,
    outputTokens: Math.max(1, Math.min(outputTokens, job.maxOutputTokens ?? Infinity)),
    choices: job.choices,
    generates: job.generates,
    prefixKey: job.prefix === undefined ? 0 : prefixKeyOf(job.prefix),
    waitedSeconds: waitedMs / 1000,
  };
  if (job.session !== undefined) made.sessionKey = hashText(job.session);
  if (sessionHome !== undefined) made.sessionHome = sessionHome;
  return made;
}

/** Of the first chunk that reaches so far, else of the last one. */
export function prefixKeyOf({ keys, ends }: PrefixChain): number {
  let at = 0;
  while (at < keys.length - 1 && (ends[at] ?? 0) < prefixBytes) at += 1;
  return keys[at] ?? 0;
}

/** Its configured weight, less for a while after it came back: its caches are cold, and it may fail again. */
export function weightOf({ weight = 1, backSinceMs }: BackendView, nowMs: number, slowStartMs: number): number {
  if (backSinceMs === undefined || slowStartMs === 0) return weight;
  const share = slowestShare + ((1 - slowestShare) * (nowMs - backSinceMs)) / slowStartMs;
  return weight * Math.min(1, Math.max(slowestShare, share));
}
