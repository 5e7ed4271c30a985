/** Facts of Hugging Face's text-generation-inference: all in `/info`. */
import { jsonOf, known, type Ask, type EngineReading, type ModelList } from '../facts.ts';
import { countOf, textOf } from '../json-fields.ts';

export async function readTgi(ask: Ask, models: ModelList | undefined): Promise<EngineReading> {
  const info = jsonOf(await ask('/info'));
  const model = textOf(info, 'model_id');
  return {
    facts: known({
      version: textOf(info, 'version'),
      models: models?.ids ?? (model === undefined ? undefined : [model]),
      contextTokens: countOf(info, 'max_total_tokens'),
      maxSequences: countOf(info, 'max_concurrent_requests'),
    }),
    decisive: [],
  };
}

export async function looksLikeTgi(ask: Ask): Promise<boolean> {
  const info = jsonOf(await ask('/info'));
  return textOf(info, 'model_id') !== undefined && countOf(info, 'max_concurrent_requests') !== undefined;
}
