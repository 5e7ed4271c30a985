/** The Batch API before a llama-server of its own, whose template has tools; before vLLM it is in `vllm.test.ts`. */
import { afterAll, beforeAll, describe } from 'vitest';
import { batchSuite } from './batch-suite.ts';
import type { Engine } from './engine.ts';
import { installed } from './installed.ts';
import { startLlamaServer } from './llama-server.ts';
import { known } from './reading.ts';

describe.runIf(installed('llama-server'))('llama-server', () => {
  let running: Engine | undefined;
  beforeAll(async () => {
    running = await startLlamaServer();
  });
  afterAll(() => running?.stop());

  batchSuite('llama-server', () => ({ engine: known(running, 'the engine') }));
});
