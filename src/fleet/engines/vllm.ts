/**
 * Facts of vLLM: version, and the shape of its KV cache from the labels of `vllm:cache_config_info`.
 * Whether it reports cached tokens can't be asked (`/server_info` answers in dev mode only): answers show it.
 */
import { noPrefixCaching } from '../advice.ts';
import { bodyOf, jsonOf, known, type Ask, type EngineReading, type ModelList } from '../facts.ts';
import { textOf } from '../json-fields.ts';
import { labelsOf } from '../metric-labels.ts';

export async function readVllm(ask: Ask, models: ModelList | undefined): Promise<EngineReading> {
  const [version, metrics] = await Promise.all([ask('/version'), ask('/metrics')]);
  // One series per data-parallel engine, each with a cache of its own and all of one shape.
  const caches = labelsOf(bodyOf(metrics) ?? '', 'vllm:cache_config_info');
  const blockTokens = countIn(caches[0]?.get('block_size'));
  const blocks = caches.map((labels) => countIn(labels.get('num_gpu_blocks')));
  const kvTokens = blocks.reduce<number | undefined>(
    (sum, count) =>
      sum === undefined || count === undefined || blockTokens === undefined ? undefined : sum + count * blockTokens,
    0,
  );
  return {
    facts: known({
      version: textOf(jsonOf(version), 'version'),
      models: models?.ids,
      contextTokens: models?.contextTokens,
      blockTokens,
      kvTokens: kvTokens === 0 ? undefined : kvTokens,
      advice: caches[0]?.get('enable_prefix_caching') === 'False' ? [noPrefixCaching] : [],
    }),
    decisive: [],
  };
}

/** vLLM by its open routes, when a missing key hides its list of models. */
export async function looksLikeVllm(ask: Ask): Promise<boolean> {
  if (textOf(jsonOf(await ask('/version')), 'version') === undefined) return false;
  return (bodyOf(await ask('/metrics')) ?? '').includes('vllm:');
}

/** A label is text, and `None` where the engine has no number. */
function countIn(label: string | undefined): number | undefined {
  return label !== undefined && /^[1-9]\d{0,14}$/.test(label) ? Number(label) : undefined;
}
