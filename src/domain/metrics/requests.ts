/**
 * Metrics of requests: what each finished `RequestRecord` adds, and what runs and waits now.
 * Names of OpenTelemetry's GenAI (semantic-conventions-genai 0.1.0) and HTTP conventions where they fit. Values only.
 */
import type { MetricSpec } from './metric-spec.ts';

const perRequest = ['model', 'backend', 'engine', 'endpoint', 'lane', 'outcome', 'warmth'] as const;
const fromReceived = 'Last byte of the request received';
const keptIn =
  'Requests that failed, timed out or were abandoned later are in it, under their outcome; those that never got so far are only in the counts of requests.';

export const requestMetrics = {
  'warmlane.requests': {
    kind: 'counter',
    unit: '{request}',
    help: 'Requests by how they ended: each one that came in, refused, failed and abandoned ones too.',
    labels: [...perRequest, 'stream'],
  },
  'gen_ai.server.time_to_first_token': {
    kind: 'histogram',
    unit: 's',
    help: `${fromReceived} to first visible token (text, reasoning or tool call) of a stream. ${keptIn}`,
    labels: perRequest,
    buckets: 'seconds',
  },
  'warmlane.time_to_first_answer': {
    kind: 'histogram',
    unit: 's',
    help: `${fromReceived} to first token that is not reasoning. ${keptIn}`,
    labels: perRequest,
    buckets: 'seconds',
  },
  'warmlane.inter_token_latency': {
    kind: 'histogram',
    unit: 's',
    help: `Gaps between consecutive token events of one choice, a sample each; events of one read have gaps of 0. ${keptIn}`,
    labels: perRequest,
    buckets: 'seconds',
  },
  'gen_ai.server.time_per_output_token': {
    kind: 'histogram',
    unit: 's',
    help: `Decode window divided by the tokens after the first, one sample per request; none where no window holds the tokens. ${keptIn}`,
    labels: perRequest,
    buckets: 'seconds',
  },
  'gen_ai.server.request.duration': {
    kind: 'histogram',
    unit: 's',
    help: `${fromReceived} to last byte of the answer, or to the moment it broke or was refused: every request to a route that generates, embeds or ranks, whatever its outcome.`,
    labels: perRequest,
    buckets: 'seconds',
  },
  'warmlane.time_to_last_token': {
    kind: 'histogram',
    unit: 's',
    help: `${fromReceived} to last token of a stream, or to the end of an answer that was not streamed; of routes that generate, embed or rank. What /stats and reports call e2e. ${keptIn}`,
    labels: perRequest,
    buckets: 'seconds',
  },
  'warmlane.prefill.duration': {
    kind: 'histogram',
    unit: 's',
    help: `Time in the engine before its first token, as far as it can be told from outside. ${keptIn}`,
    labels: ['model', 'backend', 'prefill', 'warmth', 'outcome'],
    buckets: 'seconds',
  },
  'warmlane.engine_queue.duration': {
    kind: 'histogram',
    unit: 's',
    help: "The engine's own queue, where it tells (llama-server: request sent to response head).",
    labels: ['model', 'backend', 'outcome'],
    buckets: 'seconds',
  },
  'warmlane.queue.duration': {
    kind: 'histogram',
    unit: 's',
    help: "Waiting for a place in warmlane's own queue. Requests that were refused or left while waiting are in it, with what they had waited.",
    labels: ['model', 'lane', 'outcome'],
    buckets: 'fineSeconds',
  },
  'warmlane.connect.duration': {
    kind: 'histogram',
    unit: 's',
    help: 'Last attempt begun to connection ready; near 0 on a pooled one.',
    labels: ['backend', 'outcome'],
    buckets: 'fineSeconds',
  },
  'warmlane.overhead.duration': {
    kind: 'histogram',
    unit: 's',
    help: "Warmlane's own time before the request was sent: without queue, connecting and failed attempts.",
    labels: ['endpoint', 'lane'],
    buckets: 'fineSeconds',
  },
  'http.server.request.duration': {
    kind: 'histogram',
    unit: 's',
    help: 'Last byte of the request received to end of the answer, or to the moment it broke: every request, whatever its outcome.',
    labels: ['method', 'status', 'endpoint', 'outcome'],
    buckets: 'seconds',
  },
  'http.server.active_requests': {
    kind: 'gauge',
    unit: '{request}',
    help: 'Requests under way, waiting ones and open WebSockets included.',
    labels: ['method'],
    additive: true,
  },
  'warmlane.requests.running': {
    kind: 'gauge',
    unit: '{request}',
    help: 'Requests under way by model, backend and phase (`tunnel`: an open WebSocket); `none`: not known yet, or none yet.',
    labels: ['model', 'backend', 'phase'],
    additive: true,
  },
  'warmlane.requests.queued': {
    kind: 'gauge',
    unit: '{request}',
    help: "Requests that wait for a place in warmlane's own queue.",
    labels: [],
    additive: true,
  },
  'warmlane.requests.marked': {
    kind: 'counter',
    unit: '{request}',
    help: 'Requests whose record bears an honest note; `loop_lag`: its timings cannot be trusted to the millisecond.',
    labels: ['mark'],
  },
  'warmlane.attempts': {
    kind: 'counter',
    unit: '{attempt}',
    help: 'Attempts on backends, each under its own backend and how it ended, failed ones that another backend made good too. The one that brought the answer ends as its request did. A connection that was stale and the second try on a fresh one are two.',
    labels: ['backend', 'outcome', 'reason'],
  },
  'warmlane.retries': {
    kind: 'counter',
    unit: '{attempt}',
    help: "Attempts beyond a request's first, each under its own backend and how it ended.",
    labels: ['backend', 'outcome'],
  },
  'gen_ai.client.inference.usage.input_tokens': {
    kind: 'counter',
    unit: '{token}',
    help: 'Prompt tokens as the engine reported them, cached ones included; requests without a report are not in it.',
    labels: perRequest,
  },
  'gen_ai.client.inference.usage.output_tokens': {
    kind: 'counter',
    unit: '{token}',
    help: 'Output tokens, reasoning included: as the engine reported them, else counted by events (see warmlane.tokens.estimated).',
    labels: perRequest,
  },
  'gen_ai.client.inference.usage.reasoning.output_tokens': {
    kind: 'counter',
    unit: '{token}',
    help: 'Reasoning tokens where the engine reports them; part of the output tokens.',
    labels: perRequest,
  },
  'gen_ai.client.inference.usage.cache_read.input_tokens': {
    kind: 'counter',
    unit: '{token}',
    help: 'Prompt tokens from the prefix cache, where the engine reports them; part of the prompt tokens.',
    labels: perRequest,
  },
  'warmlane.tokens.cacheable': {
    kind: 'counter',
    unit: '{token}',
    help: 'Prompt tokens of requests whose engine also said how many of them were cached: what a hit rate must be divided by.',
    labels: perRequest,
  },
  'warmlane.tokens.estimated': {
    kind: 'counter',
    unit: '{token}',
    help: 'Output tokens that no engine reported: the number of token events. Part of the output tokens.',
    labels: perRequest,
  },
  'gen_ai.client.inference.operation.input_tokens': {
    kind: 'histogram',
    unit: '{token}',
    help: 'Prompt tokens of a request as the engine reported them, cached ones included.',
    labels: ['model', 'backend', 'engine', 'endpoint', 'lane', 'warmth'],
    buckets: 'tokens',
  },
  'gen_ai.client.inference.operation.output_tokens': {
    kind: 'histogram',
    unit: '{token}',
    help: 'Output tokens of a request, reasoning included, reported or counted by events; failed and abandoned requests with what they had.',
    labels: ['model', 'backend', 'engine', 'endpoint', 'lane', 'warmth'],
    buckets: 'tokens',
  },
  'warmlane.io': {
    kind: 'counter',
    unit: 'By',
    help: 'Bytes of request bodies received and of answers relayed, as finished requests counted them.',
    labels: ['endpoint', 'direction'],
  },
} as const satisfies Record<string, MetricSpec>;
