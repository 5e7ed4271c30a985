/** Lanes before a vLLM with priority scheduling, which needs a start of its own: run with REAL_SERVERS_LONG=1. */
import { afterAll, beforeAll, describe } from 'vitest';
import { startBench, type Bench } from './bench.ts';
import { installed, longForm } from './installed.ts';
import { vllmLanesSuite } from './lanes-vllm-suite.ts';
import { known } from './reading.ts';
import { startVllm, vllmFlags } from './vllm.ts';

describe.runIf(longForm && installed('vllm'))('vLLM with priority scheduling', () => {
  let running: Bench | undefined;
  beforeAll(async () => {
    running = await startBench(() => startVllm([...vllmFlags, '--scheduling-policy', 'priority']));
  });
  afterAll(() => running?.stop());

  vllmLanesSuite('priority', () => known(running, 'the bench'));
});
