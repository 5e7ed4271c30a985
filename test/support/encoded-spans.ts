/** Spans as the official serializer puts them into bytes, and back by the official definitions. */
import type { ReadableSpan } from '@opentelemetry/sdk-trace-base';
import { ProtobufTraceSerializer } from 'otlp-proto-definitions';

import { requestSpans, type SpanView } from '../../src/export/trace/request-spans.ts';
import { createSpanSource } from '../../src/export/trace/span-source.ts';
import type { TokenForm } from '../../src/export/trace/trace-settings.ts';
import type { RequestRecord } from '../../src/domain/record.ts';
import { decode, type DecodedSpan } from './otlp-receiver.ts';

const source = await createSpanSource({ 'service.name': 'warmlane' }, '0.0.0');

export function viewFor(tokens: TokenForm): SpanView {
  return {
    source,
    tokens,
    scheme: 'http',
    route: (_, path) => path,
    backend: (name) => ({ host: 'gpu', port: 8000, url: `http://gpu:8000/${name}` }),
  };
}

export function encode(spans: ReadableSpan[]): Uint8Array {
  return ProtobufTraceSerializer.serializeRequest(spans) ?? new Uint8Array();
}

/** What a collector would read, part by part, and how many bytes each part has. */
export function exported(record: RequestRecord, tokens: TokenForm = 'arrays') {
  const parts = [...requestSpans(record, 'head', viewFor(tokens))].map(encode);
  const spans: readonly DecodedSpan[] = parts.flatMap(decode);
  return { spans, partBytes: parts.map((bytes) => bytes.length) };
}
