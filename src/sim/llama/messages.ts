/**
 * llama-server's `/v1/messages`: Anthropic's events, three of them in the first token's chunk,
 * three in the last (b10434).
 */
import { jsonText } from '../json-text.ts';
import type { LlamaFormat, LlamaFormatDeps } from './format.ts';
import type { ChoiceRun } from './timings.ts';

export function createMessagesFormat(deps: LlamaFormatDeps): LlamaFormat {
  const plan = deps.plans[0];
  const id = `chatcmpl-${deps.nextId()}`;
  const model = JSON.stringify(deps.model);
  let begun = false;
  const event = (name: string, data: string) => `event: ${name}\ndata: ${data}\n\n`;
  // A stop string ends the turn like any other end here; only `stop_sequence` tells.
  const stopReason = plan?.endsBy === 'length' ? 'max_tokens' : 'end_turn';
  const stopSequence = plan?.stopString === undefined ? 'null' : JSON.stringify(plan.stopString);

  function begin(run: ChoiceRun): string {
    if (begun) return '';
    begun = true;
    const usage = `{"cache_read_input_tokens":${run.cachedTokens},"input_tokens":${run.promptTokens - run.cachedTokens},"output_tokens":0}`;
    const message = `{"id":"${id}","type":"message","role":"assistant","content":[],"model":${model},"stop_reason":null,"stop_sequence":null,"usage":${usage}}`;
    return (
      event('message_start', `{"type":"message_start","message":${message}}`) +
      event('content_block_start', '{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}')
    );
  }
  return {
    endMarker: '',
    progress: () => '',
    token: (run, text) =>
      begin(run) +
      event(
        'content_block_delta',
        `{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":${jsonText(text)}}}`,
      ),
    ended: (run) =>
      begin(run) +
      event('content_block_stop', '{"type":"content_block_stop","index":0}') +
      event(
        'message_delta',
        `{"type":"message_delta","delta":{"stop_reason":"${stopReason}","stop_sequence":${stopSequence}},"usage":{"output_tokens":${run.tokens}}}`,
      ) +
      event('message_stop', '{"type":"message_stop"}'),
    body([run]) {
      const usage = `{"cache_read_input_tokens":${run?.cachedTokens ?? 0},"input_tokens":${(run?.promptTokens ?? 0) - (run?.cachedTokens ?? 0)},"output_tokens":${run?.tokens ?? 0}}`;
      const content = `[{"type":"text","text":${JSON.stringify(plan?.text ?? '')}}]`;
      return `{"id":"${id}","type":"message","role":"assistant","content":${content},"model":${model},"stop_reason":"${stopReason}","stop_sequence":${stopSequence},"usage":${usage}}`;
    },
  };
}
