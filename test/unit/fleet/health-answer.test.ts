import { describe, expect, it } from 'vitest';
import { healthPath, readHealthAnswer, worstOf } from '../../../src/fleet/health-answer.ts';
import { llamaLoading, ok, refused, status } from './scripted-backend.ts';

describe('what an answer to a health probe means', () => {
  it('llama-server that loads is loading, in its own words', () => {
    expect(readHealthAnswer('llama-server', llamaLoading)).toEqual({ kind: 'loading' });
  });

  it('an empty 503 is the death of the engine on vLLM and TGI, loading on SGLang, and only a bad status elsewhere', () => {
    expect(readHealthAnswer('vllm', status(503))).toEqual({ kind: 'engine_dead' });
    expect(readHealthAnswer('tgi', status(503, { error: 'unhealthy', error_type: 'healthcheck' }))).toEqual({
      kind: 'engine_dead',
    });
    expect(readHealthAnswer('sglang', status(503))).toEqual({ kind: 'loading' });
    expect(readHealthAnswer('openai', status(503, 'upstream unavailable'))).toEqual({ kind: 'bad_status' });
  });

  it.each([401, 403])('C069 %i is auth', (code) => {
    expect(readHealthAnswer('vllm', status(code))).toEqual({ kind: 'auth' });
  });

  it.each([200, 204, 302, 404, 405, 429])('%i is a sign of life', (code) => {
    expect(readHealthAnswer('openai', status(code))).toEqual({ kind: 'ok' });
  });

  it.each([500, 502, 504])('%i is a bad status', (code) => {
    expect(readHealthAnswer('vllm', status(code))).toEqual({ kind: 'bad_status' });
  });

  it('a failure keeps its kind', () => {
    expect(readHealthAnswer('vllm', refused)).toEqual({ kind: 'failed', failure: 'refused' });
  });
});

it('the gravest of several outcomes speaks for all', () => {
  const kinds = [ok(''), status(401), llamaLoading].map((answer) => readHealthAnswer('llama-server', answer));
  expect(worstOf(kinds)).toEqual({ kind: 'loading' });
  expect(worstOf([{ kind: 'ok' }])).toEqual({ kind: 'ok' });
});

it('SGLang is asked by /health, which generates a token, only while it is not up', () => {
  expect(healthPath('sglang', 'down')).toBe('/health');
  expect(healthPath('sglang', 'loading')).toBe('/health');
  expect(healthPath('sglang', 'up')).toBe('/get_model_info');
});
