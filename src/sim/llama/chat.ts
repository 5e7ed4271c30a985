/**
 * llama-server's OpenAI formats, chat completions and text completions, streamed and whole, as seen on b10434.
 * Key order differs from vLLM's, and role and first token share a chunk.
 */
import { jsonText } from '../json-text.ts';
import { endsByStopString, usageOf, type LlamaFormat, type LlamaFormatDeps } from './format.ts';
import { progressJson, timingsJson, type ChoiceRun } from './timings.ts';
import { buildInfo } from './words.ts';

const doneEvent = 'data: [DONE]\n\n';

export function createChatFormat(deps: LlamaFormatDeps): LlamaFormat {
  const { ask, plans } = deps;
  const id = `chatcmpl-${deps.nextId()}`;
  const roleSent = new Set<number>();
  const tail = `"id":"${id}","model":${JSON.stringify(deps.model)},"system_fingerprint":"${buildInfo}","object":"chat.completion.chunk"`;
  const event = (choices: string, more = '') =>
    `data: {"choices":[${choices}],"created":${deps.nowSeconds()},${tail}${more}}\n\n`;
  const choice = (run: ChoiceRun, delta: string, finish = 'null') =>
    `{"finish_reason":${finish},"index":${run.choice},"delta":${delta}}`;
  const role = (run: ChoiceRun, more = '') => event(choice(run, '{"role":"assistant","content":null}'), more);
  const timings = (run: ChoiceRun) => `,"timings":${timingsJson(run)}`;
  const firstRole = (run: ChoiceRun) => {
    if (roleSent.has(run.choice)) return '';
    roleSent.add(run.choice);
    return role(run);
  };
  return {
    endMarker: doneEvent,
    progress: (run) => role(run, `${ask.timingsPerToken ? timings(run) : ''},"prompt_progress":${progressJson(run)}`),
    token(run, text) {
      const withTimings = ask.timingsPerToken || endsByStopString(plans[run.choice], run);
      return firstRole(run) + event(choice(run, `{"content":${jsonText(text)}}`), withTimings ? timings(run) : '');
    },
    ended(run) {
      const finish = event(
        choice(run, '{}', `"${plans[run.choice]?.endsBy ?? 'stop'}"`),
        ask.includeUsage ? '' : timings(run),
      );
      const usage = ask.includeUsage ? event('', `,"usage":${usageOf(run)}${timings(run)}`) : '';
      return firstRole(run) + finish + usage;
    },
    body(runs) {
      const choices = plans.map(
        (plan, index) =>
          `{"finish_reason":"${plan.endsBy}","index":${index},"message":{"role":"assistant","content":${JSON.stringify(plan.text)}}}`,
      );
      return `{"choices":[${choices.join(',')}],"created":${deps.nowSeconds()},"model":${JSON.stringify(deps.model)},"system_fingerprint":"${buildInfo}","object":"chat.completion",${countsOf(runs, id)}}`;
    },
  };
}

export function createCompletionsFormat(deps: LlamaFormatDeps): LlamaFormat {
  const { ask, plans } = deps;
  const id = `chatcmpl-${deps.nextId()}`;
  const head = () =>
    `"created":${deps.nowSeconds()},"model":${JSON.stringify(deps.model)},"system_fingerprint":"${buildInfo}","object":"text_completion"`;
  const choice = (index: number, text: string, finish: string) =>
    `{"text":${text},"index":${index},"logprobs":null,"finish_reason":${finish}}`;
  const timings = (run: ChoiceRun) => `,"timings":${timingsJson(run)}`;
  const event = (run: ChoiceRun, text: string, more: string) =>
    `data: {"choices":[${choice(run.choice, text, 'null')}],${head()},"id":"${id}"${more}}\n\n`;
  return {
    endMarker: doneEvent,
    progress: (run) =>
      event(run, '""', `${ask.timingsPerToken ? timings(run) : ''},"prompt_progress":${progressJson(run)}`),
    token(run, text) {
      const withTimings = ask.timingsPerToken || endsByStopString(plans[run.choice], run);
      return event(run, jsonText(text), withTimings ? timings(run) : '');
    },
    ended: (run) =>
      `data: {"choices":[${choice(run.choice, '""', `"${plans[run.choice]?.endsBy ?? 'stop'}"`)}],${head()},"usage":${usageOf(run)},"id":"${id}"${timings(run)}}\n\n`,
    body(runs) {
      const choices = plans.map((plan, index) => choice(index, JSON.stringify(plan.text), `"${plan.endsBy}"`));
      return `{"choices":[${choices.join(',')}],${head()},${countsOf(runs, id)}}`;
    },
  };
}

/** Of several choices or prompts, a whole answer counts the first alone. */
function countsOf(runs: readonly ChoiceRun[], id: string): string {
  const [first] = runs;
  return first === undefined
    ? `"id":"${id}"`
    : `"usage":${usageOf(first)},"id":"${id}","timings":${timingsJson(first)}`;
}
