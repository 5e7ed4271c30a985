/**
 * vLLM's chat and text completions, streamed and whole: key order, nulls and event borders as seen on version 0.32.
 * Each event is an HTTP chunk of its own; the role events come together with the first token of any choice.
 */
import { endTokenId } from '../output-plan.ts';
import type { SequenceEnd } from '../sequence.ts';
import { jsonText } from '../json-text.ts';
import { promptTokensOf, usageFacts, type FormatDeps, type VllmFormat } from './format.ts';
import { doneEvent, errorEvent, systemFingerprint } from './words.ts';

/** Tokens of one choice that wait for their common event (`stream_interval`). */
interface Waiting {
  text: string;
  ids: number[];
  tokens: number;
}

export function createChatFormat(deps: FormatDeps): VllmFormat {
  return createFormat(deps, {
    id: `chatcmpl-${deps.id}`,
    chunkObject: 'chat.completion.chunk',
    roleEvents: true,
    choice: (index, text, finish, ids) =>
      `{"index":${index},"delta":{"content":${text}},"logprobs":null,"finish_reason":${finish},"token_ids":${ids}}`,
    usageDetails: (facts) => `{"cached_tokens":${facts.cachedTokens},"created_cache_tokens":${facts.createdTokens}}`,
    body: chatBody,
  });
}

export function createCompletionsFormat(deps: FormatDeps): VllmFormat {
  return createFormat(deps, {
    id: `cmpl-${deps.id}`,
    chunkObject: 'text_completion',
    roleEvents: false,
    choice: (index, text, finish, ids) => {
      const reasons = finish.includes('stop_reason') ? finish : `${finish},"stop_reason":null`;
      return `{"index":${index},"text":${text},"logprobs":null,"finish_reason":${reasons},"prompt_token_ids":null,"token_ids":${ids}}`;
    },
    usageDetails: (facts) => `{"cached_tokens":${facts.cachedTokens}}`,
    body: completionsBody,
  });
}

interface Shape {
  readonly id: string;
  readonly chunkObject: string;
  readonly roleEvents: boolean;
  /** @param finish JSON of the finish reason, with the stop reason behind it in the last event */
  choice(index: number, text: string, finish: string, ids: string): string;
  usageDetails(facts: { readonly cachedTokens: number; readonly createdTokens: number }): string;
  body(ends: readonly SequenceEnd[], deps: FormatDeps): string;
}

function createFormat(deps: FormatDeps, shape: Shape): VllmFormat {
  const { ask, plans, reply } = deps;
  const head = `data: {"id":"${shape.id}","object":"${shape.chunkObject}","created":${deps.createdSeconds},"model":${JSON.stringify(deps.model)},"choices":[`;
  const promptTokens = promptTokensOf(ask);
  const waiting = plans.map((): Waiting => ({ text: '', ids: [], tokens: 0 }));
  const made = plans.map(() => 0);
  let rolesSent = !shape.roleEvents;

  const usage = (choice: number) => {
    const tokens = made[choice] ?? 0;
    return `,"usage":{"prompt_tokens":${promptTokens},"total_tokens":${promptTokens + tokens},"completion_tokens":${tokens},"completion_tokens_details":null}`;
  };
  function sendRoles(): void {
    rolesSent = true;
    const ids = ask.returnTokenIds ? JSON.stringify([...(ask.generation.prompts[0] ?? [])]) : 'null';
    for (let choice = 0; choice < plans.length; choice += 1) {
      const inner = `{"index":${choice},"delta":{"role":"assistant","content":""},"logprobs":null,"finish_reason":null}]`;
      reply.chunk(
        `${head}${inner}${ask.continuousUsage ? usage(choice) : ''},"prompt_token_ids":${ids},"prompt_text":null}\n\n`,
      );
    }
  }
  return {
    token(choice, index) {
      const plan = plans[choice];
      const own = waiting[choice];
      if (plan === undefined || own === undefined) return;
      if (!rolesSent) sendRoles();
      made[choice] = index + 1;
      own.text += plan.deltas[index] ?? '';
      own.tokens += 1;
      const isLast = index === plan.outputTokens - 1;
      if (ask.returnTokenIds) own.ids.push(isLast && plan.endsByEndToken ? endTokenId : plan.output.idAt(index));
      if (!isLast && index > 0 && own.tokens < ask.streamInterval) return;
      const stopReason = plan.stopString === undefined ? 'null' : JSON.stringify(plan.stopString);
      const finish = isLast ? `"${plan.endsBy}","stop_reason":${stopReason}` : 'null';
      const ids = ask.returnTokenIds ? JSON.stringify(own.ids) : 'null';
      const fingerprint =
        isLast && shape.roleEvents && !ask.includeUsage ? `,"system_fingerprint":"${systemFingerprint}"` : '';
      reply.chunk(
        `${head}${shape.choice(choice, jsonText(own.text), finish, ids)}]${ask.continuousUsage ? usage(choice) : ''}${fingerprint}}\n\n`,
      );
      own.text = '';
      own.ids = [];
      own.tokens = 0;
    },
    finish(ends) {
      if (ask.includeUsage) {
        const facts = usageFacts(ends, deps);
        const details = deps.promptTokensDetails ? `,"prompt_tokens_details":${shape.usageDetails(facts)}` : '';
        const counts = `"prompt_tokens":${facts.promptTokens},"total_tokens":${facts.promptTokens + facts.outputTokens},"completion_tokens":${facts.outputTokens}`;
        reply.chunk(`${head}],"usage":{${counts}${details}},"system_fingerprint":"${systemFingerprint}"}\n\n`);
      }
      reply.chunk(doneEvent);
      reply.end();
    },
    fail(refusal) {
      reply.chunk(errorEvent(refusal));
      reply.chunk(doneEvent);
      reply.end();
    },
    body: (ends) => shape.body(ends, deps),
  };
}

