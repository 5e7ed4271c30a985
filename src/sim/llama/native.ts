/**
 * llama-server's own format, for `/completion` and `/infill`: no `[DONE]`,
 * the last event echoes prompt and settings (b10434).
 */
import { jsonText } from '../json-text.ts';
import type { LlamaFormat, LlamaFormatDeps } from './format.ts';
import { paramsJson } from './params.ts';
import { progressJson, timingsJson, type ChoiceRun } from './timings.ts';

export function createNativeFormat(deps: LlamaFormatDeps): LlamaFormat {
  const { ask, plans } = deps;
  const partial = (run: ChoiceRun, shown: string, more: string) =>
    `data: {"index":${run.choice},${shown},"stop":false,"id_slot":-1,"tokens_predicted":${run.tokens},"tokens_evaluated":${run.promptTokens}${more}}\n\n`;
  const timings = (run: ChoiceRun) => `,"timings":${timingsJson(run)}`;

  /** The last event, or the whole answer. */
  function last(run: ChoiceRun, content: string): string {
    const plan = plans[run.choice];
    const stopType = plan?.stopString === undefined ? (plan?.endsBy === 'length' ? 'limit' : 'eos') : 'word';
    const prompt = ask.texts[Math.floor(run.choice / ask.generation.choices)] ?? '';
    return [
      `{"index":${run.choice},"content":${JSON.stringify(content)},"tokens":[],"id_slot":${run.slot},"stop":true,"model":${JSON.stringify(deps.model)}`,
      `"tokens_predicted":${run.tokens},"tokens_evaluated":${run.promptTokens},"generation_settings":${paramsJson(ask.params, 'full')}`,
      `"prompt":${JSON.stringify(prompt)},"has_new_line":false,"truncated":false,"stop_type":"${stopType}","stopping_word":${JSON.stringify(plan?.stopString ?? '')}`,
      // What stays in the slot: all but the last token, which was never computed.
      `"tokens_cached":${run.promptTokens + run.tokens - 1}${timings(run)}}`,
    ].join(',');
  }
  return {
    endMarker: '',
    progress: (run) =>
      partial(
        run,
        '"content":"","tokens":[0]',
        `${ask.timingsPerToken ? timings(run) : ''},"prompt_progress":${progressJson(run)}`,
      ),
    token(run, text) {
      const id = plans[run.choice]?.output.idAt(run.tokens - 1) ?? 0;
      return partial(run, `"content":${jsonText(text)},"tokens":[${id}]`, ask.timingsPerToken ? timings(run) : '');
    },
    ended: (run) => `data: ${last(run, '')}\n\n`,
    body(runs) {
      const answers = runs.map((run) => last(run, plans[run.choice]?.text ?? ''));
      return answers.length === 1 ? (answers[0] ?? '') : `[${answers.join(',')}]`;
    },
  };
}
