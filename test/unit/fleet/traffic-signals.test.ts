import { readFileSync } from 'node:fs';
import { expect, it } from 'vitest';
import { signalOfAnswer, signalOfStreamError } from '../../../src/fleet/traffic-signals.ts';

const seen = (status: number, body = '') => ({ status, body, sentMs: 5, generates: true });

it('a good head is an answer, with the moment of its request', () => {
  expect(signalOfAnswer(seen(200))).toEqual({ kind: 'answered', sentMs: 5, generates: true });
});

it.each([400, 401, 404, 413, 422, 429])('C062 C065 a %i says nothing about health', (status) => {
  expect(signalOfAnswer(seen(status, '{"error":{"message":"Loading model"}}'))).toBeUndefined();
});

it('R05 the 500 of a vLLM that shuts down means draining; another 500 says nothing', () => {
  const body =
    '{"error":{"message":"cannot schedule new futures after shutdown","type":"InternalServerError","code":500}}';
  expect(signalOfAnswer(seen(500, body))).toEqual({ kind: 'drainingAnswer' });
  expect(signalOfAnswer(seen(500, '{"error":{"message":"oops"}}'))).toBeUndefined();
});

it('the recorded 503 of a llama-server that loads means loading; a full one says nothing', () => {
  const recorded = readFileSync('test/fixtures/recorded/llama-server/error-503-loading/response.http', 'latin1');
  expect(signalOfAnswer(seen(503, recorded))).toEqual({ kind: 'loadingAnswer' });
  expect(signalOfAnswer(seen(503, '{"error":{"message":"The engine is currently busy"}}'))).toBeUndefined();
});

it('R06 the recorded error event of a dying vLLM means the death of its engine; a full context does not', () => {
  const recorded = readFileSync('test/fixtures/recorded/vllm/engine-died-mid-stream/response.http', 'latin1');
  expect(signalOfStreamError(recorded)).toEqual({ kind: 'engineDied' });
  expect(signalOfStreamError('Context size has been exceeded.')).toBeUndefined();
});
