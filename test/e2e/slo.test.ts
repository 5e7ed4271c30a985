/** Objectives over real sockets: who is held to what, where the time went that broke it, what was of use, who asked again. */
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { SloSettings } from '../../src/account/slo/slo-settings.ts';
import type { RequestRecord } from '../../src/domain/record.ts';
import { send } from '../../src/sim/fault-steps.ts';
import { createSimServer, type SimServer } from '../../src/sim/server.ts';
import { instantVllmServer } from '../../src/sim/server-settings.ts';
import { chunk, delta, DONE, FIN, lastChunk, sseHead, T, wholeAnswer } from '../../src/sim/sse-script.ts';
import type { ConfigChange, Proxy } from '../support/proxy.ts';
import { startProxy } from '../support/proxy.ts';
import { chatBody, postBytes } from '../support/raw-http.ts';
import { createStage, type Stage } from '../support/stage.ts';

let stage: Stage;
const opened: { close(): Promise<void> }[] = [];
beforeEach(() => {
  stage = createStage();
});
afterEach(async () => {
  await stage.close();
  for (const one of opened.splice(0).toReversed()) await one.close();
});

type SloChange = {
  readonly slo: Partial<Omit<SloSettings, 'checks'>> & { readonly checks?: Partial<SloSettings['checks']> };
};

/** A vLLM whose prefill takes as long as the test says, whatever the prompt. */
async function slowPrefill(prefillMs: number): Promise<SimServer> {
  const { engine } = instantVllmServer;
  const server = await createSimServer({
    ...instantVllmServer,
    engine: { ...engine, stepTime: { ...engine.stepTime, prefillBaseMs: prefillMs } },
  });
  opened.push(server);
  return server;
}

async function proxyTo(url: string, change: ConfigChange): Promise<Proxy> {
  const proxy = await startProxy([url], change);
  opened.push(proxy);
  return proxy;
}

async function ask(proxy: Proxy, body: object = {}, headers: Readonly<Record<string, string>> = {}): Promise<void> {
  const answer = await fetch(`${proxy.url}/v1/chat/completions`, {
    method: 'POST',
    headers: { 'Content-Type': 'application/json', ...headers },
    body: JSON.stringify({ ...chatBody, stream: true, max_tokens: 4, ...body }),
  });
  await answer.text();
}

async function lastRecord(proxy: Proxy, count: number): Promise<RequestRecord> {
  const record = (await proxy.records(count))[count - 1];
  if (record === undefined) throw new Error('no record');
  return record;
}

interface Page {
  readonly unknownNames: number;
  readonly windows: readonly {
    readonly window: string;
    readonly all: Record<string, number>;
    readonly profiles: readonly Record<string, unknown>[];
  }[];
}

async function page(proxy: Proxy, query = ''): Promise<Page> {
  const answer = await fetch(`${proxy.adminUrl}/slo${query}`);
  return (await answer.json()) as Page;
}

const chatByDefault: SloChange = { slo: { fallback: 'chat' } };

