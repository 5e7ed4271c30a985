/** Registers the exact-answer cache's figures with the meter. Holds nothing: all is read at each collection. */
import type { AnswerCacheFigures } from '../../domain/answer-cache-figures.ts';
import type { CounterName, GaugeName } from '../../domain/catalogue.ts';
import type { Meter } from './meter.ts';

const counters = [
  ['warmlane.answer_cache.hits', 'hits'],
  ['warmlane.answer_cache.misses', 'misses'],
  ['warmlane.answer_cache.stored', 'stored'],
  ['warmlane.answer_cache.evictions', 'evicted'],
  ['warmlane.answer_cache.replayed', 'replayedBytes'],
  ['warmlane.answer_cache.saved_prompt_tokens', 'savedPromptTokens'],
  ['warmlane.answer_cache.saved_output_tokens', 'savedOutputTokens'],
] as const satisfies readonly (readonly [CounterName, keyof AnswerCacheFigures])[];

const gauges = [
  ['warmlane.answer_cache.entries', 'entries'],
  ['warmlane.answer_cache.size', 'bytes'],
  ['warmlane.answer_cache.recording', 'recordingBytes'],
] as const satisfies readonly (readonly [GaugeName, keyof AnswerCacheFigures])[];

export function registerAnswerCacheMetrics(
  meter: Pick<Meter, 'counterFrom' | 'gauge'>,
  figures: () => AnswerCacheFigures,
): void {
  for (const [name, key] of counters) meter.counterFrom(name, () => [{ labels: {}, value: figures()[key] }]);
  for (const [name, key] of gauges) meter.gauge(name, () => [{ labels: {}, value: figures()[key] }]);
}
