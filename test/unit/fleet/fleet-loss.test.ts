import { describe, expect, it } from 'vitest';
import { createFleetWorld } from './fleet-world.ts';
import { llamaAnswers, llamaLoading, llamaProps, ok, refused, status, vllmModels } from './scripted-backend.ts';

const world = createFleetWorld();

describe('loss and return', () => {
  it('C064 one that refused for three seconds is up again within one pause, without help', async () => {
    await world.started({ name: 'llama' });
    const answers = world.llama.answers;
    world.llama.answers = {};
    world.llama.otherwise = refused;
    world.fleet.report('llama', { kind: 'connectFailed', fault: 'refused' });
    expect(world.view('llama')).toMatchObject({ health: 'down', healthReason: 'refused' });
    await world.pass(3000);
    expect(world.view('llama').health).toBe('down');
    world.llama.answers = answers;
    await world.pass(1100);
    expect(world.view('llama').health).toBe('up');
  });

  it('a restart is detected anew, even as another server', async () => {
    await world.started({ name: 'vllm' });
    world.vllm.otherwise = refused;
    world.vllm.answers = {};
    await world.pass(5000);
    expect(world.view('vllm')).toMatchObject({ health: 'down', engine: 'vllm' });
    world.vllm.answers = llamaAnswers();
    await world.pass(1100);
    expect(world.view('vllm')).toMatchObject({
      health: 'up',
      engine: 'llama-server',
      slots: 2,
      models: ['smollm2', 'small'],
    });
    expect(world.view('vllm')).not.toHaveProperty('blockTokens');
  });

  it('while it is down one question a second is all, while its model loads too', async () => {
    world.llama.otherwise = refused;
    world.llama.answers = {};
    await world.started({ name: 'llama' });
    await world.pass(3000);
    expect(world.llama.take()).toHaveLength(3);
    world.llama.otherwise = llamaLoading;
    await world.pass(1000);
    expect(world.view('llama')).toMatchObject({ health: 'loading', engine: 'llama-server', engineKnown: true });
    world.llama.take();
    await world.pass(3000);
    expect(world.llama.take()).toEqual(['/health', '/health', '/health']);
    world.llama.answers = llamaAnswers();
    await world.pass(1000);
    expect(world.view('llama')).toMatchObject({ health: 'up', slots: 2 });
  });

  it('one that loads after a restart keeps the slots of its predecessor until it tells its own', async () => {
    await world.started({ name: 'llama' });
    world.llama.otherwise = llamaLoading;
    world.llama.answers = {};
    await world.pass(5000);
    expect(world.view('llama')).toMatchObject({ health: 'loading', slots: 2, models: ['smollm2', 'small'] });
    world.llama.answers = { ...llamaAnswers(), '/props': llamaProps({ total_slots: 8 }) };
    await world.pass(1000);
    expect(world.view('llama')).toMatchObject({ health: 'up', slots: 8 });
  });

  it('a doubt raised by traffic is looked into within a quarter of a second', async () => {
    await world.started({ name: 'vllm' });
    await world.pass(1000);
    world.vllm.take();
    world.vllm.answers['/health'] = refused;
    world.fleet.report('vllm', { kind: 'resetBeforeHead' });
    expect(world.view('vllm').health).toBe('up');
    await world.pass(250);
    expect(world.view('vllm')).toMatchObject({ health: 'down', healthReason: 'refused' });
    for (let i = 0; i < 100; i += 1) world.fleet.report('vllm', { kind: 'resetBeforeHead' });
    world.vllm.take();
    await world.pass(1000);
    expect(world.vllm.take().length, 'a storm of doubts is no storm of probes').toBeLessThanOrEqual(4);
  });

  it('one that an answer brought back has its facts read at once', async () => {
    await world.started({ name: 'vllm' });
    world.vllm.answers['/health'] = status(503);
    world.fleet.report('vllm', { kind: 'engineDied' });
    await world.pass(300);
    world.vllm.answers = llamaAnswers();
    world.clock.advance(10);
    world.fleet.report('vllm', { kind: 'answered', sentMs: world.clock.nowMs(), generates: true });
    expect(world.view('vllm')).toMatchObject({ health: 'up', engine: 'vllm' });
    await world.pass(300);
    expect(world.view('vllm').engine).toBe('llama-server');
  });

  it('C069 a refused key is shown as auth, and mended by a probe that passes', async () => {
    world.vllm.answers['/v1/models'] = status(401, { error: 'Unauthorized' });
    await world.started({ name: 'vllm' });
    expect(world.view('vllm')).toMatchObject({ health: 'auth', engine: 'vllm', healthReason: 'key_refused' });
    await world.pass(15_000);
    expect(world.view('vllm').health, '/health is open: it must not hide the key').toBe('auth');
    world.vllm.answers['/v1/models'] = vllmModels();
    await world.pass(5000);
    expect(world.view('vllm')).toMatchObject({ health: 'up', models: ['m1', 'my-lora'] });
  });
});