describe('objectives', () => {
  it('lay a slow prefill on the prefill, and the page shows what that did', async () => {
    const proxy = await proxyTo((await slowPrefill(350)).url, chatByDefault);
    await ask(proxy, { model: 'simulated' });
    const { assessment } = await lastRecord(proxy, 1);
    expect(assessment?.slo).toMatchObject({ profile: 'chat', met: false });
    expect(assessment?.slo?.breaches).toMatchObject([{ bound: 'ttft', limitMs: 200, phase: 'prefill' }]);
    expect(assessment?.slo?.breaches[0]?.valueMs).toBeGreaterThan(350);
    const { windows } = await page(proxy, '?window=5');
    expect(windows).toMatchObject([
      {
        window: '5m',
        all: { requests: 1, judged: 1, met: 0 },
        profiles: [
          {
            profile: 'chat',
            targetPercent: 99,
            attainedPercent: 0,
            holds: false,
            missed: [{ bound: 'ttft', phase: 'prefill', requests: 1 }],
          },
        ],
      },
    ]);
    expect(proxy.logged.find(({ msg }) => msg === 'request')).toMatchObject({ slo: 'chat', sloMet: false });
    const metrics = await (await fetch(`${proxy.adminUrl}/metrics`)).text();
    const of = '\\{[^}]*profile="chat"[^}]*\\}';
    expect(metrics).toMatch(new RegExp(`^warmlane_slo_judged_total${of} 1$`, 'm'));
    expect(metrics).toMatch(new RegExp(`^warmlane_slo_met_total${of} 0$`, 'm'));
    expect(metrics).toMatch(/^warmlane_slo_missed_total\{[^}]*bound="ttft"[^}]*\} 1$/m);
    expect(metrics).toMatch(/^warmlane_slo_target_ratio\{profile="chat"\} 0\.99$/m);
  });

  it('are shown for each warmth by itself, on the page and in the metrics', async () => {
    const proxy = await proxyTo((await slowPrefill(0)).url, { slo: { fallback: 'mlperf-server' } } satisfies SloChange);
    const prompt = (text: string) => ({ model: 'simulated', messages: [{ role: 'user', content: text.repeat(400) }] });
    for (const [at, text] of ['one ', 'one ', 'two '].entries()) {
      await ask(proxy, prompt(text));
      await proxy.records(at + 1);
    }
    expect((await proxy.records(3)).map(({ warmth }) => warmth)).toEqual(['resident', 'prefix_hit', 'resident']);
    const { windows } = await page(proxy, '?window=5m');
    expect(windows[0]?.profiles).toMatchObject([
      {
        judged: 3,
        met: 3,
        byWarmth: [
          { warmth: 'resident', judged: 2, met: 2 },
          { warmth: 'prefix_hit', judged: 1, met: 1 },
        ],
      },
    ]);
    expect((await page(proxy, '?window=5m&warmth=prefix_hit')).windows[0]?.all).toMatchObject({ requests: 1, met: 1 });
    const metrics = await (await fetch(`${proxy.adminUrl}/metrics`)).text();
    const of = (warmth: string) => new RegExp(`^warmlane_slo_met_total\\{[^}]*warmth="${warmth}"[^}]*\\} (.*)$`, 'm');
    expect(['resident', 'prefix_hit'].map((warmth) => of(warmth).exec(metrics)?.[1])).toEqual(['2', '1']);
  });

  it('lay a wait for a place on the queue', async () => {
    const server = await slowPrefill(150);
    const backends = [{ url: server.url, name: 'one', engine: 'vllm' as const, maxInFlight: 1 }];
    const proxy = await proxyTo(server.url, { ...chatByDefault, fleet: { backends } });
    await Promise.all([1, 2, 3].map(() => ask(proxy, { model: 'simulated' })));
    const records = await proxy.records(3);
    const last = records.toSorted((a, b) => (b.figures.queueMs ?? 0) - (a.figures.queueMs ?? 0))[0];
    // It waited for two answers, and then for its own prefill.
    expect(last?.figures.queueMs).toBeGreaterThan(300);
    expect(last?.assessment?.slo?.breaches).toMatchObject([{ bound: 'ttft', phase: 'queued' }]);
  });

  it('count a request that was refused a place as missed while it was queued', async () => {
    const server = await slowPrefill(600);
    const backends = [{ url: server.url, name: 'one', engine: 'vllm' as const, maxInFlight: 1 }];
    const proxy = await proxyTo(server.url, {
      ...chatByDefault,
      fleet: { backends },
      admit: { maxQueuedJobs: 5, queueTimeoutMs: 250 },
    });
    await Promise.all([ask(proxy, { model: 'simulated' }), ask(proxy, { model: 'simulated' })]);
    const refused = (await proxy.records(2)).find(({ outcome }) => outcome === 'rejected');
    expect(refused?.assessment?.slo).toMatchObject({ met: false, breaches: [{ bound: 'ttft', phase: 'queued' }] });
    expect((await page(proxy, '?window=1')).windows[0]?.profiles[0]).toMatchObject({
      judged: 2,
      met: 0,
      missed: expect.arrayContaining([{ bound: 'failed', phase: 'queued', requests: 1 }]) as unknown,
    });
  });

  it('are chosen by header, before route, before model', async () => {
    const proxy = await proxyTo((await slowPrefill(0)).url, {
      slo: { fallback: 'mlperf-server', routes: { chat: 'voice' }, models: { simulated: 'reading' } },
    } satisfies SloChange);
    await ask(proxy, { model: 'simulated' }, { 'X-Warmlane-Slo': 'mlperf-interactive' });
    await ask(proxy, { model: 'simulated' });
    await ask(proxy, { model: 'simulated' }, { 'X-Warmlane-Slo': 'none' });
    await ask(proxy, { model: 'simulated' }, { 'X-Warmlane-Slo': 'tpyo' });
    const names = (await proxy.records(4)).map(({ assessment }) => assessment?.slo?.profile);
    expect(names).toEqual(['mlperf-interactive', 'voice', undefined, 'voice']);
    expect(await page(proxy)).toMatchObject({ unknownNames: 1, windows: [{}, {}, {}] });
  });

  it('judge nobody unless configured or asked for', async () => {
    const proxy = await proxyTo((await slowPrefill(0)).url, {});
    await ask(proxy, { model: 'simulated' });
    expect((await lastRecord(proxy, 1)).assessment?.slo).toBeUndefined();
    const { windows } = await page(proxy);
    expect(windows[0]).toMatchObject({ all: { requests: 1, judged: 0 }, profiles: [] });
    expect(windows[0]?.all).not.toHaveProperty('met');
  });

  it('refuse a window that there is not', async () => {
    const proxy = await proxyTo((await slowPrefill(0)).url, {});
    const answer = await fetch(`${proxy.adminUrl}/slo?window=7`);
    expect([answer.status, await answer.json()]).toMatchObject([400, { error: { param: 'window' } }]);
  });
});

