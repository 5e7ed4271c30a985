/**
 * Warm routing before three real llama-servers, in short: conversations with shared system prompts by one policy after the
 * other. Warm routing must deliver clearly more from the caches than taking turns, predict what is delivered, and count what
 * the engines count. The long form, with latencies, is `test/bench/peers/real.mjs`.
 */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { untilIdle } from './bench.ts';
import { moved } from './counters.ts';
import { freshPrompt } from './dialects.ts';
import type { Engine } from './engine.ts';
import { installed } from './installed.ts';
import { llamaServerFlags, startLlamaServer } from './llama-server.ts';
import { median, sum } from './reading.ts';
import { converse, hitsOf } from './routing-suite.ts';
import { startWarmlane } from './warmlane.ts';

const policies = ['warm', 'round-robin', 'least-load'] as const;
type Policy = (typeof policies)[number];

describe.runIf(installed('llama-server'))('routing over three llama-servers', () => {
  const engines: Engine[] = [];
  const folder = mkdtempSync(join(tmpdir(), 'warmlane-routing-'));
  beforeAll(async () => {
    // One after another, which is quicker than all at once.
    for (let n = 0; n < 3; n += 1) engines.push(await startLlamaServer(llamaServerFlags));
  });
  afterAll(async () => {
    await Promise.all(engines.map((engine) => engine.stop()));
    rmSync(folder, { recursive: true });
  });

  async function run(policy: Policy) {
    const file = join(folder, `${policy}.yaml`);
    writeFileSync(file, `routing:\n  policy: ${policy}\n`);
    const before = await Promise.all(engines.map(untilIdle));
    const warmlane = await startWarmlane(
      engines.map(({ url }) => url),
      ['--config', file],
    );
    try {
      // New ones each time: nothing of them is cached yet. Four users for six slots.
      const systems = [1, 2].map((n) =>
        freshPrompt(`Rule ${n}: answer in short words, and never about anything else. `.repeat(12)),
      );
      const records = await converse(warmlane, {
        ...{ users: 4, turns: 4, answerTokens: 6 },
        system: (user) => systems[user % 2] ?? '',
      });
      const after = await Promise.all(engines.map(untilIdle));
      const counted = after.map((counters, n) => moved(before[n] ?? counters, counters));
      return {
        hits: hitsOf(records),
        counted: {
          cached: sum(counted.map(({ promptCached }) => promptCached)),
          prompt: sum(counted.map(({ promptCached, promptComputed }) => promptCached + promptComputed)),
        },
        ttftMs: median(records.map(({ figures }) => figures.ttftMs ?? Number.NaN)),
        backends: new Set(records.map(({ backend }) => backend)).size,
      };
    } finally {
      await warmlane.stop();
    }
  }

  it('warm delivers clearly more than turns and least load, as predicted, and as the engines count', async () => {
    const seen = new Map<Policy, Awaited<ReturnType<typeof run>>>();
    for (const policy of policies) {
      const { hits, counted, ttftMs, backends } = await run(policy);
      seen.set(policy, { hits, counted, ttftMs, backends });
      const share = (tokens: number) => `${((100 * tokens) / hits.prompt).toFixed(1)} %`;
      console.info(
        `${policy}: delivered ${share(hits.delivered)}, predicted ${share(hits.predicted)}, error ${share(hits.error * hits.prompt)}, ` +
          `reusable ${share(hits.reusable)}, TTFT p50 ${Math.round(ttftMs)} ms`,
      );
      // To the token.
      expect(counted).toEqual({ cached: hits.delivered, prompt: hits.prompt });
    }
    const delivered = (policy: Policy) => {
      const { hits } = seen.get(policy) ?? {};
      return hits === undefined ? Number.NaN : hits.delivered / hits.prompt;
    };
    expect(delivered('warm')).toBeGreaterThan(delivered('round-robin') + 0.1);
    expect(delivered('warm')).toBeGreaterThan(delivered('least-load') + 0.05);
    expect(seen.get('warm')?.backends).toBe(3);
    expect(Math.abs(seen.get('warm')?.hits.bias ?? Number.NaN)).toBeLessThan(0.1);
    expect(seen.get('warm')?.hits.error).toBeLessThan(0.15);
    // Half a minute on a quiet machine; all that waits is computing.
  }, 300_000);
});
