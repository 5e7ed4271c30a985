import { describe, expect, it } from 'vitest';
import { boundedAsk, detect, type DetectOptions } from '../../../src/fleet/detect.ts';
import { createFakeClock, settle } from '../../support/fake-clock.ts';
import {
  createScriptedBackend,
  llamaAnswers,
  llamaHeaders,
  llamaLoading,
  llamaProps,
  ok,
  refused,
  status,
  vllmAnswers,
  vllmMetrics,
  type Script,
} from './scripted-backend.ts';

async function detectScripted(answers: Record<string, Script>, options: DetectOptions = {}) {
  const clock = createFakeClock();
  const backend = createScriptedBackend(clock, answers);
  const detection = await detect(boundedAsk(backend.fetch, clock, { timeoutMs: 1000 }), options);
  return { ...detection, asked: backend.take().toSorted() };
}

describe('llama-server', () => {
  it('is known by its Server header, with slots and the context of one slot from /props', async () => {
    const { facts, outcome, asked } = await detectScripted(llamaAnswers());
    expect(outcome).toEqual({ kind: 'ok' });
    expect(facts).toEqual({
      engine: 'llama-server',
      engineKnown: true,
      version: 'b1-7e4c0a9',
      models: ['smollm2', 'small'],
      slots: 2,
      contextTokens: 2048,
      router: false,
      slotsReadable: true,
      advice: [],
    });
    expect(asked, 'neither /slots nor /metrics: they wake one that sleeps').toEqual(['/props', '/v1/models']);
  });

  it('is known by owned_by when something before it changed the Server header', async () => {
    const answers = llamaAnswers();
    answers['/v1/models'] = ok({ object: 'list', data: [{ id: 'x', owned_by: 'llamacpp' }] }, { server: 'nginx' });
    expect((await detectScripted(answers)).facts).toMatchObject({ engine: 'llama-server', models: ['x'], slots: 2 });
  });

  it('that loads its model is loading and already known', async () => {
    const answers = { '/v1/models': llamaLoading, '/props': llamaLoading, '/health': llamaLoading };
    const { facts, outcome, recognised, asked } = await detectScripted(answers);
    expect(outcome).toEqual({ kind: 'loading' });
    expect(facts).toMatchObject({ engine: 'llama-server', engineKnown: true, models: [] });
    expect(facts?.slots).toBeUndefined();
    expect(recognised).toBe(true);
    expect(asked).toEqual(['/v1/models']);
  });

  it('C069 that refuses the key on /props is auth, though its list of models is open', async () => {
    const answers = {
      ...llamaAnswers(),
      '/props': status(401, { error: { message: 'Invalid API Key' } }, llamaHeaders),
    };
    const { facts, outcome } = await detectScripted(answers);
    expect(outcome).toEqual({ kind: 'auth' });
    expect(facts).toMatchObject({ engine: 'llama-server', models: ['smollm2', 'small'], slotsReadable: false });
  });

  it('without --metrics and with --no-slots gets advice for both', async () => {
    const { facts } = await detectScripted({
      ...llamaAnswers(),
      '/props': llamaProps({ endpoint_metrics: false, endpoint_slots: false }),
    });
    expect(facts?.slotsReadable).toBe(false);
    expect(facts?.advice).toHaveLength(2);
    expect(facts?.advice[0]).toContain('--metrics');
    expect(facts?.advice[1]).toContain('--no-slots');
  });

  it('as a router has models but no slots of its own', async () => {
    const { facts } = await detectScripted({
      ...llamaAnswers(),
      '/props': ok({ role: 'router', max_instances: 4, models_autoload: true, total_slots: 4 }, llamaHeaders),
    });
    expect(facts).toMatchObject({ router: true, slotsReadable: false });
    expect(facts).not.toHaveProperty('slots');
    expect(facts).not.toHaveProperty('contextTokens');
  });

  it('that sleeps is up and is asked nothing that wakes it', async () => {
    const { outcome, asked } = await detectScripted({ ...llamaAnswers(), '/props': llamaProps({ is_sleeping: true }) });
    expect(outcome).toEqual({ kind: 'ok' });
    expect(asked).toEqual(['/props', '/v1/models']);
  });

  it('whose /props goes unanswered is not called up without its slots', async () => {
    const { outcome } = await detectScripted({ ...llamaAnswers(), '/props': { failure: 'reset', detail: '' } });
    expect(outcome).toEqual({ kind: 'failed', failure: 'reset' });
  });
});

