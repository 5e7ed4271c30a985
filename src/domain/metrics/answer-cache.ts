/** Metrics of the exact-answer cache; there only where it is enabled. What it answers is no engine's work and counted nowhere else. */
import type { MetricSpec } from './metric-spec.ts';

export const answerCacheMetrics = {
  'warmlane.answer_cache.hits': {
    kind: 'counter',
    unit: '{request}',
    help: 'Requests answered with the bytes of an earlier answer; no backend was asked.',
    labels: [],
  },
  'warmlane.answer_cache.misses': {
    kind: 'counter',
    unit: '{request}',
    help: 'Requests that might have been, and went to a backend. Requests that have nothing to do with the cache are not among them.',
    labels: [],
  },
  'warmlane.answer_cache.stored': {
    kind: 'counter',
    unit: '{request}',
    help: 'Answers that were kept.',
    labels: [],
  },
  'warmlane.answer_cache.evictions': {
    kind: 'counter',
    unit: '{request}',
    help: 'Kept answers that made room for others before their time was over.',
    labels: [],
  },
  'warmlane.answer_cache.replayed': {
    kind: 'counter',
    unit: 'By',
    help: 'Bytes of the answers that were given again.',
    labels: [],
  },
  'warmlane.answer_cache.saved_prompt_tokens': {
    kind: 'counter',
    unit: '{token}',
    help: 'Prompt tokens of answers that were given again, where the engine had told them.',
    labels: [],
  },
  'warmlane.answer_cache.saved_output_tokens': {
    kind: 'counter',
    unit: '{token}',
    help: 'Output tokens of the same.',
    labels: [],
  },
  'warmlane.answer_cache.entries': {
    kind: 'gauge',
    unit: '{request}',
    help: 'Answers kept now; those whose time is over count until they are asked for or make room.',
    labels: [],
    additive: true,
  },
  'warmlane.answer_cache.size': {
    kind: 'gauge',
    unit: 'By',
    help: 'Memory of the kept answers. Bounded by answerCache.maxBytes.',
    labels: [],
    additive: true,
  },
  'warmlane.answer_cache.recording': {
    kind: 'gauge',
    unit: 'By',
    help: 'Memory of answers under way that may be kept. Bounded alike.',
    labels: [],
    additive: true,
  },
} as const satisfies Record<string, MetricSpec>;
