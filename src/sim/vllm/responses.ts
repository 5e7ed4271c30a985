/**
 * vLLM's `/v1/responses`: numbered events, two of them before anything is computed, no `[DONE]`, usage in the last.
 * An answer cut by its limit still ends with `response.completed`; its status says `incomplete`. As seen on version 0.32.
 */
import type { SequenceEnd } from '../sequence.ts';
import { readNumber } from '../json-fields.ts';
import { jsonText } from '../json-text.ts';
import { usageFacts, type FormatDeps, type VllmFormat } from './format.ts';

export function createResponsesFormat(deps: FormatDeps): VllmFormat {
  const { plans, reply } = deps;
  const plan = plans[0];
  const itemId = `msg_${deps.id}`;
  let number = 0;
  let begun = false;
  const send = (type: string, fields: string) => {
    reply.chunk(`event: ${type}\ndata: {${fields},"sequence_number":${number},"type":"${type}"}\n\n`);
    number += 1;
  };
  const part = () => ({ annotations: [], text: plan?.text ?? '', type: 'output_text', logprobs: null });
  const item = () => ({
    id: itemId,
    content: [part()],
    role: 'assistant',
    status: 'completed',
    type: 'message',
    phase: null,
  });

  function finished(ends: readonly SequenceEnd[]): string {
    const facts = usageFacts(ends, deps);
    const isCut = plan?.endsBy === 'length';
    return responseJson(deps, {
      incompleteDetails: isCut ? { reason: 'max_output_tokens' } : null,
      output: [item()],
      status: isCut ? 'incomplete' : 'completed',
      usage: {
        input_tokens: facts.promptTokens,
        input_tokens_details: {
          cached_tokens: facts.cachedTokens,
          cache_write_tokens: 0,
          input_tokens_per_turn: [],
          cached_tokens_per_turn: [],
        },
        output_tokens: facts.outputTokens,
        output_tokens_details: {
          reasoning_tokens: 0,
          tool_output_tokens: 0,
          output_tokens_per_turn: [],
          tool_output_tokens_per_turn: [],
        },
        total_tokens: facts.promptTokens + facts.outputTokens,
      },
    });
  }
  return {
    opened() {
      const response = responseJson(deps, { incompleteDetails: null, output: [], status: 'in_progress', usage: null });
      send('response.created', `"response":${response}`);
      send('response.in_progress', `"response":${response}`);
    },
    token(_choice, index) {
      if (!begun) {
        begun = true;
        const empty = {
          id: itemId,
          content: [],
          role: 'assistant',
          status: 'in_progress',
          type: 'message',
          phase: null,
        };
        send('response.output_item.added', `"item":${JSON.stringify(empty)},"output_index":0`);
        const emptyPart = { annotations: [], text: '', type: 'output_text', logprobs: [] };
        send(
          'response.content_part.added',
          `"content_index":0,"item_id":"${itemId}","output_index":0,"part":${JSON.stringify(emptyPart)}`,
        );
      }
      const text = plan?.deltas[index] ?? '';
      if (text !== '')
        send(
          'response.output_text.delta',
          `"content_index":0,"delta":${jsonText(text)},"item_id":"${itemId}","logprobs":[],"output_index":0`,
        );
    },
    finish(ends) {
      const text = JSON.stringify(plan?.text ?? '');
      const before = `"content_index":0,"item_id":"${itemId}"`;
      reply.chunk(
        `event: response.output_text.done\ndata: {${before},"logprobs":[],"output_index":0,"sequence_number":${number},"text":${text},"type":"response.output_text.done"}\n\n`,
      );
      number += 1;
      send('response.content_part.done', `${before},"output_index":0,"part":${JSON.stringify(part())}`);
      send('response.output_item.done', `"item":${JSON.stringify(item())},"output_index":0`);
      send('response.completed', `"response":${finished(ends)}`);
      reply.end();
    },
    /** There is no error event in this format: the stream just ends. */
    fail: () => reply.end(),
    body: finished,
  };
}

interface ResponseState {
  readonly incompleteDetails: object | null;
  readonly output: readonly object[];
  readonly status: string;
  readonly usage: object | null;
}

/** JSON of the response object; Python writes whole floats with `.0`. */
function responseJson(deps: FormatDeps, state: ResponseState): string {
  const json = JSON.stringify(responseObject(deps, state));
  return json.replace(/"(temperature|top_p|presence_penalty|frequency_penalty)":(-?\d+)(?=,)/g, '"$1":$2.0');
}

function responseObject(deps: FormatDeps, state: ResponseState): object {
  const { body } = deps.ask;
  return {
    id: `resp_${deps.id}`,
    created_at: deps.createdSeconds,
    incomplete_details: state.incompleteDetails,
    instructions: body['instructions'] ?? null,
    metadata: body['metadata'] ?? null,
    model: deps.model,
    object: 'response',
    output: state.output,
    parallel_tool_calls: true,
    temperature: readNumber(body, 'temperature') ?? 1,
    tool_choice: body['tool_choice'] ?? 'none',
    tools: body['tools'] ?? [],
    top_p: readNumber(body, 'top_p') ?? 1,
    background: false,
    max_output_tokens: deps.ask.maxTokens,
    max_tool_calls: null,
    previous_response_id: null,
    prompt: null,
    reasoning: null,
    service_tier: body['service_tier'] ?? 'auto',
    status: state.status,
    text: null,
    top_logprobs: null,
    truncation: 'disabled',
    usage: state.usage,
    user: body['user'] ?? null,
    presence_penalty: 0,
    frequency_penalty: 0,
    kv_transfer_params: null,
    ec_transfer_params: null,
    input_messages: null,
    output_messages: null,
  };
}
