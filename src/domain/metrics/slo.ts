/**
 * Metrics of latency objectives and of use: what each judged and each checked request adds. Values only.
 * Attainment is `met / judged`, the error budget's burn rate `(1 − met / judged) / (1 − target)`; deploy/slo.md has the queries.
 */
import type { MetricSpec } from './metric-spec.ts';

const judged = ['profile', 'model', 'backend', 'lane', 'warmth'] as const;

export const sloMetrics = {
  'warmlane.slo.judged': {
    kind: 'counter',
    unit: '{request}',
    help: 'Requests that were held to a profile: failed ones too, client errors and those that left too early to tell not.',
    labels: judged,
  },
  'warmlane.slo.met': {
    kind: 'counter',
    unit: '{request}',
    help: 'Judged requests that met every bound of their profile.',
    labels: judged,
  },
  'warmlane.slo.missed': {
    kind: 'counter',
    unit: '{request}',
    help: 'Judged requests that did not, once each: by the bound that was exceeded most (failed: not answered whole) and the phase that took most of that time.',
    labels: [...judged, 'bound', 'phase'],
  },
  'warmlane.slo.good_tokens': {
    kind: 'counter',
    unit: '{token}',
    help: 'Output tokens of requests that met their profile.',
    labels: judged,
  },
  'warmlane.slo.benefit_tokens': {
    kind: 'counter',
    unit: '{token}',
    help: 'Smooth goodput of the judged requests whose benefit (tokens less the cost of waiting) was above 0. The whole is this less warmlane.slo.harm_tokens.',
    labels: judged,
  },
  'warmlane.slo.harm_tokens': {
    kind: 'counter',
    unit: '{token}',
    help: 'The same of those whose benefit was below 0, without its sign.',
    labels: judged,
  },
  'warmlane.slo.target': {
    kind: 'gauge',
    unit: '1',
    help: 'Share of its judged requests that must meet a profile.',
    labels: ['profile'],
  },
  'warmlane.slo.unknown_profiles': {
    kind: 'counter',
    unit: '{request}',
    help: 'Requests whose X-Warmlane-Slo header named no profile that there is; it was passed over.',
    labels: [],
  },
  'warmlane.answers.checked': {
    kind: 'counter',
    unit: '{request}',
    help: 'Whole answers that were looked at for use (slo.checks.usable).',
    labels: ['model', 'backend', 'lane'],
  },
  'warmlane.answers.useless': {
    kind: 'counter',
    unit: '{request}',
    help: 'Whole answers that could not be used, by each reason: an answer with two reasons counts in both.',
    labels: ['model', 'backend', 'lane', 'useless'],
  },
  'warmlane.useful_tokens': {
    kind: 'counter',
    unit: '{token}',
    help: 'Output tokens of answers that came whole and that no check found useless.',
    labels: ['model', 'backend', 'lane'],
  },
  'warmlane.client_retries': {
    kind: 'counter',
    unit: '{request}',
    help: 'Requests that repeated one of the same client that had failed, was left or was useless (slo.checks.retries).',
    labels: ['model', 'backend', 'lane'],
  },
} as const satisfies Record<string, MetricSpec>;
