/** What the user sees of routing by warm prefixes: headers, `/cache`, `/explain`, findings, log lines, over real sockets. */
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { laptopVllmServer } from '../../src/sim/server-settings.ts';
import { createFindingWorld, type FindingWorld, untilFound } from '../support/finding-world.ts';
import type { Proxy } from '../support/proxy.ts';
import { eventually } from '../support/stage.ts';

let world: FindingWorld;
beforeEach(() => {
  world = createFindingWorld();
});
afterEach(() => world.close());

const quickTime = { ...laptopVllmServer.engine.stepTime, baseMs: 2, perSequenceMs: 0, jitterShare: 0 };
const vllm = { ...laptopVllmServer, engine: { ...laptopVllmServer.engine, stepTime: quickTime } };
const rules = Array.from({ length: 120 }, (_, i) => `Rule ${i}: answer in the language of rule ${i * 7}.`).join(' ');

interface Message {
  readonly role: 'system' | 'user' | 'assistant';
  readonly content: string;
}

async function ask(proxy: Proxy, id: string, messages: readonly Message[], stream = true): Promise<Response> {
  const answer = await fetch(`${proxy.url}/v1/chat/completions`, {
    method: 'POST',
    headers: { 'Content-Type': 'application/json', 'X-Request-Id': id },
    body: JSON.stringify({ model: 'simulated', stream, max_tokens: 4, ignore_eos: true, messages }),
  });
  await answer.text();
  return answer;
}

const system = (content: string): Message => ({ role: 'system', content });
const user = (content: string): Message => ({ role: 'user', content });

async function admin(proxy: Proxy, path: string): Promise<{ status: number; body: Record<string, unknown> }> {
  const answer = await fetch(`${proxy.adminUrl}${path}`);
  return { status: answer.status, body: (await answer.json()) as Record<string, unknown> };
}

interface CacheWindow {
  readonly all: Record<string, number> & { missed: Record<string, number>; answers: Record<string, number> };
  readonly by: readonly { readonly backend: string }[];
  readonly engines: readonly { readonly prefixQueryTokens?: number }[];
}

async function cacheWindow(proxy: Proxy, query = '?window=5m'): Promise<CacheWindow> {
  const { body } = await admin(proxy, `/cache${query}`);
  const [window] = body['windows'] as CacheWindow[]; // as cache-page.ts writes it
  if (window === undefined) throw new Error('no window');
  return window;
}

async function threeTurns(): Promise<{ proxy: Proxy; answers: readonly Response[] }> {
  const sims = [await world.sim(vllm), await world.sim(vllm)];
  const proxy = await world.proxy(sims.map(({ url }) => url));
  const answers: Response[] = [];
  const said: Message[] = [system(rules)];
  for (let n = 0; n < 3; n += 1) {
    said.push(user(`Question ${n}: ${'and what about this? '.repeat(10)}`));
    answers.push(await ask(proxy, `turn-${n}`, said));
  }
  await proxy.records(3);
  return { proxy, answers };
}