describe('vLLM', () => {
  it('tells version, context, block size and cache', async () => {
    const { facts, outcome, asked } = await detectScripted(vllmAnswers());
    expect(outcome).toEqual({ kind: 'ok' });
    expect(facts).toEqual({
      engine: 'vllm',
      engineKnown: true,
      version: '0.32.0',
      models: ['m1', 'my-lora'],
      contextTokens: 32768,
      blockTokens: 16,
      kvTokens: 573 * 16,
      router: false,
      slotsReadable: false,
      advice: [],
    });
    expect(asked).toEqual(['/health', '/metrics', '/v1/models', '/version']);
  });

  it('with several engines has the sum of their caches', async () => {
    const series = (engine: number) =>
      `vllm:cache_config_info{engine="${engine}",block_size="128",num_gpu_blocks="10"} 1.0\n`;
    const { facts } = await detectScripted({ ...vllmAnswers(), '/metrics': ok(series(0) + series(1)) });
    expect(facts).toMatchObject({ blockTokens: 128, kvTokens: 2560 });
  });

  it('that has no number of blocks has an unknown cache, not an empty one', async () => {
    const { facts } = await detectScripted({
      ...vllmAnswers(),
      '/metrics': vllmMetrics('block_size="16",num_gpu_blocks="None"'),
    });
    expect(facts).toMatchObject({ blockTokens: 16 });
    expect(facts).not.toHaveProperty('kvTokens');
  });

  it('without prefix caching is told so', async () => {
    const { facts } = await detectScripted({
      ...vllmAnswers(),
      '/metrics': vllmMetrics('block_size="16",enable_prefix_caching="False",num_gpu_blocks="5"'),
    });
    expect(facts?.advice).toEqual([expect.stringContaining('--no-enable-prefix-caching')]);
  });

  it('R06 whose engine is dead lists its models still, and is dead all the same', async () => {
    const { facts, outcome } = await detectScripted({ ...vllmAnswers(), '/health': status(503) });
    expect(outcome).toEqual({ kind: 'engine_dead' });
    expect(facts?.engine).toBe('vllm');
  });

  it('whose /metrics can not be had is up all the same', async () => {
    const { facts, outcome } = await detectScripted({
      ...vllmAnswers(),
      '/metrics': { failure: 'other', detail: 'too long' },
    });
    expect(outcome).toEqual({ kind: 'ok' });
    expect(facts).not.toHaveProperty('blockTokens');
  });

  it('C069 that refuses the key is known by its open routes, and auth', async () => {
    const { facts, outcome } = await detectScripted({
      ...vllmAnswers(),
      '/v1/models': status(401, { error: 'Unauthorized' }, { server: 'uvicorn' }),
    });
    expect(outcome).toEqual({ kind: 'auth' });
    expect(facts).toMatchObject({ engine: 'vllm', engineKnown: true, version: '0.32.0', models: [], blockTokens: 16 });
  });

  it('that answers 503 to its list of models is not taken for dead by that alone', async () => {
    const scaling = status(503, { error: 'The model is currently scaling. Please try again later.' });
    const { outcome } = await detectScripted({ ...vllmAnswers(), '/v1/models': scaling }, { configured: 'vllm' });
    expect(outcome).toEqual({ kind: 'bad_status' });
  });
});

describe('SGLang', () => {
  const models = ok({ object: 'list', data: [{ id: 'q', object: 'model', owned_by: 'sglang', max_model_len: 8192 }] });
  const info = ok({
    version: '0.5.9',
    page_size: 1,
    max_running_requests: 64,
    max_total_num_tokens: 9000,
    enable_cache_report: false,
  });

  it('tells its facts by /server_info, and what it does not report', async () => {
    const { facts, outcome } = await detectScripted({ '/v1/models': models, '/server_info': info, '/health': ok('') });
    expect(outcome).toEqual({ kind: 'ok' });
    expect(facts).toMatchObject({
      engine: 'sglang',
      version: '0.5.9',
      contextTokens: 8192,
      blockTokens: 1,
      kvTokens: 9000,
      maxSequences: 64,
      advice: [expect.stringContaining('--enable-cache-report')],
    });
  });

  it('of an older version tells them by /get_server_info', async () => {
    const { facts } = await detectScripted({ '/v1/models': models, '/get_server_info': info, '/health': ok('') });
    expect(facts?.version).toBe('0.5.9');
  });

  it('is loading while /health says 503', async () => {
    const { outcome } = await detectScripted({ '/v1/models': models, '/server_info': info, '/health': status(503) });
    expect(outcome).toEqual({ kind: 'loading' });
  });

  it('that is up is not made to generate a token by /health', async () => {
    const previous = { engine: 'sglang', engineKnown: true } as const;
    const { asked } = await detectScripted({ '/v1/models': models, '/server_info': info }, { previous });
    expect(asked).toEqual(['/get_model_info', '/server_info', '/v1/models']);
  });
});

