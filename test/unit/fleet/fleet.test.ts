import { describe, expect, it } from 'vitest';
import { createFleetWorld, pauses } from './fleet-world.ts';
import { ok, refused, vllmModels } from './scripted-backend.ts';

const world = createFleetWorld();

describe('start', () => {
  it('asks all at once and ends when each was heard or gave up', async () => {
    world.llama.otherwise = 'hang';
    world.llama.answers = {};
    world.build({ name: 'vllm' }, { name: 'llama' });
    let ended = false;
    const starting = world.fleet.start().then(() => (ended = true));
    await world.pass(pauses.probeTimeoutMs - 1, 799);
    expect(ended).toBe(false);
    expect(world.view('vllm').health).toBe('up');
    await world.pass(1);
    await starting;
    expect(world.view('llama')).toMatchObject({ health: 'down', healthReason: 'timeout', engineKnown: false });
  });

  it('asked for twice is done once', async () => {
    world.vllm.answers['/v1/models'] = { afterMs: 100, result: vllmModels() };
    world.build({ name: 'vllm' });
    const starting = world.fleet.start();
    await world.fleet.start();
    await world.pass(200);
    await starting;
    expect(world.vllm.take().filter((path) => path === '/v1/models')).toHaveLength(1);
  });

  it('shows what was found', async () => {
    await world.started({ name: 'llama' }, { name: 'vllm' });
    expect(world.view('llama')).toEqual({
      name: 'llama',
      url: 'http://llama',
      engine: 'llama-server',
      engineKnown: true,
      version: 'b1-7e4c0a9',
      health: 'up',
      healthReason: 'answers',
      healthSinceMs: 1,
      models: ['smollm2', 'small'],
      slots: 2,
      ghostSlots: 0,
      contextTokens: 2048,
      advice: [],
    });
    expect(world.view('vllm')).toMatchObject({
      engine: 'vllm',
      version: '0.32.0',
      contextTokens: 32768,
      blockTokens: 16,
    });
    expect(world.view('vllm')).not.toHaveProperty('slots');
  });

  it('lets the config overrule findings', async () => {
    await world.started({ name: 'llama', models: ['mine'], maxInFlight: 1 }, { name: 'vllm', maxInFlight: 64 });
    expect(world.view('llama')).toMatchObject({ models: ['mine'], slots: 1 });
    expect(world.view('vllm').slots).toBe(64);
  });

  it('an unprobed backend is unknown and serves anything', () => {
    world.build({ name: 'vllm' }, { name: 'llama', engine: 'llama-server' });
    expect(world.view('vllm')).toMatchObject({ health: 'unknown', engineKnown: false, models: [] });
    expect(world.view('llama')).toMatchObject({ engine: 'llama-server', engineKnown: true });
  });
});

describe('snapshots', () => {
  it('are frozen, and the same object until something changes', async () => {
    await world.started({ name: 'vllm' });
    const before = world.fleet.snapshot();
    expect(world.fleet.snapshot()).toBe(before);
    expect([before, before.backends, before.backends[0], before.backends[0]?.models].every(Object.isFrozen)).toBe(true);
    await world.pass(20_000);
    world.fleet.report('vllm', { kind: 'answered', sentMs: world.clock.nowMs(), generates: true });
    expect(world.fleet.snapshot(), 'good probes and answers are no change').toBe(before);
    expect(world.changes).toBe(0);
    world.fleet.report('vllm', { kind: 'engineDied' });
    expect(world.changes).toBe(1);
    expect(world.fleet.snapshot()).not.toBe(before);
    expect(before.backends[0]?.health).toBe('up');
  });

  it('a listener hears the new snapshot, and nothing after it left', async () => {
    await world.started({ name: 'vllm' });
    const heard: string[] = [];
    const leave = world.fleet.onChange((snapshot) => heard.push(snapshot.backends[0]?.health ?? ''));
    world.fleet.report('vllm', { kind: 'drainingAnswer' });
    leave();
    world.fleet.report('vllm', { kind: 'engineDied' });
    expect(heard).toEqual(['draining']);
  });

  it('a backend that is not there is ignored', async () => {
    await world.started({ name: 'vllm' });
    world.fleet.report('gone', { kind: 'engineDied' });
    world.fleet.ghost('gone', 1);
    world.fleet.noteAnswer('gone', { usage: true, cached: false });
    world.fleet.watchQuiet('gone')();
    world.fleet.holdProbes('gone')();
    expect(world.fleet.snapshot().backends).toHaveLength(1);
  });
});

describe('calm probing', () => {
  it('asks one that is up for its health alone, at the pause of the config', async () => {
    await world.started({ name: 'llama' }, { name: 'vllm' });
    await world.pass(20_000);
    expect(world.llama.take()).toEqual(['/health', '/health', '/health', '/health']);
    expect(world.vllm.take()).toEqual(['/health', '/health', '/health', '/health']);
  });

  it('reads facts anew once a minute: models come and go', async () => {
    await world.started({ name: 'vllm' });
    world.vllm.answers['/v1/models'] = vllmModels('m2');
    await world.pass(59_000);
    expect(world.view('vllm').models).toEqual(['m1', 'my-lora']);
    await world.pass(6000);
    expect(world.view('vllm').models).toEqual(['m2', 'my-lora']);
    expect(world.changes).toBe(1);
  });

  it('reads them anew when something was changed there on purpose', async () => {
    await world.started({ name: 'vllm' });
    world.vllm.answers['/v1/models'] = vllmModels('m2');
    world.fleet.report('vllm', { kind: 'changed' });
    await world.pass(500);
    expect(world.view('vllm').models).toEqual(['m2', 'my-lora']);
  });

  it('a change that comes while facts are read is read after them', async () => {
    await world.started({ name: 'vllm' });
    world.fleet.report('vllm', { kind: 'changed' });
    world.vllm.answers['/version'] = { afterMs: 200, result: ok({ version: '0.32.0' }) };
    await world.pass(100);
    world.vllm.answers['/v1/models'] = vllmModels('m2');
    world.fleet.report('vllm', { kind: 'changed' });
    await world.pass(1000);
    expect(world.view('vllm').models).toEqual(['m2', 'my-lora']);
  });

  it('the list of models of an unknown engine is its health and its facts in one question', async () => {
    world.vllm.answers = { '/v1/models': ok({ data: [{ id: 'a' }] }) };
    await world.started({ name: 'vllm' });
    world.vllm.answers = { '/v1/models': ok({ data: [{ id: 'a' }, { id: 'b' }] }) };
    await world.pass(5000);
    expect(world.vllm.take()).toEqual(['/v1/models']);
    expect(world.view('vllm')).toMatchObject({ engine: 'openai', engineKnown: true, models: ['a', 'b'] });
  });

  it('stops when told so, and what comes late changes nothing', async () => {
    await world.started({ name: 'vllm' });
    world.vllm.answers['/health'] = { afterMs: 500, result: refused };
    await world.pass(4400);
    expect(world.vllm.take()).toEqual(['/health']);
    world.fleet.stop();
    world.fleet.report('vllm', { kind: 'resetBeforeHead' });
    await world.pass(20_000, 500);
    expect(world.vllm.take()).toEqual([]);
    expect(world.view('vllm').health).toBe('up');
  });
});