describe('shutting down and dying', () => {
  it('R05 a vLLM that drains takes nothing new while /health is good, until it has restarted', async () => {
    await world.started({ name: 'vllm' });
    world.fleet.report('vllm', { kind: 'drainingAnswer' });
    expect(world.view('vllm').health).toBe('draining');
    await world.pass(20_000);
    expect(world.view('vllm').health).toBe('draining');
    expect(new Set(world.vllm.take())).toEqual(new Set(['/health']));
    const answers = world.vllm.answers;
    world.vllm.answers = {};
    world.vllm.otherwise = refused;
    await world.pass(5000);
    expect(world.view('vllm').health).toBe('down');
    world.vllm.answers = { ...answers, '/version': ok({ version: '0.33.0' }) };
    await world.pass(1000);
    expect(world.view('vllm')).toMatchObject({ health: 'up', version: '0.33.0' });
  });

  it('R06 an engine that reported its death is down at once, and up when it is back', async () => {
    await world.started({ name: 'vllm' });
    world.vllm.answers['/health'] = status(503);
    world.fleet.report('vllm', { kind: 'engineDied' });
    expect(world.view('vllm')).toMatchObject({ health: 'down', healthReason: 'engine_dead' });
    await world.pass(3000);
    expect(world.view('vllm').health).toBe('down');
    expect(new Set(world.vllm.take()), 'its facts are not read while it is dead').toEqual(new Set(['/health']));
    world.vllm.answers['/health'] = ok('');
    await world.pass(1000);
    expect(world.view('vllm').health).toBe('up');
  });

  it('R04 R07 tells when the port begins to refuse, once', async () => {
    await world.started({ name: 'vllm' });
    world.vllm.answers['/health'] = refused;
    await world.pass(5000);
    expect(world.refusals).toEqual(['vllm']);
    await world.pass(5000);
    expect(world.refusals).toEqual(['vllm']);
  });

  it('R04 a silent stream finds the refusal within a second or so, and others hear of it while they are silent', async () => {
    await world.started({ name: 'vllm' });
    await world.pass(1500);
    world.vllm.answers['/health'] = refused;
    const first = world.fleet.watchQuiet('vllm');
    await world.pass(1000);
    expect(world.refusals).toEqual(['vllm']);
    const second = world.fleet.watchQuiet('vllm');
    first();
    first();
    await world.pass(1000);
    expect(world.refusals).toEqual(['vllm', 'vllm']);
    second();
    await world.pass(5000);
    expect(world.refusals).toHaveLength(2);
  });

  it('a silent stream makes at most one question a second, however many are silent', async () => {
    await world.started({ name: 'vllm' });
    const leave = Array.from({ length: 50 }, () => world.fleet.watchQuiet('vllm'));
    await world.pass(10_000);
    expect(world.vllm.take().length).toBeLessThanOrEqual(10);
    expect(world.vllm.asked.length).toBeGreaterThan(8);
    for (const one of leave) one();
    await world.pass(10_000);
    expect(world.vllm.take()).toEqual(['/health', '/health']);
  });

  it('R04 traffic that is refused tells it too', async () => {
    await world.started({ name: 'vllm' });
    world.fleet.report('vllm', { kind: 'connectFailed', fault: 'refused' });
    world.fleet.report('vllm', { kind: 'connectFailed', fault: 'refused' });
    expect(world.refusals).toEqual(['vllm']);
  });
});
