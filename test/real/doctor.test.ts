/** `warmlane doctor`, with and without `--cache`, before the real engines: it must find the truth of each. */
import { afterEach, describe, expect, it } from 'vitest';
import { doctor } from '../support/doctor.ts';
import type { Engine } from './engine.ts';
import { installed } from './installed.ts';
import { llamaServerFlags, startLlamaServer } from './llama-server.ts';
import { startVllm } from './vllm.ts';
import { startWarmlane } from './warmlane.ts';

const running: { stop(): Promise<void> }[] = [];
afterEach(async () => {
  for (const server of running.splice(0).toReversed()) await server.stop();
});
async function started(start: Promise<Engine>): Promise<Engine> {
  const engine = await start;
  running.push(engine);
  return engine;
}

/** Three are enough to see a hit beside a prompt that takes a second or more. */
const cache = ['--cache', '--rounds', '3'];
const patientMs = 600_000;

describe.runIf(installed('llama-server'))('doctor before llama-server', () => {
  /** Single tokens show in short prompts as well. */
  const short = [...cache, '--prompt-tokens', '300'];
  const plainFlags = ['-np', '2', '-c', '4096', '-t', '1', '--metrics', '--slots'];

  it(
    'single tokens, a slot for each, and a RAM cache beside them',
    async () => {
      const { reading, of, exitCode } = await doctor((await started(startLlamaServer(plainFlags))).url, short);
      expect(reading).toMatchObject({
        kind: 'prefixes',
        by: 'counts',
        sources: ['usage', 'timings', 'progress'],
        granularity: { kind: 'tokens' },
        hits: { repeat: 'hit', continuation: 'hit', session: 'hit', concurrent: 'miss', displaced: 'hit' },
        changedFirst: { hit: 'miss' },
      });
      expect(reading?.savedMs).toBeGreaterThan(100);
      expect(of('cache.size')).toContain('2 slots of 2048 tokens; and a RAM cache beside them');
      expect(exitCode).toBe(0);
    },
    patientMs,
  );

  it(
    'without the RAM cache a prompt is lost to others; tools count, and their order too',
    async () => {
      const { reading } = await doctor((await started(startLlamaServer(llamaServerFlags))).url, short);
      expect(reading).toMatchObject({ kind: 'prefixes', hits: { displaced: 'miss' }, tools: { state: 'used' } });
      expect(reading?.tools.reordered).toBeLessThan(reading?.tools.same ?? 0);
    },
    patientMs,
  );

  it(
    'switched off',
    async () => {
      const flags = [...plainFlags, '--no-cache-prompt'];
      const { reading, of } = await doctor((await started(startLlamaServer(flags))).url, short);
      expect(reading).toMatchObject({ kind: 'none', by: 'counts' });
      expect(of('cache.kind')).toContain('prompts are not cached');
    },
    patientMs,
  );

  it(
    'R01 R09 R10 as it comes: closes after streams, notices aborts late where it does',
    async () => {
      const { of, exitCode } = await doctor((await started(startLlamaServer(plainFlags))).url);
      expect(of('engine')).toMatch(/^ok llama-server/);
      expect(of('buffering.spread')).toMatch(/^ok/);
      expect(of('keep_alive.stream')).toContain('though its headers promise to keep it');
      expect(of('abort.decode')).toBe('ok reaches the engine');
      expect(of('abort.prefill')).toMatch(/^(warn the engine noticed late|ok)/);
      expect(of('abort.queued')).toMatch(/^warn .*stays in the queue/);
      expect(exitCode).toBe(0);
    },
    patientMs,
  );

  it(
    'behind warmlane: the marker is there, connections are kept, nothing waits in the engine',
    async () => {
      const engine = await started(startLlamaServer(llamaServerFlags));
      const warmlane = await startWarmlane([engine.url]);
      running.push(warmlane);
      const { of, exitCode } = await doctor(warmlane.url);
      expect(of('gateway')).toBe('ok warmlane');
      expect(of('buffering.markers')).toMatch(/^ok/);
      expect(of('keep_alive.stream')).toMatch(/^ok/);
      expect(of('abort.decode')).toMatch(/^ok/);
      expect(of('abort.queued')).toBe('ok requests wait in front of the engine, where leaving is immediate');
      expect(exitCode).toBe(0);
    },
    patientMs,
  );
});

describe.runIf(installed('vllm'))('doctor before vLLM', () => {
  const flags = (...more: readonly string[]) => [
    ...['--max-model-len', '2048', '--max-num-seqs', '4', '--enforce-eager', '--shutdown-timeout', '20'],
    ...more,
  ];
  const shared = {
    kind: 'prefixes',
    by: 'counts',
    hits: { repeat: 'hit', continuation: 'hit', session: 'hit', concurrent: 'hit' },
    changedFirst: { hit: 'miss' },
    tools: { state: 'used' },
  };

  it(
    'blocks of 32 that every request shares, reported in answers; and nothing amiss otherwise',
    async () => {
      const { url } = await started(startVllm(flags('--block-size', '32', '--enable-prompt-tokens-details')));
      const { reading, of } = await doctor(url, cache);
      expect(reading).toMatchObject({ ...shared, sources: ['usage'], granularity: { kind: 'blocks', tokens: 32 } });
      expect(reading?.savedMs).toBeGreaterThan(50);
      expect(of('cache.size')).toContain('blocks of 32');
      const look = await doctor(url);
      expect(look.of('engine')).toMatch(/^ok vllm/);
      expect(look.of('buffering.spread')).toMatch(/^ok/);
      expect(look.of('keep_alive.stream')).toMatch(/^ok/);
      expect(look.of('abort.decode')).toBe('ok reaches the engine');
      expect(look.of('abort.prefill')).not.toMatch(/^bad/);
      expect(look.of('usage.per_event')).toContain('gives counts in every event');
      expect(look.exitCode).toBe(0);
    },
    patientMs,
  );

  it(
    'blocks of 128, told by its counters alone',
    async () => {
      const { url } = await started(startVllm(flags('--block-size', '128')));
      const { reading, of } = await doctor(url, cache);
      expect(reading).toMatchObject({ ...shared, sources: ['counters'], granularity: { kind: 'blocks', tokens: 128 } });
      expect(of('cache.reports')).toMatch(/^warn answers do not report hits/);
    },
    patientMs,
  );

  it(
    'switched off',
    async () => {
      const { url } = await started(startVllm(flags('--block-size', '32', '--no-enable-prefix-caching')));
      const { reading, of } = await doctor(url, cache);
      expect(reading).toMatchObject({ kind: 'none' });
      expect(of('cache.kind')).toContain('prefix caching is switched off');
    },
    patientMs,
  );
});
