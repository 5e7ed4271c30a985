/** Metrics of tenants; there only where clients must show a key. As many label values as the config has names. */
import type { MetricSpec } from './metric-spec.ts';

export const tenantMetrics = {
  'warmlane.tenant.requests': {
    kind: 'counter',
    unit: '{request}',
    help: 'Requests by whose key they came with and how they ended, refused ones and the lines of batches among them. Those without a known key are in no tenant.',
    labels: ['tenant', 'lane', 'outcome'],
  },
  'warmlane.tenant.input_tokens': {
    kind: 'counter',
    unit: '{token}',
    help: 'Prompt tokens of their requests as the engine reported them, cached ones included.',
    labels: ['tenant', 'lane'],
  },
  'warmlane.tenant.output_tokens': {
    kind: 'counter',
    unit: '{token}',
    help: 'Output tokens of their requests, reported or counted by events.',
    labels: ['tenant', 'lane'],
  },
  'warmlane.tenant.refused': {
    kind: 'counter',
    unit: '{request}',
    help: 'Requests that a tenant was not allowed, by reason: limit_concurrent, limit_requests, limit_tokens (all 429), model_not_allowed (403), id_not_found (404).',
    labels: ['tenant', 'reason'],
  },
} as const satisfies Record<string, MetricSpec>;
