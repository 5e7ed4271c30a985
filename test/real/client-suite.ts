/**
 * The official clients, unmodified, pointed at warmlane: streamed and whole answers, tool calls, aborts, errors.
 * What they make of the answers is theirs; the test asks for content and for the clients' own error classes.
 */
import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { promisify } from 'node:util';
import Anthropic from '@anthropic-ai/sdk';
import OpenAI from 'openai';
import { describe, expect, it } from 'vitest';
import { untilAborts, abortsInLog } from './abort-suite.ts';
import { untilIdle, type Bench } from './bench.ts';
import { freshPrompt, newRequestId } from './dialects.ts';
import { modelName, type Engine } from './engine.ts';
import { installed, vllmFiles } from './installed.ts';
import { toolCallAsk } from './tool-call.ts';

const run = promisify(execFile);

export function clientSuite(kind: Engine['kind'], bench: () => Bench): void {
  const openai = () => new OpenAI({ baseURL: `${bench().warmlane.url}/v1`, apiKey: 'none', maxRetries: 0 });
  const anthropic = () => new Anthropic({ baseURL: bench().warmlane.url, apiKey: 'none', maxRetries: 0 });
  const chat = () => ({
    model: modelName,
    messages: [{ role: 'user' as const, content: freshPrompt() }],
    max_tokens: 8,
    temperature: 0,
    // To its limit, whatever the model would have said.
    ignore_eos: true,
    // vLLM's reasoning parser takes all text for reasoning otherwise; llama-server's template ends the thought at once.
    chat_template_kwargs: { enable_thinking: false },
  });

  describe('openai for Node', () => {
    it('gets a whole chat', async () => {
      const answer = await openai().chat.completions.create(chat());
      expect(answer.choices[0]?.message.content).toBeTruthy();
      expect(answer.usage?.completion_tokens).toBe(8);
    });

    it('gets a streamed chat without the usage that it did not ask for', async () => {
      let text = '';
      let usageSeen = false;
      for await (const chunk of await openai().chat.completions.create({ ...chat(), stream: true })) {
        text += chunk.choices[0]?.delta.content ?? '';
        usageSeen ||= chunk.usage !== undefined && chunk.usage !== null;
      }
      expect(text).not.toBe('');
      expect(usageSeen).toBe(false);
    });

    it('gets the usage that it did ask for, once', async () => {
      const usages = [];
      const stream = await openai().chat.completions.create({
        ...chat(),
        stream: true,
        stream_options: { include_usage: true },
      });
      for await (const chunk of stream) if (chunk.usage) usages.push(chunk.usage.completion_tokens);
      expect(usages).toEqual([8]);
    });

    it('gets a tool call, streamed and whole', async () => {
      const ask = toolCallAsk(kind);
      const whole = await openai().chat.completions.create({ ...ask, stream: false });
      const [call] = whole.choices[0]?.message.tool_calls ?? [];
      expect(call).toMatchObject({ type: 'function', function: { name: 'get_weather' } });
      let callArguments = '';
      for await (const chunk of await openai().chat.completions.create({ ...ask, stream: true })) {
        callArguments += chunk.choices[0]?.delta.tool_calls?.[0]?.function?.arguments ?? '';
      }
      expect(JSON.parse(callArguments)).toEqual({ city: 'Paris' });
    });

    it('gets a text completion and the model list', async () => {
      const answer = await openai().completions.create({
        model: modelName,
        prompt: freshPrompt(),
        max_tokens: 4,
        temperature: 0,
      });
      expect(answer.choices[0]?.text).toBeTruthy();
      const models = await openai().models.list();
      expect(models.data.map((model) => model.id)).toEqual([modelName]);
    });

    it('gets a streamed response', async () => {
      const stream = await openai().responses.create({
        model: modelName,
        input: freshPrompt(),
        max_output_tokens: 6,
        temperature: 0,
        stream: true,
      });
      const types: string[] = [];
      for await (const event of stream) types.push(event.type);
      expect(types[0]).toBe('response.created');
      expect(types.filter((type) => type.endsWith('text.delta')).length).toBeGreaterThan(0);
      expect(types.at(-1)).toBe('response.completed');
    });

    it('leaves a stream, and the engine stops', async () => {
      const { engine, warmlane } = bench();
      await untilIdle(engine);
      const seen = abortsInLog(engine);
      const requestId = newRequestId();
      const stream = await openai().chat.completions.create(
        { ...chat(), max_tokens: 500, stream: true },
        { headers: { 'X-Request-Id': requestId } },
      );
      for await (const chunk of stream) if (chunk.choices[0]?.delta.content) break; // breaking off aborts the request
      await untilAborts(engine, seen + 1);
      expect((await warmlane.record(requestId)).outcome).toBe('client_abort');
    });

    it("gets the engine's own error as its own class", async () => {
      const tooLong = { ...chat(), messages: [{ role: 'user' as const, content: 'word '.repeat(3_000) }] };
      const error: unknown = await openai()
        .chat.completions.create(tooLong)
        .catch((reason: unknown) => reason);
      expect(error).toBeInstanceOf(OpenAI.BadRequestError);
      const streamed: unknown = await openai()
        .chat.completions.create({ ...tooLong, stream: true })
        .catch((reason: unknown) => reason);
      expect(streamed).toBeInstanceOf(OpenAI.BadRequestError);
    });
  });

  describe('@anthropic-ai/sdk for Node', () => {
    const message = () => ({
      model: modelName,
      max_tokens: 8,
      temperature: 0,
      // Always the same, since this dialect can't forbid an early end.
      messages: [{ role: 'user' as const, content: 'Write about rivers.' }],
    });

    it('gets a whole message', async () => {
      const answer = await anthropic().messages.create(message());
      expect(answer.content.length).toBeGreaterThan(0);
      expect(answer.usage.output_tokens).toBe(8);
    });

    it('gets a streamed message with its final usage', async () => {
      const deltas: string[] = [];
      const stream = anthropic().messages.stream(message());
      stream.on('streamEvent', (event) => {
        if (event.type === 'content_block_delta') deltas.push(event.delta.type);
      });
      const final = await stream.finalMessage();
      expect(deltas.length).toBeGreaterThan(1);
      expect(final.usage.output_tokens).toBe(8);
      expect(final.stop_reason).toBe('max_tokens');
    });

    it('leaves a stream, and the engine stops', async () => {
      const { engine } = bench();
      await untilIdle(engine);
      const seen = abortsInLog(engine);
      const stream = anthropic().messages.stream({ ...message(), max_tokens: 500 });
      for await (const event of stream) if (event.type === 'content_block_delta') break; // breaking off aborts the request
      await untilAborts(engine, seen + 1);
    });

    it("gets the engine's own error as its own class", async () => {
      const tooLong = { ...message(), messages: [{ role: 'user' as const, content: 'word '.repeat(3_000) }] };
      const error: unknown = await anthropic()
        .messages.create(tooLong)
        .catch((reason: unknown) => reason);
      expect(error).toBeInstanceOf(Anthropic.BadRequestError);
    });
  });

  // The Python clients come with vLLM's environment.
  describe.runIf(installed('vllm'))('openai and anthropic for Python', () => {
    it('get whole and streamed answers', async () => {
      const script = join(import.meta.dirname, 'python-clients.py');
      const { stdout } = await run(vllmFiles.python, [script, bench().warmlane.url, modelName], { timeout: 60_000 });
      expect(JSON.parse(stdout)).toEqual({
        chat: 8,
        stream: 8,
        message: 8,
        messageStream: 8,
        error: 'BadRequestError',
      });
    });
  });
}