describe('others', () => {
  it('TGI is known by /info', async () => {
    const { facts } = await detectScripted({
      '/v1/models': ok({ object: 'list', data: [{ id: 'org/m', object: 'model', owned_by: 'org/m' }] }),
      '/info': ok({ model_id: 'org/m', version: '3.3.5', max_total_tokens: 4096, max_concurrent_requests: 128 }),
      '/health': ok(''),
    });
    expect(facts).toMatchObject({
      engine: 'tgi',
      version: '3.3.5',
      contextTokens: 4096,
      maxSequences: 128,
      models: ['org/m'],
    });
  });

  it('Ollama is known by its greeting, and its models answer without :latest too', async () => {
    const { facts } = await detectScripted({
      '/v1/models': ok({ object: 'list', data: [{ id: 'llama3:latest', object: 'model', owned_by: 'library' }] }),
      '/': ok('Ollama is running'),
      '/api/version': ok({ version: '0.14.1' }),
      '/api/tags': ok({
        models: [
          { name: 'llama3:latest', model: 'llama3:latest' },
          { name: 'q:1b', model: 'q:1b' },
        ],
      }),
    });
    expect(facts).toMatchObject({ engine: 'ollama', version: '0.14.1', models: ['llama3:latest', 'q:1b', 'llama3'] });
  });

  it('a server that only lists models speaks OpenAI, and that is known', async () => {
    const { facts, recognised } = await detectScripted({
      '/v1/models': ok({ object: 'list', data: [{ id: 'gpt', object: 'model', owned_by: 'me' }] }),
    });
    expect(facts).toMatchObject({ engine: 'openai', engineKnown: true, models: ['gpt'] });
    expect(recognised).toBe(true);
  });

  it('a web server is no model server, though it may be a backend that somebody named', async () => {
    const page = ok('<html>hello</html>', { server: 'SimpleHTTP' });
    const { facts, outcome, recognised } = await detectScripted({ '/v1/models': page, '/': page, '/version': page });
    expect(recognised).toBe(false);
    expect(outcome).toEqual({ kind: 'ok' });
    expect(facts).toMatchObject({ engine: 'openai', engineKnown: false, models: [] });
  });

  it('another JSON service is not taken for vLLM by its /version alone', async () => {
    const { recognised } = await detectScripted({
      '/version': ok({ version: '1.2' }),
      '/metrics': ok('go_goroutines 5\n'),
    });
    expect(recognised).toBe(false);
  });

  it('one that is still the same as last time is not guessed again', async () => {
    const previous = { engine: 'openai', engineKnown: true } as const;
    const { asked } = await detectScripted({ '/v1/models': ok({ data: [{ id: 'gpt' }] }) }, { previous });
    expect(asked).toEqual(['/v1/models']);
  });

  it('the engine that the config names is not doubted', async () => {
    const { facts, asked } = await detectScripted({ '/health': ok('') }, { configured: 'vllm' });
    expect(facts).toMatchObject({ engine: 'vllm', engineKnown: true });
    expect(asked).not.toContain('/info');
  });

  it('a refusal ends it after one question', async () => {
    const { outcome, facts, recognised, asked } = await detectScripted({ '/v1/models': refused });
    expect(outcome).toEqual({ kind: 'failed', failure: 'refused' });
    expect(facts).toBeUndefined();
    expect(recognised).toBe(false);
    expect(asked).toEqual(['/v1/models']);
  });

  it('a list whose entries are no models is no list of models', async () => {
    const { recognised } = await detectScripted({ '/v1/models': ok({ data: [{ id: 'a' }, 7] }) });
    expect(recognised).toBe(false);
  });
});

it('all questions of one round share one time limit', async () => {
  const clock = createFakeClock();
  const backend = createScriptedBackend(clock, llamaAnswers());
  const listing = backend.answers['/v1/models'];
  if (listing === undefined || listing === 'hang' || 'afterMs' in listing) throw new Error('the script changed');
  backend.answers['/v1/models'] = { afterMs: 700, result: listing };
  backend.answers['/props'] = 'hang';
  const detecting = detect(boundedAsk(backend.fetch, clock, { timeoutMs: 1000 }), {});
  let ended = false;
  void detecting.then(() => (ended = true));
  clock.advance(700);
  await settle();
  clock.advance(299);
  await settle();
  expect(ended).toBe(false);
  clock.advance(1);
  expect((await detecting).outcome).toEqual({ kind: 'failed', failure: 'timeout' });
});
