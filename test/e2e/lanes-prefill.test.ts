/** Batch prompts that a simulated llama-server takes long to compute, and online requests that come meanwhile. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, describe, expect, it } from 'vitest';
import { laneDefaults } from '../../src/admit/lane-settings.ts';
import type { RunningView } from '../../src/domain/running-view.ts';
import { createSimServer } from '../../src/sim/server.ts';
import { laptopLlamaServer, laptopVllmServer, type SimServerSettings } from '../../src/sim/server-settings.ts';
import { createBatch, getBatch, untilOver, uploadFile } from '../support/batch-client.ts';
import { type ConfigChange, type Proxy, startProxy } from '../support/proxy.ts';
import { eventually, sleep } from '../support/stage.ts';

const closers: (() => Promise<void> | void)[] = [];
afterEach(async () => {
  for (const close of closers.splice(0).toReversed()) await close();
});

const promptTokens = 4000;

/** Two slots, steps of 128 tokens, and three seconds for a line's prompt: five times what is thought of a server at first. */
const slowLlama: SimServerSettings = {
  ...laptopLlamaServer,
  abortPollMs: 100,
  engine: {
    ...laptopLlamaServer.engine,
    maxSequences: 2,
    stepTokens: 128,
    stepTime: { ...laptopLlamaServer.engine.stepTime, baseMs: 5, perPrefillTokenMs: 0.6 },
  },
};

const slowVllm: SimServerSettings = {
  ...laptopVllmServer,
  engine: {
    ...laptopVllmServer.engine,
    maxSequences: 4,
    stepTokens: 128,
    stepTime: { ...laptopVllmServer.engine.stepTime, baseMs: 5 },
  },
};

async function proxyOn(settings: SimServerSettings, change: ConfigChange, batch: object = {}): Promise<Proxy> {
  const sim = await createSimServer(settings);
  closers.push(() => sim.close());
  const directory = mkdtempSync(join(tmpdir(), 'warmlane-batch-'));
  closers.push(() => rmSync(directory, { recursive: true, force: true }));
  const store = { kind: 'sqlite' as const, directory };
  const proxy = await startProxy([sim.url], { ...change, batch: { store, ...batch } });
  closers.push(() => proxy.close());
  return proxy;
}

async function submitLines(proxy: Proxy, count: number, max_tokens = 1): Promise<string> {
  const lines = Array.from({ length: count }, (_, n) => {
    const content = `${n} ${'word '.repeat(promptTokens)}`;
    const body = { model: 'simulated', max_tokens, messages: [{ role: 'user', content }] };
    return JSON.stringify({ custom_id: `l${n}`, method: 'POST', url: '/v1/chat/completions', body });
  });
  const { id } = await uploadFile(proxy.url, `${lines.join('\n')}\n`);
  return (await createBatch(proxy.url, id)).id;
}

/** Lines that are with the backend or wait for a place there. */
async function linesUnderWay(proxy: Proxy): Promise<RunningView[]> {
  const { running } = (await (await fetch(`${proxy.adminUrl}/running`)).json()) as { running: RunningView[] };
  return running.filter(({ requestId }) => requestId.startsWith('batch_'));
}

/** Lines whose prompts an engine computes, as far as their answers show. */
async function prefilling(proxy: Proxy): Promise<number> {
  const lines = await linesUnderWay(proxy);
  return lines.filter(({ phase }) => phase === 'waiting_head' || phase === 'waiting_first_token').length;
}

async function online(proxy: Proxy, n: number): Promise<string> {
  const messages = [{ role: 'user', content: `online ${n}` }];
  const answer = await fetch(`${proxy.url}/v1/chat/completions`, {
    method: 'POST',
    body: JSON.stringify({ model: 'simulated', max_tokens: 2, stream: true, messages }),
  });
  return answer.text();
}

async function completed(proxy: Proxy, id: string): Promise<number> {
  return (await getBatch(proxy.url, id)).request_counts.completed;
}

async function reclaimed(proxy: Proxy): Promise<{ reclaimed: number; wastedTokens: number }> {
  const page = (await (await fetch(`${proxy.adminUrl}/lanes`)).json()) as {
    backends: { reclaimed: number; wastedTokens: number }[];
  };
  const [only] = page.backends;
  if (only === undefined) throw new Error('no backend on /lanes');
  return only;
}

describe('lines whose prompts take long', () => {
  it('R10 are computed one at a time on a llama-server, however far its speed is from what was thought', async () => {
    const proxy = await proxyOn(slowLlama, {});
    const id = await submitLines(proxy, 2);
    let most = 0;
    while ((await completed(proxy, id)) < 2) {
      most = Math.max(most, await prefilling(proxy));
      await sleep(20);
    }
    expect(most).toBe(1);
  }, 30_000);

  it.each([
    ['llama-server', slowLlama, laneDefaults.control.ttftMs],
    // Half of the bound is less than such a prompt is thought to take.
    ['vllm', slowVllm, 600],
  ] as const)(
    'R10 C162 make way for every online request on %s, more often than a line that answers would, and get through',
    async (_engine, settings, ttftMs) => {
      const { control, reclaim } = laneDefaults;
      const lanes = { ...laneDefaults, control: { ...control, ttftMs }, reclaim: { ...reclaim, maxTimes: 1 } };
      const proxy = await proxyOn(settings, { admit: { lanes } });
      const id = await submitLines(proxy, 2);
      for (let n = 1; n <= 3; n += 1) {
        await eventually(async () => (await prefilling(proxy)) === 1, `a line to be computed, ${n}`, 10_000);
        expect(await online(proxy, n)).toContain('[DONE]');
        // Neither line got to its end before the online request had all of its answer.
        expect([n, await completed(proxy, id), (await reclaimed(proxy)).reclaimed]).toEqual([n, 0, n]);
      }
      const batch = await untilOver(proxy.url, id, 20_000);
      expect(batch).toMatchObject({ status: 'completed', request_counts: { total: 2, completed: 2, failed: 0 } });
      const { reclaimed: times, wastedTokens } = await reclaimed(proxy);
      expect(times).toBe(3);
      expect(wastedTokens).toBeGreaterThan(256 * times);
      expect(wastedTokens).toBeLessThan(2 * promptTokens * times);
    },
    60_000,
  );
});
