/**
 * warmlane's figures under load, held against llama-server's own and against AIPerf's. One start of the engine, with four
 * slots. The same against vLLM stands in `vllm.test.ts`, on the one start there.
 */
import { afterAll, beforeAll, describe } from 'vitest';
import { aiperfSuite } from './aiperf-suite.ts';
import { startBench, type Bench } from './bench.ts';
import { installed } from './installed.ts';
import { llamaServerFlags, startLlamaServer } from './llama-server.ts';
import { llamaMeasurementSuite } from './measurement-suite.ts';
import { known } from './reading.ts';

const fourSlots = [...llamaServerFlags, '-np', '4', '-c', '8192'];

describe.runIf(installed('llama-server'))('llama-server under load', () => {
  let running: Bench | undefined;
  const bench = () => known(running, 'the bench');

  beforeAll(async () => {
    running = await startBench(() => startLlamaServer(fourSlots));
  });
  afterAll(() => running?.stop());

  llamaMeasurementSuite(bench);
  aiperfSuite('llama-server', bench);
});
