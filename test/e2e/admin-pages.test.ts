/** `deploy/admin-pages.md` names every key that the JSON pages of the admin listener show, each with its unit. */
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { createScriptedServer } from '../../src/sim/faults.ts';
import { answerProbe } from '../../src/sim/probe-answers.ts';
import { laptopLlamaServer, laptopVllmServer } from '../../src/sim/server-settings.ts';
import { wholeAnswer } from '../../src/sim/sse-script.ts';
import { cancelBatch, getBatch, untilOver, uploadFile } from '../support/batch-client.ts';
import { chat, createFindingWorld, type FindingWorld, untilFound, words } from '../support/finding-world.ts';
import type { Proxy } from '../support/proxy.ts';
import { eventually, sleep } from '../support/stage.ts';

const pages = ['/stats', '/slo', '/cache', '/explain', '/ceiling', '/concurrency', '/engines', '/findings'] as const;
const document = readFileSync(new URL('../../deploy/admin-pages.md', import.meta.url), 'utf8');

/** Maps whose keys are names of the user's, or words that another page of deploy/ lists. */
const maps: ReadonlySet<string> = new Set(['outcomes', 'without', 'routes', 'models']);

let world: FindingWorld;
beforeEach(() => {
  world = createFindingWorld();
});
afterEach(() => world.close());

const quickTime = { ...laptopVllmServer.engine.stepTime, baseMs: 10, perSequenceMs: 0, jitterShare: 0 };
const vllm = { ...laptopVllmServer, engine: { ...laptopVllmServer.engine, stepTime: quickTime } };
const llama = { ...laptopLlamaServer, engine: { ...laptopLlamaServer.engine, stepTime: quickTime } };

/** Every page has something to show: two engines, goodput and misses, a card that can't be true, a stall. */
async function busy(): Promise<Proxy> {
  const sims = [await world.sim(vllm), await world.sim(llama)];
  const hardware = { gpu: 'l4', peakTflops: 0.001, bandwidthGBps: 0.001, memoryGiB: 0.001, pricePerHour: 2 } as const;
  const proxy = await world.proxy(
    sims.map(({ url }) => url),
    {
      slo: {
        fallback: 'voice',
        routes: { messages: 'chat' },
        models: { another: 'reading' },
        checks: { retries: true },
      },
      ceiling: {
        hardware: sims.map(({ port }) => ({ backend: `127.0.0.1:${port}`, hardware })),
        shapes: [
          { model: 'simulated', params: 4e9, weightFormat: 'bf16', layers: 32, heads: 32, kvHeads: 8, headDim: 128 },
        ],
      },
    },
  );
  const long = chat(proxy.url, { id: 'stream', prompt: 'short', maxTokens: 150 });
  await sleep(300);
  // By load they go to both in turn.
  await Promise.all([1, 2, 3].map((i) => chat(proxy.url, { prompt: words(1500, `n${i}`), maxTokens: 3 })));
  await long;
  for (let i = 0; i < 28; i += 1) await chat(proxy.url, { prompt: words(20 + i * 30, `m${i % 5}`), maxTokens: 4 });
  await chat(proxy.url, { stream: false });
  await untilFound(proxy, 'prefill_stall');
  await eventually(
    async () => (await keysOf(proxy, '/engines')).has('cachedPercent'),
    'readings of both engines',
    5000,
  );
  return proxy;
}

async function keysOf(proxy: Proxy, page: string): Promise<ReadonlySet<string>> {
  const of = page === '/engines' ? '?points=1' : page === '/explain' ? '/stream' : '';
  const answer = await fetch(`${proxy.adminUrl}${page}${of}`);
  const keys = new Set<string>();
  collect(await answer.json(), keys);
  return keys;
}

function collect(value: unknown, keys: Set<string>): void {
  if (typeof value !== 'object' || value === null) return;
  if (Array.isArray(value)) {
    for (const one of value) collect(one, keys);
    return;
  }
  for (const [key, held] of Object.entries(value)) {
    keys.add(key);
    if (!maps.has(key) || Array.isArray(held)) collect(held, keys);
  }
}