function chatBody(ends: readonly SequenceEnd[], deps: FormatDeps): string {
  const choices = deps.plans.map((plan, index) => ({
    index,
    message: {
      role: 'assistant',
      content: plan.text,
      refusal: null,
      annotations: null,
      audio: null,
      function_call: null,
      reasoning: null,
    },
    logprobs: null,
    finish_reason: plan.endsBy,
    stop_reason: plan.stopString ?? null,
    token_ids: deps.ask.returnTokenIds ? tokenIds(deps, index) : null,
    routed_experts: null,
  }));
  const facts = usageFacts(ends, deps);
  return JSON.stringify({
    id: `chatcmpl-${deps.id}`,
    object: 'chat.completion',
    created: deps.createdSeconds,
    model: deps.model,
    choices,
    service_tier: null,
    system_fingerprint: systemFingerprint,
    usage: {
      ...wholeUsage(facts),
      prompt_tokens_details: deps.promptTokensDetails
        ? { cached_tokens: facts.cachedTokens, created_cache_tokens: facts.createdTokens, multimodal_tokens: null }
        : null,
      completion_tokens_details: null,
    },
    prompt_logprobs: null,
    prompt_token_ids: deps.ask.returnTokenIds ? [...(deps.ask.generation.prompts[0] ?? [])] : null,
    prompt_text: null,
    kv_transfer_params: null,
    ec_transfer_params: null,
    metrics: null,
  });
}

function completionsBody(ends: readonly SequenceEnd[], deps: FormatDeps): string {
  const choices = deps.plans.map((plan, index) => ({
    index,
    text: plan.text,
    logprobs: null,
    finish_reason: plan.endsBy,
    stop_reason: plan.stopString ?? null,
    token_ids: deps.ask.returnTokenIds ? tokenIds(deps, index) : null,
    prompt_logprobs: null,
    prompt_token_ids: null,
    routed_experts: null,
  }));
  const facts = usageFacts(ends, deps);
  return JSON.stringify({
    id: `cmpl-${deps.id}`,
    object: 'text_completion',
    created: deps.createdSeconds,
    model: deps.model,
    choices,
    service_tier: null,
    system_fingerprint: systemFingerprint,
    usage: {
      ...wholeUsage(facts),
      prompt_tokens_details: deps.promptTokensDetails
        ? { cached_tokens: facts.cachedTokens, created_cache_tokens: null, multimodal_tokens: null }
        : null,
      completion_tokens_details: null,
    },
    kv_transfer_params: null,
    ec_transfer_params: null,
  });
}

function wholeUsage(facts: { readonly promptTokens: number; readonly outputTokens: number }): object {
  return {
    prompt_tokens: facts.promptTokens,
    total_tokens: facts.promptTokens + facts.outputTokens,
    completion_tokens: facts.outputTokens,
  };
}

function tokenIds(deps: FormatDeps, choice: number): number[] {
  const plan = deps.plans[choice];
  if (plan === undefined) return [];
  return plan.deltas.map((_, index) =>
    plan.endsByEndToken && index === plan.outputTokens - 1 ? endTokenId : plan.output.idAt(index),
  );
}