describe('a conversation of three turns', () => {
  it('stays with the backend that holds it, and its client is told where and why', async () => {
    const { proxy, answers } = await threeTurns();
    const backends = answers.map(({ headers }) => headers.get('x-warmlane-backend'));
    expect(new Set(backends).size).toBe(1);
    expect(answers.map(({ headers }) => headers.get('x-warmlane-reason')).slice(1)).toEqual(['prefix', 'prefix']);
    expect(answers[0]?.headers.get('x-warmlane-predicted-cached-tokens')).toBe('0');
    expect(Number(answers[2]?.headers.get('x-warmlane-predicted-cached-tokens'))).toBeGreaterThan(1000);
    expect(answers[0]?.headers.get('server-timing')).toMatch(
      /^queue;dur=[\d.]+, connect;dur=[\d.]+, overhead;dur=[\d.]+, upstream;dur=[\d.]+$/,
    );
    const line = proxy.logged.find(({ msg, requestId }) => msg === 'request' && requestId === 'turn-2');
    expect(line).toMatchObject({ routePolicy: 'warm', routeReason: 'prefix' });
    expect(line?.['predictedTokens']).toBeGreaterThan(1000);
  });

  it('shows on /cache what was reusable, captured and delivered; what was missed adds up', async () => {
    const { proxy } = await threeTurns();
    const { all, by } = await cacheWindow(proxy);
    expect(all.answers).toEqual({ told: 3, untold: 0, coveragePercent: 100 });
    expect(all['deliveredTokens']).toBeGreaterThan(2000);
    expect(all['capturedTokens']).toBe(all['reusableTokens']);
    expect(Object.values(all.missed).reduce((sum, tokens) => sum + tokens, 0)).toBe(all['missedTokens']);
    expect(all['missedTokens']).toBe((all['promptTokens'] ?? 0) - (all['deliveredTokens'] ?? 0));
    expect(all.missed['newTokens']).toBeGreaterThan(1000);
    expect(by).toHaveLength(1);
    const { body } = await admin(proxy, `/cache?window=1m&backend=nobody`);
    expect(body['windows']).toMatchObject([{ by: [], all: { answers: { told: 0, untold: 0 } } }]);
    expect((await admin(proxy, '/cache?window=2h')).status).toBe(400);
    await eventually(
      async () => (await cacheWindow(proxy)).engines.some((one) => (one.prefixQueryTokens ?? 0) > 1000),
      "the engine's own counters",
    );
    const text = await (await fetch(`${proxy.adminUrl}/metrics`)).text();
    const metrics = text.match(/^warmlane_(cache|route|warm)_.*$/gm)?.join('\n');
    expect(metrics).toMatch(/warmlane_cache_tokens_total\{[^}]*kind="delivered"[^}]*\} \d{4}/);
    expect(metrics).toMatch(/warmlane_route_decisions_total\{[^}]*policy="warm"[^}]*route="prefix"[^}]*\} 2/);
    expect(metrics).toMatch(/warmlane_warm_held\{[^}]*\} [1-9]/);
    expect(text).not.toContain('NaN');
  });

  it('is explained turn by turn, with every backend that was considered; records are not blown up by it', async () => {
    const { proxy, answers } = await threeTurns();
    const { status, body } = await admin(proxy, '/explain/turn-2');
    expect(status).toBe(200);
    const backend = answers[2]?.headers.get('x-warmlane-backend') ?? '';
    expect(body['says']).toMatch(
      new RegExp(`^sent to ${backend}: holds [\\d,]+ of [\\d,]+ prompt tokens; [\\d.]+ s against [\\d.]+ s at `),
    );
    expect(body).toMatchObject({ requestId: 'turn-2', decision: { policy: 'warm', reason: 'prefix' } });
    const { considered } = body['decision'] as { considered: { cost: object; heldTokens: number }[] };
    expect(considered).toHaveLength(2);
    const terms = ['burden', 'bonus', 'copy', 'decode', 'network', 'prefill', 'queue', 'slot', 'stall', 'total'];
    for (const { cost } of considered)
      expect(Object.keys(cost).toSorted()).toEqual(terms.map((term) => `${term}Seconds`).toSorted());
    expect(await admin(proxy, '/explain/nobody')).toEqual({
      status: 404,
      body: {
        error: {
          message:
            'No record of this request is kept: it is under way (see /running), came before the last start, or newer ones took its place.',
        },
      },
    });
    expect(await (await fetch(`${proxy.adminUrl}/records`)).text()).not.toContain('considered');
  });
});

describe('prompts whose start keeps changing', () => {
  it('C149 are named, with the place; no byte of them is changed, and no table explodes', async () => {
    const sims = [await world.sim(vllm), await world.sim(vllm), await world.sim(vllm)];
    const proxy = await world.proxy(sims.map(({ url }) => url));
    const said: Message[] = [];
    for (let n = 0; n < 5; n += 1) {
      said.push(user(`Question ${n}`));
      await ask(proxy, `turn-${n}`, [system(`Now: 12:00:0${n}. ${rules}`), ...said]);
    }
    const found = await untilFound(proxy, 'unstable_prompt_start');
    expect(found.says).toContain('message 0 (mostly the system prompt), bytes 0–256 differ each time');
    const { all } = await cacheWindow(proxy);
    expect(all['deliveredPercent']).toBeLessThan(5);
    const { body } = await admin(proxy, '/cache');
    expect((body['divergences'] as object[]).length).toBeLessThan(5);
    expect(body['divergences']).toMatchObject([{ place: 'message 0, bytes 0–256', requests: 4 }]);
  });
});

describe('headers of an answer', () => {
  it('are said of an error of its own too, as far as it went; and none where they are off', async () => {
    const sim = await world.sim(vllm);
    const off = await world.proxy([sim.url], { relay: { responseHeaders: { routing: false, serverTiming: false } } });
    const silent = await ask(off, 'r', [user('hello')]);
    for (const name of ['x-warmlane-backend', 'x-warmlane-reason', 'server-timing'])
      expect(silent.headers.get(name)).toBeNull();
    const gone = await world.sim(vllm);
    const proxy = await world.proxy([gone.url]);
    await ask(proxy, 'before', [user('hello')]);
    await gone.close();
    const refused = await ask(proxy, 'after', [user('hello')], false);
    expect(refused.status).toBeGreaterThanOrEqual(502);
    const [, record] = await proxy.records(2);
    expect(refused.headers.get('x-warmlane-backend')).toBe(record?.backend ?? null);
    expect(refused.headers.get('x-warmlane-reason')).toBe(record?.routeReason ?? null);
  });
});
