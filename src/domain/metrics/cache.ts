/**
 * Metrics of prefix caches and of routing by them. Tokens of one set of answers, those that told their cached tokens and
 * whose prompt was known to routing: any two kinds of them can be divided. Values only.
 */
import type { MetricSpec } from './metric-spec.ts';

const perBackendAndModel = ['backend', 'model'] as const;
const lastMinutes = 'Over the answers of the last five minutes; no value without any that told.';

export const cacheMetrics = {
  'warmlane.cache.tokens': {
    kind: 'counter',
    unit: '{token}',
    help: 'Prompt tokens of answers that told their cached tokens. told: all of them, the denominator; reusable: held by the best backend; captured: held where they were sent, as predicted; delivered: from the cache, by the engine.',
    labels: [...perBackendAndModel, 'kind'],
  },
  'warmlane.cache.missed_tokens': {
    kind: 'counter',
    unit: '{token}',
    help: 'Of these, tokens that did not come from the cache, by why. Together told less delivered.',
    labels: [...perBackendAndModel, 'cause'],
  },
  'warmlane.cache.answers': {
    kind: 'counter',
    unit: '{answer}',
    help: 'Answers of generating routes by what is known of their cached tokens: told; untold: the engine did not say, which is no miss; unpredicted: told, of a prompt that routing had not read.',
    labels: [...perBackendAndModel, 'told'],
  },
  'warmlane.cache.coverage': {
    kind: 'gauge',
    unit: '1',
    help: `Share of answers whose engine told their cached tokens. Over the last five minutes.`,
    labels: ['backend'],
  },
  'warmlane.cache.prediction.bias': {
    kind: 'gauge',
    unit: '1',
    help: `Predicted less delivered cached tokens, as a share of the prompt tokens: above 0 promises too much. ${lastMinutes}`,
    labels: ['backend'],
  },
  'warmlane.cache.prediction.error': {
    kind: 'gauge',
    unit: '1',
    help: `Mean size of that difference, weighted by tokens. ${lastMinutes}`,
    labels: ['backend'],
  },
  'warmlane.route.decisions': {
    kind: 'counter',
    unit: '{request}',
    help: 'Requests that were sent to a backend, by policy (none: nothing was known of their prompt) and by the reason of the last choice.',
    labels: ['policy', 'route'],
  },
  'warmlane.warm.entries': {
    kind: 'gauge',
    unit: '{entry}',
    help: 'Entries of the index of what each backend holds.',
    labels: ['backend'],
    additive: true,
  },
  'warmlane.warm.entries.limit': {
    kind: 'gauge',
    unit: '{entry}',
    help: 'Entries that the index may have, all backends together; the oldest go first.',
    labels: [],
  },
  'warmlane.warm.trimmed': {
    kind: 'counter',
    unit: '{entry}',
    help: 'Entries of the index that had to make room for others.',
    labels: [],
  },
  'warmlane.warm.memory': {
    kind: 'gauge',
    unit: 'By',
    help: 'Memory of the index.',
    labels: [],
  },
  'warmlane.warm.held': {
    kind: 'gauge',
    unit: '{token}',
    help: 'Tokens that a backend is believed to hold.',
    labels: ['backend'],
    additive: true,
  },
  'warmlane.warm.horizon': {
    kind: 'gauge',
    unit: '{token}',
    help: 'Tokens sent to a backend after which a prefix that nobody used meanwhile is taken to be gone there. None while that is a guess: until an answer told something of it.',
    labels: ['backend'],
  },
  'warmlane.warm.flushes': {
    kind: 'counter',
    unit: '{flush}',
    help: 'How often all that a backend was believed to hold was forgotten: it was restarted, removed, or that was asked for.',
    labels: ['backend'],
  },
} as const satisfies Record<string, MetricSpec>;
