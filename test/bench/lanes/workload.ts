/**
 * What comes: online requests of a trace or a generator, and lines of a batch without end. The same seed gives the same ones.
 */
import { readFileSync } from 'node:fs';

import type { Job } from '../../../src/domain/job.ts';
import type { Lane } from '../../../src/domain/names.ts';
import { promptChain } from '../../../src/sim/fleet/prompt-chain.ts';
import { hashedPrompt, type HashedPrompt } from '../../../src/sim/prompt.ts';
import { createSeededRandom, wholeBetween } from '../../../src/sim/seeded-random.ts';
import { generators } from '../../../src/sim/traces/generators/generator.ts';
import { createTraceReader } from '../../../src/sim/traces/read-trace.ts';
import type { Trace, TraceRequest } from '../../../src/sim/traces/trace.ts';
import { type LanePart, type LaneSetting, step, stepRatePerSecond } from './settings.ts';

export interface Work {
  readonly atMs: number;
  readonly prompt: HashedPrompt;
  readonly outputTokens: number;
  readonly job: Job;
}

/** Files of Azure's traces of 2023; without one its setting is played on a generator with the same statistics. */
export interface TraceFiles {
  readonly conv?: string | undefined;
  readonly code?: string | undefined;
}

const standIn = { conv: 'smooth', code: 'bursty', step: 'smooth' } as const;
const hashTokens = 64;
/** Traffic between steps comes of another seed than the steps. */
const lowSeed = 1000;

/** Online requests in order, and where they come from. */
export function onlineWork(
  setting: LaneSetting,
  part: LanePart,
  files: TraceFiles,
): { readonly source: string; readonly work: Work[] } {
  const { online } = setting;
  const { fromSeconds, seconds } = part;
  const file = online === 'step' ? undefined : files[online];
  const requests = file === undefined ? generated(setting, part) : readTrace(file).requests;
  const fromMs = file === undefined ? 0 : fromSeconds * 1000;
  const fresh = createIds(1);
  const work = requests
    .filter(({ atMs }) => atMs >= fromMs && atMs < fromMs + seconds * 1000)
    .map(({ atMs, promptTokens, outputTokens }, index) =>
      workOf({ atMs: atMs - fromMs, promptTokens, outputTokens, lane: 'online', id: `online-${index + 1}`, fresh }),
    );
  return { source: file === undefined ? `generator ${standIn[online]}` : `azure ${online} 2023`, work };
}

function generated({ online, stepFromRate }: LaneSetting, { seed, seconds }: LanePart): readonly TraceRequest[] {
  const { make, ratePerSecond: usual } = generators[standIn[online]];
  const made = (ratePerSecond: number, seedOf: number) =>
    make({ requests: Math.ceil(seconds * ratePerSecond * 4), ratePerSecond, seed: seedOf }).requests;
  if (online !== 'step') return made(usual, seed);
  const { onMs, everyMs, firstMs } = step;
  const high = made(stepRatePerSecond, seed).map((request) => ({
    ...request,
    atMs: firstMs + Math.floor(request.atMs / onMs) * everyMs + (request.atMs % onMs),
  }));
  if (stepFromRate === undefined) return high;
  // The same steps, whatever they begin from.
  const low = made(stepFromRate, seed + lowSeed).filter(
    ({ atMs }) => atMs < firstMs || (atMs - firstMs) % everyMs >= onMs,
  );
  return [...low, ...high].toSorted((a, b) => a.atMs - b.atMs);
}

function readTrace(file: string): Trace {
  const reader = createTraceReader({ name: file, seed: 1, maxRequests: Number.MAX_SAFE_INTEGER });
  for (const line of readFileSync(file, 'utf8').split('\n')) reader.line(line);
  return reader.end().trace;
}

/** Lines of 500 to 2,500 tokens that ask for 100 to 500, sharing nothing. */
export function createLines(seed: number): () => Work {
  const random = createSeededRandom(seed * 7919 + 17);
  const fresh = createIds(500_000_000);
  let count = 0;
  return () =>
    workOf({
      atMs: 0,
      promptTokens: wholeBetween(random, 500, 2500),
      outputTokens: wholeBetween(random, 100, 500),
      lane: 'batch',
      id: `line-${(count += 1)}`,
      fresh,
    });
}

function createIds(first: number): (count: number) => number[] {
  let next = first;
  return (count) => Array.from({ length: count }, () => next++);
}

interface WorkFacts {
  readonly atMs: number;
  readonly promptTokens: number;
  readonly outputTokens: number;
  readonly lane: Lane;
  readonly id: string;
  readonly fresh: (count: number) => number[];
}

function workOf({ atMs, promptTokens, outputTokens, lane, id, fresh }: WorkFacts): Work {
  const prompt = hashedPrompt(promptTokens, fresh(Math.ceil(promptTokens / hashTokens)), hashTokens);
  const prefix = promptChain(prompt);
  const job: Job = {
    requestId: id,
    endpoint: 'chat',
    method: 'POST',
    target: '/v1/chat/completions',
    format: 'chat',
    generates: true,
    stream: true,
    choices: 1,
    bodyBytes: prefix.bytes,
    readable: true,
    lane,
    usage: { byClient: false },
    measured: true,
    prefix,
  };
  return { atMs, prompt, outputTokens, job };
}
