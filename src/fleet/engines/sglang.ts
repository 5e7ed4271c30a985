/** Facts of SGLang: `/server_info` (`/get_server_info` in older versions) holds its start-up arguments. */
import { noCachedTokensSglang } from '../advice.ts';
import { jsonOf, known, type Ask, type EngineReading, type ModelList } from '../facts.ts';
import { countOf, flagOf, textOf } from '../json-fields.ts';

export async function readSglang(ask: Ask, models: ModelList | undefined): Promise<EngineReading> {
  const info = jsonOf(await ask('/server_info')) ?? jsonOf(await ask('/get_server_info'));
  const served = textOf(info, 'served_model_name');
  return {
    facts: known({
      version: textOf(info, 'version'),
      models: models?.ids ?? (served === undefined ? undefined : [served]),
      contextTokens: models?.contextTokens ?? countOf(info, 'context_length'),
      blockTokens: countOf(info, 'page_size'),
      kvTokens: countOf(info, 'max_total_num_tokens'),
      maxSequences: countOf(info, 'max_running_requests'),
      advice: flagOf(info, 'enable_cache_report') === false ? [noCachedTokensSglang] : [],
    }),
    decisive: [],
  };
}

export async function looksLikeSglang(ask: Ask): Promise<boolean> {
  const info = jsonOf(await ask('/get_model_info'));
  return textOf(info, 'model_path') !== undefined && flagOf(info, 'is_generation') !== undefined;
}