/** Keys in the first column of a page's tables. */
function documented(page: string): ReadonlySet<string> {
  const [, section = ''] = document.split(`\n## \`${page}\`\n`);
  const rows =
    section
      .split('\n## ', 1)[0]
      ?.split('\n')
      .filter((line) => line.startsWith('| `')) ?? [];
  return new Set(
    rows.flatMap((row) => [...(row.split('|')[1] ?? '').matchAll(/`([^`]+)`/g)].map(([, key = '']) => key)),
  );
}

describe('the admin pages', () => {
  it('show no key that deploy/admin-pages.md doesn’t explain, and no share but as percent', async () => {
    const proxy = await busy();
    for (const page of pages) {
      const keys = await keysOf(proxy, page);
      expect(keys.size, page).toBeGreaterThan(5);
      const known = documented(page);
      expect(
        [...keys].filter((key) => !known.has(key)),
        page,
      ).toEqual([]);
      // `itlShare` is a key of the config, shown as it stands there.
      expect(
        [...keys, ...known].filter((key) => /(share|ratio)$/i.test(key) && key !== 'itlShare'),
        page,
      ).toEqual([]);
    }
  }, 60_000);

  it('explain every key of /batches, of batches that are over, wrong, and under way with a line that waits', async () => {
    const server = await createScriptedServer({
      probes: false,
      onRequest: (request) => {
        if (request.method !== 'POST') return answerProbe(request, { engine: 'openai', model: 'm' });
        const isFirst = request.body.includes('about l0');
        return [isFirst ? wholeAnswer(200, { id: 'x', choices: [] }) : wholeAnswer(503, {}, { 'Retry-After': '600' })];
      },
    });
    const directory = mkdtempSync(join(tmpdir(), 'warmlane-batch-'));
    const proxy = await world.proxy([server.url], { batch: { store: { kind: 'sqlite', directory } } });
    try {
      const line = (id: string, url = '/v1/chat/completions') =>
        JSON.stringify({
          custom_id: id,
          method: 'POST',
          url,
          body: { model: 'm', messages: [{ role: 'user', content: `about ${id}` }] },
        });
      const add = async (text: string) => {
        const { id } = await uploadFile(proxy.url, text);
        const asked = { input_file_id: id, endpoint: '/v1/chat/completions', completion_window: '24h' };
        const answer = await fetch(`${proxy.url}/v1/batches`, { method: 'POST', body: JSON.stringify(asked) });
        return (await answer.json()) as { readonly id: string };
      };
      await untilOver(proxy.url, (await add(line('l0'))).id, 10_000);
      await untilOver(proxy.url, (await add(line('l0', '/v1/embeddings'))).id, 10_000);
      await add(`${line('l0')}\n${line('l1')}`);
      const cancelled = await add(line('l1'));
      await eventually(
        async () => (await getBatch(proxy.url, cancelled.id)).status === 'in_progress',
        'its lines are known',
      );
      await cancelBatch(proxy.url, cancelled.id);
      await untilOver(proxy.url, cancelled.id, 10_000);
      const wanted = ['endedAt', 'errors', 'unrun', 'backingOff', 'linesPerSecond', 'secondsToExpiry', 'model'];
      await eventually(async () => {
        const keys = await keysOf(proxy, '/batches');
        return wanted.every((key) => keys.has(key));
      }, 'all keys are shown');
      const known = documented('/batches');
      expect([...(await keysOf(proxy, '/batches'))].filter((key) => !known.has(key))).toEqual([]);
    } finally {
      await proxy.close();
      await server.close();
      rmSync(directory, { recursive: true, force: true });
    }
  });

  it('have a row in README.md or a page that leads there', () => {
    const readme = readFileSync(new URL('../../README.md', import.meta.url), 'utf8');
    expect(readme).toContain('deploy/admin-pages.md');
    for (const page of pages) expect(document, page).toContain(`\n## \`${page}\`\n`);
  });
});
