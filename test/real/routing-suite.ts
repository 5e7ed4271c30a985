/**
 * Conversations with a real model through warmlane, and the three accounts of what came from the cache: what warmlane
 * predicted when it sent a prompt, what the answer told, what the engine counted. And what vLLM's cache allows a prediction
 * to be. The comparison of policies on several engines is in `routing.test.ts`.
 */
import { expect, it } from 'vitest';
import { untilIdle, type Bench } from './bench.ts';
import { readCounters, vllmCounterNames } from './counters.ts';
import { freshPrompt, newRequestId, withId } from './dialects.ts';
import { modelName } from './engine.ts';
import { withWarmlane } from './findings-suite.ts';
import { ask } from './raw-client.ts';
import { known, sum } from './reading.ts';
import { textOf } from './stream-events.ts';
import type { Warmlane, WireRecord } from './warmlane.ts';

export interface Conversations {
  readonly users: number;
  readonly turns: number;
  /** Told at the beginning of every conversation of a user. */
  readonly system: (user: number) => string;
  readonly answerTokens: number;
}

/** About 20 tokens. */
const matter = 'Between the stones and the river there is a path, and somebody walks there in the evening. ';

/** Every user asks turn after turn, all of them at once. @returns the records of all answers, each of them whole */
export async function converse(warmlane: Warmlane, plan: Conversations): Promise<readonly WireRecord[]> {
  const users = Array.from({ length: plan.users }, async (_, user) => {
    const messages = [{ role: 'system', content: plan.system(user) }];
    const ids: string[] = [];
    for (let turn = 0; turn < plan.turns; turn += 1) {
      messages.push({ role: 'user', content: freshPrompt(`Question ${turn}: ${matter.repeat(3)}`) });
      const requestId = newRequestId();
      const answer = await ask(warmlane.url, withId(chatOf(messages, plan.answerTokens), requestId));
      expect(answer).toMatchObject({ status: 200, complete: true });
      messages.push({ role: 'assistant', content: textOf(answer) });
      ids.push(requestId);
    }
    return ids;
  });
  const ids = (await Promise.all(users)).flat();
  return Promise.all(ids.map((id) => warmlane.record(id)));
}

/** All in tokens, over all of the answers; `bias` and `error` as shares of the prompts. */
export interface Hits {
  readonly prompt: number;
  readonly reusable: number;
  readonly predicted: number;
  readonly delivered: number;
  readonly bias: number;
  readonly error: number;
}

/** @throws where an answer did not tell, or a prediction is missing */
export function hitsOf(records: readonly WireRecord[]): Hits {
  const told = records.map(({ requestId, tokens, routing }) => ({
    prompt: known(tokens.prompt, `prompt tokens of ${requestId}`).value,
    cached: known(tokens.cached, `cached tokens of ${requestId}`).value,
    ...known(routing, `routing of ${requestId}`),
  }));
  const prompt = sum(told.map((one) => one.prompt));
  const delivered = sum(told.map(({ cached }) => cached));
  const predicted = sum(told.map(({ predictedTokens }) => predictedTokens));
  return {
    ...{ prompt, predicted, delivered, bias: (predicted - delivered) / prompt },
    reusable: sum(told.map(({ reusableTokens }) => reusableTokens)),
    error: sum(told.map(({ predictedTokens, cached }) => Math.abs(predictedTokens - cached))) / prompt,
  };
}

function chatOf(messages: readonly object[], maxTokens: number) {
  return {
    path: '/v1/chat/completions',
    body: {
      ...{ model: modelName, messages: [...messages], temperature: 0, stream: true },
      ...{ max_tokens: maxTokens, ignore_eos: true },
    },
  };
}

/** vLLM's cache as this engine was started: full blocks, found by all that comes before them. */
export function vllmRoutingSuite(bench: () => Bench, blockTokens: number): void {
  it('routing: hits are full blocks and never the last token; answers, records and counters agree to the token', async () => {
    await untilIdle(bench().engine);
    const lookups = {
      ...vllmCounterNames,
      promptComputed: 'vllm:prefix_cache_queries_total',
      promptCached: 'vllm:prefix_cache_hits_total',
    };
    const { url } = bench().engine;
    const before = { usual: await bench().engine.counters(), lookups: await readCounters(url, lookups) };
    await withWarmlane(url, async (warmlane) => {
      const rules = freshPrompt('A rule about stones and rivers, and about what is to be said of them. '.repeat(20));
      const talks = await converse(warmlane, { users: 2, turns: 4, system: () => rules, answerTokens: 4 });
      const repeated = await repeatWhole(warmlane, blockTokens);
      const records = [...talks, ...repeated];
      const hits = hitsOf(records);
      const after = { usual: await untilIdle(bench().engine), lookups: await readCounters(url, lookups) };

      expect(after.usual.promptCached - before.usual.promptCached).toBe(hits.delivered);
      expect(after.lookups.promptCached - before.lookups.promptCached).toBe(hits.delivered);
      expect(after.lookups.promptComputed - before.lookups.promptComputed).toBe(hits.prompt);
      for (const { tokens, routing } of records) {
        const prompt = known(tokens.prompt, 'prompt tokens').value;
        const cached = known(tokens.cached, 'cached tokens').value;
        const { predictedTokens, promptTokens } = known(routing, 'routing');
        expect(cached % blockTokens).toBe(0);
        expect(cached).toBeLessThan(prompt);
        expect(predictedTokens % blockTokens).toBe(0);
        expect(predictedTokens).toBeLessThan(promptTokens);
      }
      expect(hits.delivered / hits.prompt).toBeGreaterThan(0.5);
      // Two blocks of a prompt of some 400 tokens, at worst, while bytes per token are being learnt.
      expect(Math.abs(hits.bias)).toBeLessThan(0.1);
      expect(hits.error).toBeLessThan(0.15);
    });
  });
}

/** A prompt that fills its last block, asked again as it is: the last block must be computed once more. */
async function repeatWhole(warmlane: Warmlane, blockTokens: number): Promise<readonly WireRecord[]> {
  const records: WireRecord[] = [];
  const send = async (text: string) => {
    const requestId = newRequestId();
    const body = { model: modelName, prompt: text, max_tokens: 2, temperature: 0, stream: true };
    expect(await ask(warmlane.url, withId({ path: '/v1/completions', body }, requestId))).toMatchObject({
      status: 200,
    });
    const record = await warmlane.record(requestId);
    records.push(record);
    return known(record.tokens.prompt, 'prompt tokens').value;
  };
  let text = freshPrompt('stone '.repeat(100));
  const short = await send(text);
  text += ' stone'.repeat((blockTokens - (short % blockTokens)) % blockTokens);
  const full = await send(text);
  await send(text);
  expect(full % blockTokens).toBe(0);
  expect(records.at(-1)?.tokens.cached?.value).toBe(full - blockTokens);
  return records;
}
