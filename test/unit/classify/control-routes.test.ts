import { describe, expect, it } from 'vitest';
import { findControl } from '../../../src/classify/control-routes.ts';
import { controlKeys } from '../../../src/classify/settings.ts';

describe('engine-changing routes', () => {
  it.each([
    ['lora', 'POST', '/v1/load_lora_adapter'],
    ['lora', 'POST', '/v1/unload_lora_adapter'],
    ['lora', 'POST', '/load_lora_adapter'],
    ['lora', 'POST', '/lora-adapters'],
    ['sleep', 'POST', '/sleep'],
    ['sleep', 'POST', '/wake_up'],
    ['sleep', 'GET', '/release_memory_occupation'],
    ['pause', 'POST', '/pause'],
    ['pause', 'POST', '/resume'],
    ['pause', 'POST', '/continue_generation'],
    ['cache_reset', 'POST', '/reset_prefix_cache'],
    ['cache_reset', 'POST', '/reset_mm_cache'],
    ['cache_reset', 'POST', '/reset_encoder_cache'],
    ['cache_reset', 'GET', '/flush_cache'],
    ['slots', 'POST', '/slots/0'],
    ['props', 'POST', '/props'],
    ['models', 'POST', '/models'],
    ['models', 'DELETE', '/models'],
    ['models', 'POST', '/models/load'],
    ['models', 'POST', '/models/unload'],
    ['models', 'POST', '/api/pull'],
    ['models', 'DELETE', '/api/delete'],
    ['models', 'POST', '/api/blobs/sha256:00'],
    ['models', 'POST', '/api/v1/models/load'],
    ['rpc', 'POST', '/collective_rpc'],
    ['abort', 'POST', '/abort_requests'],
    ['abort', 'POST', '/inference/v1/abort_requests'],
    ['abort', 'POST', '/abort_request'],
    ['profile', 'POST', '/start_profile'],
    ['profile', 'GET', '/stop_profile'],
    ['scale', 'POST', '/scale_elastic_ep'],
    ['scale', 'POST', '/fault_tolerance/apply'],
    ['weights', 'POST', '/update_weights'],
    ['weights', 'POST', '/init_weight_transfer_engine'],
    ['weights', 'POST', '/start_weight_update'],
    ['weights', 'POST', '/update_weights_from_disk'],
    ['weights', 'POST', '/destroy_weights_update_group'],
    ['stream_delete', 'DELETE', '/v1/stream'],
    ['tools', 'GET', '/cors-proxy'],
    ['tools', 'POST', '/tools'],
  ])('%s holds %s %s', (key, method, path) => {
    expect(findControl(method, path)).toBe(key);
  });

  it('have at least one route for every key', () => {
    const paths = [
      '/sleep',
      '/reset_prefix_cache',
      '/slots/1',
      '/props',
      '/models',
      '/pause',
      '/abort_requests',
      '/start_profile',
    ];
    const more = ['/scale_elastic_ep', '/update_weights', '/collective_rpc', '/v1/stream', '/tools', '/lora-adapters'];
    expect(new Set([...paths, ...more].map((path) => findControl('POST', path)))).toEqual(new Set(controlKeys));
  });

  it.each([
    '//sleep',
    '/./sleep',
    '/v1/../sleep',
    '/v1/%2e%2e/sleep',
    '/v1/..%2Fsleep',
    '/v1\\..\\sleep',
    '/%73leep',
    '/%73%6C%65%65%70',
    '/%2573leep',
    '/%u0073leep',
    '/sleep/',
    '/sleep//',
    '/sleep/.',
    '/sleep%2F',
    '/sleep%0A',
    '/sleep%0D%0A',
    '/sleep%20',
    '/sl%09eep',
    '/sleep;a=b',
    '/sleep%3Bx',
    '/sleep;/',
    '/v1/..;x/sleep;jsessionid=1',
    '/sleep;x/../sleep',
    '/sleep%00',
    '/root-path/sleep',
    '/a/b/sleep',
    '/x//../sleep',
  ])('are closed when a server behind could read %s as one', (path) => {
    expect(findControl('POST', path)).toBe('sleep');
  });

  it('are closed under dots that two servers resolve differently', () => {
    expect(findControl('POST', '/slots//../0')).toBe('slots');
    expect(findControl('POST', '/a/slots/./0/')).toBe('slots');
    expect(findControl('POST', '/slots%2F0')).toBe('slots');
  });

  it.each([
    ['GET', '/slots'],
    ['GET', '/slots/0'],
    ['GET', '/props'],
    ['GET', '/models'],
    ['GET', '/v1/models'],
    ['GET', '/models/sse'],
    ['GET', '/lora-adapters'],
    ['GET', '/v1/stream'],
    ['POST', '/v1/streams/lookup'],
    ['GET', '/is_sleeping'],
    ['GET', '/is_paused'],
    ['GET', '/fault_tolerance/status'],
    ['GET', '/get_weights_by_name'],
    ['GET', '/v1/models/lightweight-7b'],
    ['GET', '/v1/tools'],
    ['POST', '/SLEEP'],
    ['POST', '/sleeper'],
    ['POST', '/sleep/x'],
    ['POST', '/sleep/..'],
    ['POST', '/slots'],
    ['POST', '/v1/chat/completions'],
    ['POST', '/api/chat'],
    ['POST', '/'],
    ['OPTIONS', '*'],
  ])('leave %s %s open, which changes nothing', (method, path) => {
    expect(findControl(method, path)).toBeUndefined();
  });
});
