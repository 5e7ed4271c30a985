/**
 * Findings that need an engine of their own making: a KV cache too small for what runs, and speculation. One start of each
 * engine. What needs no special engine is in `findings-suite.ts`.
 */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { freshPrompt, newRequestId, streamedChat, withId } from './dialects.ts';
import type { Engine } from './engine.ts';
import { findings, send, untilFound, withWarmlane } from './findings-suite.ts';
import { installed } from './installed.ts';
import { startLlamaServer } from './llama-server.ts';
import { known } from './reading.ts';
import { startVllm } from './vllm.ts';

describe.runIf(installed('llama-server'))('findings on llama-server', () => {
  it('R08 a context shared by all slots that ran full is KV exhaustion', async () => {
    const engine = await startLlamaServer([
      '-np',
      '2',
      '-c',
      '512',
      '-kvu',
      '-t',
      '1',
      '-cram',
      '0',
      '--metrics',
      '--slots',
    ]);
    try {
      await withWarmlane(engine.url, async (warmlane) => {
        await Promise.all([1, 2].map(() => send(warmlane, streamedChat(freshPrompt(), 400)).catch(() => undefined)));
        const found = await untilFound(warmlane, 'kv_exhaustion');
        expect(found.evidence['brokenAnswers']).toBeGreaterThan(0);
      });
    } finally {
      await engine.stop();
    }
  });
});

/**
 * 24 blocks of 32 tokens: four answers of 400 tokens are preempted when each is half done, and who was waits until another
 * has ended: a hundred steps and more, on a machine of any speed. And n-gram speculation.
 */
const tight = [
  ...['--max-model-len', '512', '--max-num-seqs', '4', '--block-size', '32', '--num-gpu-blocks-override', '24'],
  ...['--enforce-eager', '--enable-prompt-tokens-details'],
  '--speculative-config',
  '{"method":"ngram","num_speculative_tokens":4,"prompt_lookup_max":3,"prompt_lookup_min":2}',
];

describe.runIf(installed('vllm'))('findings on vLLM', () => {
  let running: Engine | undefined;
  const engine = () => known(running, 'vLLM');

  beforeAll(async () => {
    running = await startVllm(tight);
  });
  afterAll(() => running?.stop());

  it('R16 n-gram speculation is named, with its acceptance by the engine’s own counters', async () => {
    await withWarmlane(engine().url, async (warmlane) => {
      await send(
        warmlane,
        streamedChat(freshPrompt('Say the same again and again: one two three, one two three, one two three.'), 80),
      );
      await send(
        warmlane,
        streamedChat(freshPrompt('Say the same again and again: one two three, one two three, one two three.'), 80),
      );
      const found = await untilFound(warmlane, 'speculation');
      expect(found.evidence).toMatchObject({ source: 'engine' });
      expect(found.evidence['acceptedPercent']).toBeGreaterThan(0);
      expect(found.evidence['acceptedPercent']).toBeLessThanOrEqual(100);
      expect((await findings(warmlane)).map(({ finding }) => finding)).toEqual(['speculation']);
    });
  });

  it('preemption and KV exhaustion are named when answers outgrow the cache, with the victim and its gap', async () => {
    await withWarmlane(engine().url, async (warmlane) => {
      const ids = [1, 2, 3, 4].map(() => newRequestId());
      await Promise.all(ids.map((id) => send(warmlane, withId(streamedChat(freshPrompt(), 400), id))));
      const preemption = await untilFound(warmlane, 'preemption', 'victim');
      expect(preemption.evidence['preemptions']).toBeGreaterThan(0);
      expect(ids).toContain(preemption.evidence['victim']);
      expect(preemption.evidence['gapMs']).toBeGreaterThan(500);
      const exhaustion = await untilFound(warmlane, 'kv_exhaustion');
      // Read every two seconds, and a preemption itself frees blocks in between.
      expect(exhaustion.evidence['kvUsedPercent']).toBeGreaterThan(50);
      const all = await findings(warmlane);
      const named = all.map(({ finding }) => finding);
      // The four don't begin in the same step: a prompt of 45 tokens may hold the first one up, a preemption's gap is no stall.
      const stall = all.find(({ finding }) => finding === 'prefill_stall');
      expect(stall?.evidence['worstMs'] ?? 0).toBeLessThan(Number(preemption.evidence['gapMs']));
      expect(named).not.toContain('foreign_traffic');
      expect(named).not.toContain('buffering');
    });
  });
});
