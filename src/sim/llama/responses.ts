/**
 * llama-server's `/v1/responses`: five events in the first token's chunk, four in the last, no numbers, no `[DONE]`.
 * The status is `completed` even when the answer was cut (b10434).
 */
import { jsonText } from '../json-text.ts';
import type { LlamaFormat, LlamaFormatDeps } from './format.ts';
import { progressJson, timingsJson, type ChoiceRun } from './timings.ts';

export function createResponsesFormat(deps: LlamaFormatDeps): LlamaFormat {
  const { ask, plans } = deps;
  const id = `resp_${deps.nextId()}`;
  const itemId = `msg_${deps.nextId()}`;
  const text = JSON.stringify(plans[0]?.text ?? '');
  const model = JSON.stringify(deps.model);
  let created = false;
  let begun = false;
  const event = (type: string, fields: string) => `event: ${type}\ndata: {"type":"${type}",${fields}}\n\n`;
  const timings = (run: ChoiceRun) => `,"timings":${timingsJson(run)}`;
  const perToken = (run: ChoiceRun) => (ask.timingsPerToken ? timings(run) : '');
  const state = `"response":{"id":"${id}","object":"response","status":"in_progress"}`;
  const content = `[{"type":"output_text","annotations":[],"logprobs":[],"text":${text}}]`;
  const item = `{"type":"message","status":"completed","id":"${itemId}","content":${content},"role":"assistant"}`;
  const usage = (run: ChoiceRun) =>
    `{"input_tokens":${run.promptTokens},"output_tokens":${run.tokens},"total_tokens":${run.promptTokens + run.tokens},"input_tokens_details":{"cached_tokens":${run.cachedTokens}}}`;

  function create(): string {
    if (created) return '';
    created = true;
    return event('response.created', state);
  }
  function begin(): string {
    if (begun) return '';
    begun = true;
    const known = created;
    return (
      create() +
      (known ? '' : event('response.in_progress', state)) +
      event(
        'response.output_item.added',
        `"item":{"content":[],"id":"${itemId}","role":"assistant","status":"in_progress","type":"message"}`,
      ) +
      event('response.content_part.added', `"item_id":"${itemId}","part":{"type":"output_text","text":""}`)
    );
  }
  return {
    endMarker: '',
    progress: (run) =>
      create() + event('response.in_progress', `${state}${perToken(run)},"prompt_progress":${progressJson(run)}`),
    token: (run, shown) =>
      begin() + event('response.output_text.delta', `"item_id":"${itemId}","delta":${jsonText(shown)}${perToken(run)}`),
    ended(run) {
      const part = `{"type":"output_text","annotations":[],"logprobs":[],"text":${text}}`;
      const response = `{"id":"${id}","object":"response","created_at":${deps.nowSeconds()},"status":"completed","model":${model},"output":[${item}],"usage":${usage(run)}}`;
      return (
        begin() +
        event('response.output_text.done', `"item_id":"${itemId}","text":${text}`) +
        event('response.content_part.done', `"item_id":"${itemId}","part":${part}`) +
        event('response.output_item.done', `"item":${item}`) +
        event('response.completed', `"response":${response}${timings(run)}`)
      );
    },
    body([run]) {
      const seconds = deps.nowSeconds();
      const output = `[{"content":${content},"id":"${itemId}","role":"assistant","status":"completed","type":"message"}]`;
      return `{"completed_at":${seconds},"created_at":${seconds},"id":"${id}","model":${model},"object":"response","output":${output},"status":"completed","usage":${run === undefined ? 'null' : usage(run)}}`;
    },
  };
}
