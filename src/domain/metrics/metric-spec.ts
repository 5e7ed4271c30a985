/**
 * What the catalogue says of a metric, and the labels that one may have. Values only.
 * OTLP sends the catalogue's names and each label's attribute; Prometheus text has the names that follow from them
 * (`prometheusName`) and the labels' short words.
 */

export type MetricKind =
  /** only rises; its Prometheus name ends in `_total` */
  | 'counter'
  | 'gauge'
  /** a distribution: exponential over OTLP, the named bounds in Prometheus text */
  | 'histogram';

/** UCUM, as OpenTelemetry writes units: `s`, `By`, `1`, `{request}`, `{token}/s`. */
export type MetricUnit = 's' | 'By' | '1' | `{${string}}` | 'By/s' | `{${string}}/s` | `By/{${string}}`;

export interface LabelSpec {
  /** its name over OTLP and in spans */
  readonly attribute: string;
  /** its values come from a closed set of words: it is kept when a metric has too many series */
  readonly closed: boolean;
  readonly about: string;
}

const closed = true;
const open = false;

/** Every label that a metric may have. */
export const labelSpecs = {
  model: { attribute: 'gen_ai.request.model', closed: open, about: 'as the client named it, `other` past the cap' },
  backend: { attribute: 'warmlane.backend', closed: open, about: "the backend's name; `none`: it reached none" },
  engine: { attribute: 'gen_ai.provider.name', closed, about: 'software behind the backend' },
  endpoint: { attribute: 'warmlane.endpoint', closed, about: 'what the route is for: chat, completions, …' },
  lane: { attribute: 'warmlane.lane', closed, about: 'online or batch' },
  tenant: { attribute: 'warmlane.tenant', closed: open, about: 'whose key, by the name in the config' },
  outcome: { attribute: 'warmlane.outcome', closed, about: 'how it ended: ok, client_abort, timeout, …' },
  reason: {
    attribute: 'warmlane.reason',
    closed: open,
    about: 'what ended it, as in the record: backend_unreachable, status_500, …; not given where it ended well',
  },
  warmth: { attribute: 'warmlane.warmth', closed, about: 'cold_start, resident, prefix_hit, replayed or unknown' },
  stream: { attribute: 'gen_ai.request.stream', closed, about: 'whether the answer streamed: true or false' },
  method: { attribute: 'http.request.method', closed, about: 'HTTP method; `_OTHER` for what HTTP does not know' },
  status: {
    attribute: 'http.response.status_code',
    closed: open,
    about: 'HTTP status; `none`: the client left before',
  },
  phase: { attribute: 'warmlane.phase', closed, about: 'where in its life a request is' },
  prefill: {
    attribute: 'warmlane.prefill.kind',
    closed,
    about: "split: without the engine's own queue; joint: with it",
  },
  mark: { attribute: 'warmlane.mark', closed, about: 'an honest note on a record' },
  direction: { attribute: 'network.io.direction', closed, about: 'receive: from clients; transmit: to them' },
  sink: { attribute: 'warmlane.sink', closed, about: 'who lost it' },
  cpu: { attribute: 'cpu.mode', closed, about: 'user or system' },
  health: { attribute: 'warmlane.backend.health', closed, about: "the backend's state: up, loading, down, …" },
  result: {
    attribute: 'warmlane.result',
    closed,
    about: 'ok or failed; of lines of batches completed, failed, expired or cancelled',
  },
  source: { attribute: 'warmlane.source', closed, about: 'where a backend was named: config, file, dns or api' },
  limit: { attribute: 'warmlane.limit', closed, about: 'which bound was met' },
  finding: { attribute: 'warmlane.finding', closed, about: 'what was found: prefill_stall, kv_exhaustion, …' },
  state: { attribute: 'nodejs.eventloop.state', closed, about: 'active or idle' },
  from: { attribute: 'warmlane.from', closed, about: 'down or loading: what the backend was seen as when it began' },
  profile: { attribute: 'warmlane.slo.profile', closed, about: 'name of a latency objective' },
  bound: { attribute: 'warmlane.slo.bound', closed, about: 'ttft, ttfa, itl, tpot, e2e; failed: not answered whole' },
  dropped: { attribute: 'warmlane.dropped', closed, about: 'why spans were lost' },
  kind: { attribute: 'warmlane.cache.kind', closed, about: 'told, reusable, captured or delivered' },
  cause: {
    attribute: 'warmlane.cache.cause',
    closed,
    about: 'new, diverged, evicted, rerouted, restarted, unaligned or not_delivered',
  },
  told: { attribute: 'warmlane.cache.told', closed, about: 'told, untold or unpredicted' },
  policy: { attribute: 'warmlane.route.policy', closed, about: 'routing policy: warm, least-load, …; none' },
  route: { attribute: 'warmlane.route.reason', closed, about: 'why that backend: prefix, least_load, sticky, …' },
  ending: {
    attribute: 'warmlane.warm_up.ending',
    closed,
    about: 'how a warm-up ended: done, failed, aborted or given_up',
  },
  signal: {
    attribute: 'warmlane.batch.signal',
    closed,
    about: 'what presses: tpot, itl, ttft, kv, waiting, preemptions, busy or rise',
  },
  useless: { attribute: 'warmlane.useless', closed, about: 'tool_arguments, response_format or cut_by_length' },
} as const satisfies Record<string, LabelSpec>;

export type LabelName = keyof typeof labelSpecs;

export interface MetricSpec {
  readonly kind: MetricKind;
  readonly unit: MetricUnit;
  /** One or two sentences; for a histogram also what it includes. */
  readonly help: string;
  readonly labels: readonly LabelName[];
  /** Histograms only: bounds in Prometheus text, by their name in `buckets.ts`. */
  readonly buckets?: 'seconds' | 'fineSeconds' | 'tokens';
  /** Gauges only: a number of things, so label sets add up, and one that was there and is no more reads 0. */
  readonly additive?: true;
}
