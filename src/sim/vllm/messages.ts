/**
 * vLLM's `/v1/messages`: Anthropic's events over its own engine, as seen on version 0.32. Key order differs from llama.cpp's
 * (`index` comes last). `input_tokens` at the end leaves out what came from the cache.
 */
import type { SequenceEnd } from '../sequence.ts';
import { jsonText } from '../json-text.ts';
import { promptTokensOf, usageFacts, type FormatDeps, type VllmFormat } from './format.ts';
import type { VllmRefusal } from './words.ts';

export function createMessagesFormat(deps: FormatDeps): VllmFormat {
  const { ask, plans, reply } = deps;
  const plan = plans[0];
  const id = `chatcmpl-${deps.id}`;
  let begun = false;
  const send = (name: string, data: string) => reply.chunk(`event: ${name}\ndata: ${data}\n\n`);
  const stopReason = () => {
    if (plan?.stopString !== undefined) return 'stop_sequence';
    return plan?.endsBy === 'length' ? 'max_tokens' : 'end_turn';
  };
  return {
    token(_choice, index) {
      if (!begun) {
        begun = true;
        const message = {
          id,
          type: 'message',
          role: 'assistant',
          content: [],
          model: deps.model,
          stop_reason: null,
          stop_sequence: null,
        };
        send(
          'message_start',
          JSON.stringify({
            type: 'message_start',
            message: { ...message, usage: { input_tokens: promptTokensOf(ask), output_tokens: 0 } },
          }),
        );
        send(
          'content_block_start',
          '{"type":"content_block_start","content_block":{"type":"text","text":""},"index":0}',
        );
      }
      const text = plan?.deltas[index] ?? '';
      if (text !== '')
        send(
          'content_block_delta',
          `{"type":"content_block_delta","delta":{"type":"text_delta","text":${jsonText(text)}},"index":0}`,
        );
    },
    finish(ends) {
      send('content_block_stop', '{"type":"content_block_stop","index":0}');
      const delta = { stop_reason: stopReason(), stop_sequence: plan?.stopString ?? null };
      send('message_delta', JSON.stringify({ type: 'message_delta', delta, usage: usageOf(ends, deps) }));
      send('message_stop', '{"type":"message_stop"}');
      reply.end();
    },
    fail(refusal) {
      send('error', JSON.stringify({ type: 'error', error: { type: 'internal_error', message: refusal.message } }));
      reply.end();
    },
    body(ends) {
      return JSON.stringify({
        id,
        type: 'message',
        role: 'assistant',
        content: [{ type: 'text', text: plan?.text ?? '' }],
        model: deps.model,
        stop_reason: stopReason(),
        stop_sequence: plan?.stopString ?? null,
        usage: usageOf(ends, deps),
      });
    },
  };
}

/** Anthropic's shape with vLLM's type names. */
export function messagesErrorBody(refusal: VllmRefusal): string {
  return JSON.stringify({ type: 'error', error: { type: refusal.type, message: refusal.message } });
}

function usageOf(ends: readonly SequenceEnd[], deps: FormatDeps): object {
  const facts = usageFacts(ends, deps);
  if (!deps.promptTokensDetails) return { input_tokens: facts.promptTokens, output_tokens: facts.outputTokens };
  return {
    input_tokens: facts.promptTokens - facts.cachedTokens,
    output_tokens: facts.outputTokens,
    cache_creation_input_tokens: 0,
    cache_read_input_tokens: facts.cachedTokens,
  };
}
