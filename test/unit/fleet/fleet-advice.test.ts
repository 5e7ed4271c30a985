import { describe, expect, it } from 'vitest';
import { createFleetWorld } from './fleet-world.ts';
import { vllmMetrics } from './scripted-backend.ts';

const world = createFleetWorld();

describe('advice', () => {
  it('for cached tokens comes when the first answers of a vLLM show none, and goes when one shows them', async () => {
    await world.started({ name: 'vllm' });
    world.fleet.noteAnswer('vllm', { usage: true, cached: false });
    world.fleet.noteAnswer('vllm', { usage: false, cached: false });
    world.fleet.noteAnswer('vllm', { usage: true, cached: false });
    expect(world.view('vllm').advice).toEqual([]);
    world.fleet.noteAnswer('vllm', { usage: true, cached: false });
    expect(world.view('vllm').advice).toEqual([
      'cached tokens are unknown; start vLLM with --enable-prompt-tokens-details',
    ]);
    expect(world.changes).toBe(1);
    world.fleet.noteAnswer('vllm', { usage: true, cached: true });
    expect(world.view('vllm').advice).toEqual([]);
    for (let i = 0; i < 5; i += 1) world.fleet.noteAnswer('vllm', { usage: true, cached: false });
    expect(world.view('vllm').advice, 'one route without them proves nothing once another had them').toEqual([]);
  });

  it('is forgotten with the process', async () => {
    await world.started({ name: 'vllm' });
    for (let i = 0; i < 3; i += 1) world.fleet.noteAnswer('vllm', { usage: true, cached: false });
    world.fleet.report('vllm', { kind: 'connectFailed', fault: 'refused' });
    expect(world.view('vllm').advice).toEqual([]);
  });

  it('is not given for cached tokens where the engine always reports them', async () => {
    await world.started({ name: 'llama' });
    for (let i = 0; i < 5; i += 1) world.fleet.noteAnswer('llama', { usage: true, cached: false });
    expect(world.view('llama').advice).toEqual([]);
  });

  it('for the prefix cache of vLLM stays when facts are read again', async () => {
    world.vllm.answers['/metrics'] = vllmMetrics('block_size="16",enable_prefix_caching="False",num_gpu_blocks="5"');
    await world.started({ name: 'vllm' });
    await world.pass(70_000);
    expect(world.view('vllm').advice).toHaveLength(1);
    expect(world.changes).toBe(0);
  });

  it('warns of more in flight than llama-server has slots, and of what that does to its threads', async () => {
    await world.started({ name: 'llama', maxInFlight: 12 });
    expect(world.view('llama').advice).toEqual([
      expect.stringContaining('12 requests may be in flight on 2 slots'),
      expect.stringContaining('--threads-http 20'),
    ]);
  });

  it('asks for the port where something answers that is no model server, and only there', async () => {
    world.llama.answers = {};
    await world.started({ name: 'llama' });
    expect(world.view('llama')).toMatchObject({ health: 'up', engineKnown: false });
    expect(world.view('llama').advice).toEqual(['answers, but shows no models: is this the right port?']);
    world.llama.otherwise = { status: 401, headers: {}, body: '' };
    await world.pass(10_000);
    expect(world.view('llama')).toMatchObject({ health: 'auth', advice: [] });
  });

  it('does not ask for the port where the configuration says what is there', async () => {
    world.llama.answers = {};
    await world.started({ name: 'llama', models: ['m'] });
    expect(world.view('llama')).toMatchObject({ health: 'up', advice: [] });
  });
});
