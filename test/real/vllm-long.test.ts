/** The ends of a vLLM that each need a start of their own, half a minute to two: run with REAL_SERVERS_LONG=1. */
import { readFileSync } from 'node:fs';
import { afterEach, describe, expect, it } from 'vitest';
import { startBench } from './bench.ts';
import { until } from './child-process.ts';
import { freshPrompt, streamedChat } from './dialects.ts';
import { installed, longForm } from './installed.ts';
import { known, only, start } from './reading.ts';
import { startVllm, vllmAbruptFlags } from './vllm.ts';
import { startWarmlane } from './warmlane.ts';

describe.runIf(longForm && installed('vllm'))('vLLM that ends', () => {
  const toStop: { stop(): Promise<void> }[] = [];
  afterEach(async () => {
    for (const started of toStop.splice(0).toReversed()) await started.stop();
  });

  // Which of the two the engine does is a race within it: mostly it tells, with several streams it rather falls silent.
  it('R04 SIGTERM with a stream open is no success, whether the stream falls silent or tells of the engine', async () => {
    // No tap: it would go on accepting connections for a server that is gone.
    const engine = await startVllm(vllmAbruptFlags);
    toStop.push(engine);
    const warmlane = await startWarmlane([engine.url]);
    toStop.push(warmlane);
    const { call, requestId } = start({ warmlane }, streamedChat(freshPrompt(), 600));
    await call.untilEvents(6);
    const killedMs = performance.now();
    engine.process.signal('SIGTERM');
    const answer = await call.done;
    expect(performance.now() - killedMs).toBeLessThan(30_000);
    const told = answer.text.includes('EngineCore encountered an issue');
    expect(answer.complete).toBe(told);
    expect(answer.text.includes('[DONE]')).toBe(told);
    expect(answer.text).toContain(told ? '"code": 500' : '"code":"backend_lost"');
    expect(answer.text).not.toMatch(/"finish_reason":\s*"/);
    expect(await warmlane.record(requestId)).toMatchObject({ outcome: 'upstream_error' });
    expect(await warmlane.running()).toHaveLength(0);
  }, 480_000);

  it('R06 a killed engine process ends streams as if all were well: bytes pass, the record says upstream_error', async () => {
    const bench = await startBench(() => startVllm(vllmAbruptFlags));
    toStop.push(bench);
    const { engine, warmlane, tap } = bench;
    const { call, requestId } = start({ warmlane }, streamedChat(freshPrompt(), 600));
    await call.untilEvents(6);
    process.kill(engineCoreOf(engine.process.pid), 'SIGKILL');
    const answer = await call.done;
    expect(answer.text).toContain('"error"');
    expect(answer.events.at(-1)?.data).toBe('[DONE]');
    expect(answer.payload.equals(known(only(tap.find(requestId)).response, 'response').payload)).toBe(true);
    expect(await warmlane.record(requestId)).toMatchObject({ outcome: 'upstream_error' });
    await until('the backend to be seen as down', async () =>
      (await warmlane.backends())[0]?.health === 'down' ? true : undefined,
    );
  }, 480_000);
});

/** The pid of the engine process that this server started. */
function engineCoreOf(serverPid: number): number {
  const children = readFileSync(`/proc/${serverPid}/task/${serverPid}/children`, 'utf8').trim().split(' ');
  const pid = children.find((child) => readFileSync(`/proc/${child}/comm`, 'utf8').startsWith('VLLM::EngineCor'));
  return Number(known(pid, 'the engine process'));
}
