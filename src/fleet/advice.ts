/**
 * What a backend lacks that costs its user something, each sentence with its remedy. Texts and rules only.
 *
 * The rule for `--threads-http`: llama-server gives each request in flight an HTTP thread, and its pool can't be asked
 * for. By default it holds slots + 4 threads (slots + 2 in older builds), so slots and one probe don't fill it; a
 * count of slots alone would prove nothing. The advice is given where they may: warmlane is allowed more in flight than
 * slots + 1; the server is a router, whose pool doesn't grow with its models' slots; or a health check went unanswered
 * while requests ran, which is how a full pool shows (R12).
 */
import type { BackendFacts } from './facts.ts';
import type { BackendSettings } from './settings.ts';

const noCachedTokensVllm = 'cached tokens are unknown; start vLLM with --enable-prompt-tokens-details';
export const noCachedTokensSglang = 'cached tokens are unknown; start SGLang with --enable-cache-report';
export const noPrefixCaching =
  'prefix caching is off, every prompt is computed anew; start vLLM without --no-enable-prefix-caching';
export const noMetrics = 'its counters of tokens and cache hits are closed; start llama-server with --metrics';
export const noSlots =
  'busy slots can not be seen, so the slot of an aborted request stays reserved longer than needed; ' +
  'start llama-server without --no-slots';
const routerThreads =
  'as a router it holds an HTTP thread for each request in flight on any of its models; ' +
  'start llama-server with --threads-http at the sum of their slots + 8';

export const noModels = 'answers, but shows no models: is this the right port?';

/** What is known beside the facts. */
export interface AdviceEvidence {
  /** Answers that gave usage came without cached tokens, and none with. */
  readonly cachedMissing: boolean;
  /** A health check went unanswered while requests ran. */
  readonly threadsFull: boolean;
}

/** @param settings of the backend: its own limit may be what is wrong */
export function adviceFor(facts: BackendFacts, settings: BackendSettings, evidence: AdviceEvidence): readonly string[] {
  const advice = [...facts.advice];
  if (facts.engine === 'vllm' && evidence.cachedMissing) advice.push(noCachedTokensVllm);
  if (facts.engine === 'llama-server') advice.push(...llamaAdvice(facts, settings, evidence));
  return advice;
}

function llamaAdvice(facts: BackendFacts, settings: BackendSettings, evidence: AdviceEvidence): string[] {
  const advice: string[] = [];
  const inFlight = settings.maxInFlight ?? facts.slots;
  if (facts.slots !== undefined && inFlight !== undefined && inFlight > facts.slots) {
    advice.push(
      `${inFlight} requests may be in flight on ${facts.slots} slots, the rest waits where an abort is noticed late; ` +
        `lower its maxInFlight or start llama-server with -np ${inFlight}`,
    );
  }
  const mayFill = facts.slots !== undefined && inFlight !== undefined && inFlight > facts.slots + 1;
  if (evidence.threadsFull || mayFill) {
    const threads = inFlight === undefined ? '' : ` ${inFlight + 8}`;
    const what = evidence.threadsFull
      ? 'a health check went unanswered while requests ran, as when its HTTP threads are all taken'
      : 'its requests in flight and the health checks may take all its HTTP threads';
    advice.push(`${what}; start llama-server with --threads-http${threads}`);
  }
  if (facts.router) advice.push(routerThreads);
  return advice;
}
