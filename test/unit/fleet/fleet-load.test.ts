import { describe, expect, it } from 'vitest';
import { createFleetWorld } from './fleet-world.ts';
import { llamaHeaders, llamaProps, llamaSlots, ok, status } from './scripted-backend.ts';

const world = createFleetWorld();

describe('a busy backend', () => {
  it('R12 C068 is not called dead for a late /health, and the advice says why it may be late', async () => {
    await world.started({ name: 'llama' });
    world.llama.answers['/health'] = 'hang';
    world.own['llama'] = { jobs: 2, slots: 2 };
    await world.pass(30_000);
    expect(world.view('llama').health).toBe('up');
    expect(world.view('llama').advice).toEqual([expect.stringContaining('--threads-http 10')]);
  });

  it('R12 is not called dead for an answer that was late while the last request ended', async () => {
    await world.started({ name: 'llama' });
    world.llama.answers['/health'] = 'hang';
    for (let i = 0; i < 5; i += 1) {
      world.own['llama'] = { jobs: 1, slots: 1 };
      await world.pass(4950);
      world.own['llama'] = { jobs: 0, slots: 0 };
      await world.pass(850);
    }
    expect(world.view('llama').health).toBe('up');
  });

  it('is dead when it does not answer and nothing of ours runs there', async () => {
    await world.started({ name: 'llama' });
    world.llama.answers['/health'] = 'hang';
    await world.pass(8000);
    expect(world.view('llama')).toMatchObject({ health: 'down', healthReason: 'timeout', advice: [] });
  });
});

describe('ghosts', () => {
  it('R10 R13 count until /slots shows them gone, first looked for after two seconds', async () => {
    await world.started({ name: 'llama' });
    world.llama.answers['/slots'] = llamaSlots(true, true);
    world.own['llama'] = { jobs: 1, slots: 1 };
    await world.pass(1000);
    world.fleet.ghost('llama', 1);
    expect(world.view('llama').ghostSlots).toBe(1);
    await world.pass(1950);
    expect(world.llama.take()).toEqual([]);
    await world.pass(100);
    expect(world.llama.take()).toEqual(['/health', '/props', '/slots']);
    expect(world.view('llama').ghostSlots).toBe(1);
    world.llama.answers['/slots'] = llamaSlots(true, false);
    await world.pass(2000);
    expect(world.view('llama').ghostSlots).toBe(0);
    world.llama.take();
    await world.pass(10_000);
    expect(world.llama.take(), 'no ghost, no /slots').toEqual(['/health', '/health']);
  });

  it('R13 a round for another reason, right after a ghost came, leaves /slots alone', async () => {
    await world.started({ name: 'llama' });
    await world.pass(3000);
    world.fleet.ghost('llama', 1);
    await world.pass(100);
    world.fleet.report('llama', { kind: 'resetBeforeHead' });
    await world.pass(100);
    expect(world.llama.take()).toEqual(['/health']);
    expect(world.view('llama').ghostSlots).toBe(1);
  });

  it('R10 do not outlive ten minutes', async () => {
    await world.started({ name: 'llama' });
    world.llama.answers['/slots'] = llamaSlots(true, true);
    world.fleet.ghost('llama', 2);
    await world.pass(599_000, 500);
    expect(world.view('llama').ghostSlots).toBe(2);
    await world.pass(1000);
    expect(world.view('llama').ghostSlots).toBe(0);
  });

  it('R10 where /slots is closed, do not outlive half a minute', async () => {
    world.llama.answers['/props'] = llamaProps({ endpoint_slots: false });
    await world.started({ name: 'llama' });
    world.fleet.ghost('llama', 1);
    await world.pass(29_900);
    expect(world.view('llama').ghostSlots).toBe(1);
    expect(world.llama.take()).not.toContain('/slots');
    await world.pass(100);
    expect(world.view('llama').ghostSlots).toBe(0);
  });

  it('R10 end when a later request got the only slot', async () => {
    world.llama.answers['/props'] = llamaProps({ total_slots: 1 });
    await world.started({ name: 'llama' });
    world.fleet.ghost('llama', 1);
    world.clock.advance(100);
    world.fleet.report('llama', { kind: 'answered', sentMs: world.clock.nowMs(), generates: false });
    expect(world.view('llama').ghostSlots, 'that one needed no slot').toBe(1);
    world.fleet.report('llama', { kind: 'answered', sentMs: world.clock.nowMs(), generates: true });
    expect(world.view('llama').ghostSlots).toBe(0);
  });

  it('end when the server sleeps, and /slots does not wake it', async () => {
    await world.started({ name: 'llama' });
    world.fleet.ghost('llama', 1);
    world.llama.answers['/props'] = llamaProps({ is_sleeping: true });
    await world.pass(2100);
    expect(world.view('llama').ghostSlots).toBe(0);
    expect(world.llama.take()).not.toContain('/slots');
  });

  it('end with the process', async () => {
    await world.started({ name: 'llama' });
    world.fleet.ghost('llama', 1);
    world.fleet.report('llama', { kind: 'connectFailed', fault: 'refused' });
    expect(world.view('llama').ghostSlots).toBe(0);
  });

  it('a /slots that says nothing leaves them as they are', async () => {
    await world.started({ name: 'llama' });
    world.fleet.ghost('llama', 1);
    world.llama.answers['/slots'] = status(501, { error: { message: 'off' } }, llamaHeaders);
    await world.pass(4200);
    world.llama.answers['/slots'] = ok([{ id: 0 }], llamaHeaders);
    await world.pass(4200);
    expect(world.view('llama').ghostSlots).toBe(1);
  });

  it('are llama-server’s alone', async () => {
    await world.started({ name: 'vllm', maxInFlight: 4 });
    world.fleet.ghost('vllm', 1);
    expect(world.view('vllm').ghostSlots).toBe(0);
  });
});

describe('R13 a pending abort', () => {
  it('keeps all probes of that backend back, and they come when it is over', async () => {
    await world.started({ name: 'llama' }, { name: 'vllm' });
    await world.pass(3000);
    const first = world.fleet.holdProbes('llama');
    const second = world.fleet.holdProbes('llama');
    await world.pass(4000);
    expect(world.llama.take()).toEqual([]);
    expect(world.vllm.take()).toEqual(['/health']);
    first();
    first();
    await world.pass(1000);
    expect(world.llama.take()).toEqual([]);
    second();
    await world.pass(50);
    expect(world.llama.take()).toEqual(['/health']);
  });

  it('never blinds the fleet for long, though aborts follow one another', async () => {
    await world.started({ name: 'llama' });
    world.fleet.holdProbes('llama');
    await world.pass(59_000);
    expect(world.llama.take()).toEqual(['/health', '/health', '/health']);
  });
});
