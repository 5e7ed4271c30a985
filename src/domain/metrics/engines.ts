/**
 * Metrics of engines as they tell them themselves, read with the probes, and of findings. A restart of an engine doesn't
 * let a counter fall: what it rose by is added up here. Values only.
 */
import type { MetricSpec } from './metric-spec.ts';

const perEngine = ['backend', 'engine'] as const;

const counter = (unit: MetricSpec['unit'], help: string) =>
  ({ kind: 'counter', unit, help, labels: perEngine }) as const satisfies MetricSpec;

export const engineMetrics = {
  'warmlane.engine.requests.running': {
    kind: 'gauge',
    unit: '{request}',
    help: "Requests in the engine's batches or slots, by its own account; whoever sent them.",
    labels: perEngine,
    additive: true,
  },
  'warmlane.engine.requests.waiting': {
    kind: 'gauge',
    unit: '{request}',
    help: 'Requests that the engine took and has not started, by its own account.',
    labels: perEngine,
    additive: true,
  },
  'warmlane.engine.kv.usage': {
    kind: 'gauge',
    unit: '1',
    help: 'Share of the KV cache in use, by the engine (vLLM, SGLang; llama.cpp tells none).',
    labels: perEngine,
  },
  'warmlane.engine.reading.age': {
    kind: 'gauge',
    unit: 's',
    help: "Age of the newest reading of the engine's own metrics. An idle llama-server is not asked, so that it can sleep.",
    labels: perEngine,
  },
  'warmlane.engine.tokens.prompt': counter('{token}', 'Prompt tokens by the engine, cached ones included.'),
  'warmlane.engine.tokens.cached': counter('{token}', 'Prompt tokens that the engine took from its prefix cache.'),
  'warmlane.engine.tokens.output': counter(
    '{token}',
    'Tokens that the engine made (llama.cpp and SGLang count an answer at its end).',
  ),
  'warmlane.engine.prefix.queries': counter(
    '{token}',
    'Prompt tokens that the engine looked up in its prefix cache (vLLM).',
  ),
  'warmlane.engine.prefix.hits': counter('{token}', 'Prompt tokens that the engine found in its prefix cache (vLLM).'),
  'warmlane.engine.preemptions': counter(
    '{preemption}',
    'Running requests that the engine dropped for want of KV cache (vLLM).',
  ),
  'warmlane.engine.speculation.drafts': counter('{draft}', 'Verification steps of speculative decoding.'),
  'warmlane.engine.speculation.draft_tokens': counter('{token}', 'Tokens that speculation proposed.'),
  'warmlane.engine.speculation.accepted_tokens': counter('{token}', 'Proposed tokens that were accepted.'),
  'warmlane.finding.active': {
    kind: 'gauge',
    unit: '{finding}',
    help: '1 while a finding holds; see the page /findings for its evidence.',
    labels: ['finding', 'backend'],
    additive: true,
  },
  'warmlane.findings': {
    kind: 'counter',
    unit: '{finding}',
    help: 'How often a finding began.',
    labels: ['finding', 'backend'],
  },
} as const satisfies Record<string, MetricSpec>;
