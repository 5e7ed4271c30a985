/**
 * GenAI attributes of a finished request, by the names of the GenAI semantic conventions v0.1.0, and what Langfuse needs
 * beside them. They stand on one span only, the SERVER span: it covers all attempts and the whole stream, as the
 * conventions ask of an inference span, and tools that add up tokens over spans must not find them twice.
 */
import type { Outcome } from '../../domain/names.ts';
import type { RequestRecord } from '../../domain/record.ts';
import { operationNames } from '../otlp/conventions.ts';
import { put, seconds, type Writable } from './span.ts';

/** Undefined: the request is no call of a model. What is asked of a kept response by GET or DELETE is none. */
export function operationOf({ endpoint, method }: RequestRecord): string | undefined {
  return endpoint === 'responses' && method !== 'POST' ? undefined : operationNames[endpoint];
}

/** Ends that leave a begun stream without a finish reason. */
const broken: ReadonlySet<Outcome> = new Set([
  'upstream_error',
  'upstream_truncated',
  'timeout',
  'shutdown',
  'client_abort',
  'proxy_error',
]);

/** @param isoTime wall-clock time of a monotonic moment */
export function putGenAi(attributes: Writable, record: RequestRecord, isoTime: (atMs: number) => string): void {
  const operation = operationOf(record);
  if (operation === undefined) return;
  const { tokens, figures, timeline, finishReasons } = record;
  put(attributes, 'gen_ai.operation.name', operation);
  put(attributes, 'gen_ai.provider.name', record.engine);
  put(attributes, 'gen_ai.request.model', record.model);
  put(attributes, 'gen_ai.request.max_tokens', record.maxOutputTokens);
  put(attributes, 'gen_ai.request.choice.count', record.choices);
  put(attributes, 'gen_ai.response.id', record.responseId);
  put(attributes, 'gen_ai.response.model', record.responseModel);
  if (operation !== 'embeddings') put(attributes, 'gen_ai.request.stream', record.streamed);
  if (finishReasons.length > 0) put(attributes, 'gen_ai.response.finish_reasons', [...finishReasons]);
  else if (record.streamed && record.events > 0 && broken.has(record.outcome))
    put(attributes, 'gen_ai.response.finish_reasons', ['error']);
  put(attributes, 'gen_ai.response.time_to_first_chunk', seconds(figures.firstEventMs));
  put(attributes, 'gen_ai.usage.input_tokens', tokens.prompt?.value);
  put(attributes, 'gen_ai.usage.output_tokens', tokens.output?.value);
  put(attributes, 'gen_ai.usage.cache_read.input_tokens', tokens.cached?.value);
  put(attributes, 'gen_ai.usage.reasoning.output_tokens', tokens.reasoning?.value);
  if (record.streamed && timeline.firstToken !== undefined) {
    // Langfuse reads this one as JSON: a text without quotes would be no time to it.
    put(attributes, 'langfuse.observation.completion_start_time', JSON.stringify(isoTime(timeline.firstToken)));
  }
}
