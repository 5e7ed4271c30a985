/**
 * A trace made ready to be played: for each request the job that the router sees and the prompt that the engine sees. Made once,
 * played as often as there are policies and fleets to compare; nothing in it changes.
 */
import type { Job } from '../../domain/job.ts';
import { promptChain } from '../../sim/fleet/prompt-chain.ts';
import { hashedPrompt, type HashedPrompt } from '../../sim/prompt.ts';
import type { Trace, TraceRequest } from '../../sim/traces/trace.ts';

export interface WorkItem {
  readonly request: TraceRequest;
  readonly prompt: HashedPrompt;
  readonly job: Job;
}

export interface Workload {
  readonly name: string;
  readonly items: readonly WorkItem[];
  /** by index of an item: those that follow its end */
  readonly followers: ReadonlyMap<number, readonly number[]>;
  /** from the first arrival to the last one that comes at a time of its own */
  readonly spanSeconds: number;
  readonly promptTokens: number;
  readonly outputTokens: number;
  /** of one id of a prompt */
  readonly hashTokens: number;
}

export function prepareWorkload(trace: Trace): Workload {
  const items = trace.requests.map((request, index) => itemOf(request, { index, hashTokens: trace.hashTokens }));
  const followers = new Map<number, number[]>();
  let lastMs = 0;
  trace.requests.forEach(({ after, atMs }, index) => {
    if (after === undefined) lastMs = Math.max(lastMs, atMs);
    else followers.set(after.request, [...(followers.get(after.request) ?? []), index]);
  });
  const total = (of: (request: TraceRequest) => number) =>
    trace.requests.reduce((sum, request) => sum + of(request), 0);
  return {
    name: trace.name,
    items,
    followers,
    spanSeconds: lastMs / 1000,
    promptTokens: total(({ promptTokens }) => promptTokens),
    outputTokens: total(({ outputTokens }) => outputTokens),
    hashTokens: trace.hashTokens,
  };
}

function itemOf(
  request: TraceRequest,
  { index, hashTokens }: { readonly index: number; readonly hashTokens: number },
): WorkItem {
  const prompt = hashedPrompt(request.promptTokens, request.hashIds, hashTokens);
  const prefix = promptChain(prompt);
  const session = request.session === undefined ? {} : { session: request.session };
  const job: Job = {
    requestId: `replay-${index + 1}`,
    endpoint: 'chat',
    method: 'POST',
    target: '/v1/chat/completions',
    format: 'chat',
    generates: true,
    stream: true,
    choices: 1,
    bodyBytes: prefix.bytes,
    readable: true,
    lane: 'online',
    usage: { byClient: false },
    measured: true,
    prefix,
    ...session,
  };
  return { request, prompt, job };
}