describe('use', () => {
  const usable: ConfigChange = { measure: { maxCheckedBytes: 65_536 }, slo: { checks: { usable: true } } };
  const format = { response_format: { type: 'json_object' } };
  const stream = (...events: readonly string[]) => [send(sseHead()), send(chunk(...events)), send(lastChunk)];

  it('is denied to an answer that should have been JSON and isn’t, and its tokens don’t count', async () => {
    const answers = [stream(T('{"a"'), T(':1}'), FIN('stop'), DONE), stream(T('{"a"'), T(':'), FIN('stop'), DONE)];
    const backend = await stage.backend({ onRequest: () => answers.shift() ?? [] });
    const proxy = await stage.proxy(backend, { change: usable });
    for (const _ of [1, 2]) {
      const client = await stage.client(proxy);
      client.send(postBytes('/v1/chat/completions', { ...chatBody, ...format }));
      expect((await client.answer()).complete).toBe(true);
    }
    const records = await proxy.records(2);
    expect(records.map(({ assessment }) => assessment?.useless)).toEqual([[], ['response_format']]);
    const { all } = (await page(proxy, '?window=60')).windows[0] ?? {};
    expect(all).toMatchObject({ requests: 2, useless: 1 });
    expect((all?.['usefulTokensPerSecond'] ?? 0) / (all?.['tokensPerSecond'] ?? 1)).toBeCloseTo(0.5, 2);
    expect(proxy.logged.filter(({ msg }) => msg === 'request').map(({ useless }) => useless)).toEqual([
      [],
      ['response_format'],
    ]);
  });

  it('is denied to broken arguments of a tool call, in an answer that isn’t streamed too', async () => {
    const call = { id: 'c', type: 'function', function: { name: 'f', arguments: '{"a":' } };
    const answer = wholeAnswer(200, {
      model: 'm',
      choices: [
        { index: 0, message: { role: 'assistant', content: null, tool_calls: [call] }, finish_reason: 'tool_calls' },
      ],
    });
    const streamed = stream(delta({ tool_calls: [{ index: 0, ...call }] }), FIN('tool_calls'), DONE);
    const answers = [[answer], streamed];
    const backend = await stage.backend({ onRequest: () => answers.shift() ?? [] });
    const proxy = await stage.proxy(backend, { change: usable });
    for (const streams of [false, true]) {
      const client = await stage.client(proxy);
      client.send(postBytes('/v1/chat/completions', { ...chatBody, stream: streams, tools: [{ type: 'function' }] }));
      await client.answer();
    }
    const records = await proxy.records(2);
    expect(records.map(({ assessment }) => assessment?.useless)).toEqual([['tool_arguments'], ['tool_arguments']]);
  });
});

describe('a request that comes again', () => {
  it('is noticed after one that failed, by the same client only, and never told in clear', async () => {
    let asked = 0;
    const backend = await stage.backend({
      onRequest: () => {
        asked += 1;
        return [wholeAnswer(asked === 1 ? 500 : 200, asked === 1 ? { error: { message: 'no' } } : { choices: [] })];
      },
    });
    const proxy = await stage.proxy(backend, { change: { slo: { checks: { retries: true } } } });
    const keys = ['sk-a', 'sk-b', 'sk-a', 'sk-a'];
    for (const [i, key] of keys.entries()) {
      const client = await stage.client(proxy);
      const headers = { Authorization: `Bearer ${key}` };
      client.send(postBytes('/v1/chat/completions', { ...chatBody, stream: false }, headers));
      await client.answer();
      await proxy.records(i + 1);
    }
    const records = await proxy.records(4);
    expect(records.map(({ outcome }) => outcome)).toEqual(['upstream_error', 'ok', 'ok', 'ok']);
    expect(records.map(({ assessment }) => assessment?.retry)).toEqual([undefined, undefined, true, undefined]);
    expect((await page(proxy, '?window=1')).windows[0]?.all).toMatchObject({ requests: 4, retries: 1 });
    expect(JSON.stringify([records, proxy.logged, await page(proxy)])).not.toMatch(/sk-[ab]|fingerprint/);
  });
});
