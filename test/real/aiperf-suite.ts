/** AIPerf sends requests through warmlane: what it measured of each beside warmlane's record of the same request. */
import { describe, expect, it } from 'vitest';
import { expectNear, printTable } from './agreement.ts';
import { runAiperf, type AiperfRequest } from './aiperf.ts';
import { untilIdle, type Bench } from './bench.ts';
import type { Engine } from './engine.ts';
import { installed } from './installed.ts';
import { known } from './reading.ts';
import type { WireRecord } from './warmlane.ts';

export function aiperfSuite(kind: Engine['kind'], bench: () => Bench): void {
  // Its tokenizer is vLLM's model.
  describe.runIf(installed('aiperf') && installed('vllm'))('AIPerf through warmlane', () => {
    it('measures the same TTFT, ITL, gaps, latency and counts of each request as its record says', async () => {
      await untilIdle(bench().engine);
      const load = { requests: 12, concurrency: 3, promptTokens: 60, outputTokens: 20 };
      const requests = await runAiperf(bench().warmlane.url, load);
      expect(requests).toHaveLength(load.requests);
      const pairs = await Promise.all(
        requests.map(async (theirs) => ({ theirs, record: await bench().warmlane.record(theirs.requestId) })),
      );
      printTable(`AIPerf, ${kind}`, pairs.map(rowOf));
      for (const { theirs, record } of pairs) {
        const words = JSON.stringify(rowOf({ theirs, record }));
        const { figures, tokens } = record;
        expect([theirs.promptTokens, theirs.outputTokens], words).toEqual([tokens.prompt?.value, tokens.output?.value]);
        expect(theirs.chunkGapsMs, words).toHaveLength(known(record.itlSeconds, 'ITL').count);
        // Where a parser swallowed tokens' events, TPOT takes another window; and it leaves out all tokens of the first read.
        const tpotMs = known(figures.tpotMs, 'TPOT');
        if (figures.tpotWindow === 'visible') expectNear(theirs.itlMs, tpotMs, words, { share: 0.15, ms: 2 });
        const spanMs = known(figures.e2eMs, 'E2E') - known(figures.ttftMs, 'TTFT');
        expectNear(theirs.itlMs, spanMs / (theirs.outputTokens - 1), words, { share: 0.03, ms: 2 });
        expectNear(Math.max(...theirs.chunkGapsMs), known(figures.maxItlMs, 'longest ITL'), words, {
          share: 0.1,
          ms: 60,
        });
        for (const laterMs of [
          theirs.ttftMs - known(figures.ttftMs, 'TTFT'),
          theirs.latencyMs - known(figures.e2eMs, 'E2E'),
        ]) {
          // It begins before it connects, and reads in Python beside its own bookkeeping.
          expect(laterMs, words).toBeGreaterThan(-5);
          expect(laterMs, words).toBeLessThan(300);
        }
      }
    });
  });
}

function rowOf({ theirs, record }: { theirs: AiperfRequest; record: WireRecord }) {
  const { figures, tokens } = record;
  return {
    'AIPerf TTFT': theirs.ttftMs,
    ttft: figures.ttftMs,
    'AIPerf ITL': theirs.itlMs,
    tpot: figures.tpotMs,
    window: figures.tpotWindow,
    'AIPerf gaps': theirs.chunkGapsMs.length,
    gaps: record.itlSeconds?.count,
    'AIPerf longest ICL': Math.max(...theirs.chunkGapsMs),
    maxItl: figures.maxItlMs,
    'AIPerf latency': theirs.latencyMs,
    e2e: figures.e2eMs,
    'AIPerf tokens': `${theirs.promptTokens}, ${theirs.outputTokens}`,
    tokens: `${tokens.prompt?.value}, ${tokens.output?.value}`,
  };
}
