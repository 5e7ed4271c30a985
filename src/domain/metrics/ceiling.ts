/**
 * Metrics of the ceiling: how near each backend's traffic comes to what its cards allow, as far as it came through here,
 * and how fast it computes prompts. Gauges of the last minute; no value where too little is known. Values only.
 */
import type { MetricSpec } from './metric-spec.ts';

const perBackend = ['backend'] as const;

const gauge = (unit: MetricSpec['unit'], help: string) =>
  ({ kind: 'gauge', unit, help, labels: perBackend }) as const satisfies MetricSpec;

export const ceilingMetrics = {
  'warmlane.backend.mfu': gauge(
    '1',
    'Model FLOPs utilisation over the last minute: uncached prefill and decode FLOPs ÷ the cards’ dense peak. Own traffic only. Above 1: the config names another card or model.',
  ),
  'warmlane.backend.mfu_without_cache': gauge(
    '1',
    'The same with the FLOPs that the prefix cache saved added: what it would be had nothing been cached.',
  ),
  'warmlane.backend.mbu': gauge(
    '1',
    'Memory bandwidth utilisation while streams decoded, over those that ended in the last minute: weights and KV read per step ÷ peak. Own traffic only.',
  ),
  'warmlane.backend.ceiling_share': gauge(
    '1',
    'Least time that decode steps could have taken ÷ the time they took, over streams that ended in the last minute.',
  ),
  'warmlane.backend.flops': gauge('{flop}/s', 'Uncached prefill and decode FLOPs in a second, over the last minute.'),
  'warmlane.backend.flops_saved': gauge(
    '{flop}/s',
    'FLOPs in a second that the prefix cache saved, over the last minute.',
  ),
  'warmlane.backend.decode.concurrency': gauge(
    '{sequence}',
    'Mean number of own sequences that decoded at once, over the time of the last minute in which any did.',
  ),
  'warmlane.backend.decode.busy': gauge('1', 'Share of the last minute in which an own stream decoded.'),
  'warmlane.backend.prefill.rate': gauge(
    '{token}/s',
    'Prompt tokens computed in a second, from how the time to the first token rises with uncached prompt tokens.',
  ),
  'warmlane.backend.prefill.fixed': gauge('s', 'What even the shortest prompt takes to its first token.'),
  'warmlane.backend.prefill.r_squared': gauge('1', 'Share of the variance that this line explains.'),
  'warmlane.backend.prefill.output_token_weight': gauge(
    '{token}',
    'Prompt tokens that take as long as one output token of a stream: TPOT × prefill rate.',
  ),
  'warmlane.backend.engine_mfu': gauge(
    '1',
    'MFU by the engine’s own estimate, all its traffic, over the last minute (vLLM with --enable-mfu-metrics).',
  ),
  'warmlane.backend.engine_mbu': gauge(
    '1',
    'Bandwidth utilisation by the engine’s own estimate, over the last minute.',
  ),
  'warmlane.backend.ceiling_problems': gauge(
    '{problem}',
    'Figures that cannot be true, so that the config must be wrong: see /ceiling.',
  ),
} as const satisfies Record<string, MetricSpec>;
