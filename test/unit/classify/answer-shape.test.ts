import { describe, expect, it } from 'vitest';
import { classify } from '../../../src/classify/classify.ts';
import { wantedKeys, wantedKeysWithShape } from '../../../src/classify/wanted-keys.ts';
import type { Job } from '../../../src/domain/job.ts';
import { isRefusal } from '../../../src/domain/refusal.ts';
import { scanJson } from '../../../src/platform/json-scan.ts';
import { jobOf } from '../../support/classified.ts';

function shapeOf(path: string, body: object, keys = wantedKeysWithShape): Job['shape'] {
  const bytes = Buffer.from(JSON.stringify(body));
  const head = { requestId: 'r', method: 'POST', target: path, header: () => undefined };
  const job = classify(
    head,
    { bytes: bytes.length, scan: scanJson(bytes, keys) },
    { openRoutes: [], modelAliases: {} },
  );
  if (isRefusal(job)) throw new Error(job.code);
  return job.shape;
}

const chat = '/v1/chat/completions';
const schema = { type: 'json_schema', json_schema: { name: 'x', schema: { type: 'object' } } };

describe('the shape that a request asks of its answer', () => {
  it.each([
    [chat, { tools: [{ type: 'function' }] }, { tools: true }],
    [chat, { functions: [{ name: 'f' }] }, { tools: true }],
    [chat, { response_format: { type: 'json_object' } }, { json: true }],
    [chat, { tools: [{}], response_format: schema }, { tools: true, json: true }],
    ['/v1/completions', { response_format: schema }, { json: true }],
    ['/v1/responses', { text: { format: { type: 'json_schema', schema: {} } } }, { json: true }],
    ['/v1/responses', { tools: [{ type: 'function' }] }, { tools: true }],
    ['/v1/messages', { tools: [{ name: 'f' }] }, { tools: true }],
  ])('%s %j is %j', (path, body, shape) => {
    expect(shapeOf(path, { model: 'm', ...body })).toEqual(shape);
  });

  it.each([
    [chat, {}],
    [chat, { tools: [], response_format: { type: 'text' } }],
    [chat, { response_format: 'json_object', tools: null }],
    [chat, { response_format: { json_object: true } }],
    ['/v1/completions', { tools: [{}] }],
    ['/v1/responses', { text: { format: { type: 'text' } }, response_format: schema }],
    ['/v1/messages', { response_format: schema }],
    ['/v1/embeddings', { tools: [{}], response_format: schema }],
    ['/generate', { text: 'a prompt', response_format: schema }],
  ])('%s %j is none', (path, body) => {
    expect(shapeOf(path, { model: 'm', ...body })).toBeUndefined();
  });

  it('is known of a schema too long to be kept', () => {
    const long = { ...schema, filler: 'x'.repeat(20_000) };
    expect(shapeOf(chat, { response_format: long })).toEqual({ json: true });
    expect(shapeOf('/v1/responses', { text: { format: long } })).toEqual({ json: true });
  });

  it('is not looked for where bodies are scanned without it', () => {
    expect(shapeOf(chat, { tools: [{}], response_format: schema }, wantedKeys)).toBeUndefined();
  });
});

describe('X-Warmlane-Slo', () => {
  it('becomes the job’s, trimmed and bounded; empty it is none', () => {
    const sloOf = (value: string) => jobOf({ body: '{}', headers: { 'x-warmlane-slo': value } }).slo;
    expect(sloOf(' chat ')).toBe('chat');
    expect(sloOf('y'.repeat(1000))).toBe('y'.repeat(64));
    expect(sloOf(' ')).toBeUndefined();
    expect(jobOf({ body: '{}' }).slo).toBeUndefined();
  });
});
