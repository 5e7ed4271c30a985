/** Findings and the engines' own figures, end to end: each cause provoked once, and a quiet run that names none. */
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { send, type Script } from '../../src/sim/fault-steps.ts';
import { laptopLlamaServer, laptopVllmServer, type VllmServerSettings } from '../../src/sim/server-settings.ts';
import { chunk, DONE, FIN, lastChunk, ROLE, sseHead, T, USE, wholeAnswer } from '../../src/sim/sse-script.ts';
import {
  chat,
  createFindingWorld,
  enginesOf,
  findingsOf,
  quick,
  untilFound,
  words,
  type FindingWorld,
} from '../support/finding-world.ts';
import { createStage, eventually, sleep, type Stage } from '../support/stage.ts';

let world: FindingWorld;
let stage: Stage;
beforeEach(() => {
  world = createFindingWorld();
  stage = createStage();
});
afterEach(async () => {
  await world.close();
  await stage.close();
});

const quickTime = { ...laptopVllmServer.engine.stepTime, baseMs: 10, perSequenceMs: 0, jitterShare: 0 };
const vllm: VllmServerSettings = { ...laptopVllmServer, engine: { ...laptopVllmServer.engine, stepTime: quickTime } };
const llama = {
  ...laptopLlamaServer,
  engine: { ...laptopLlamaServer.engine, stepTime: { ...quickTime, perPrefillTokenMs: 0.5 } },
};
const names = (findings: readonly { finding: string }[]) => findings.map(({ finding }) => finding);

describe('a quiet run', () => {
  it.each([
    ['vLLM', vllm],
    ['llama-server', llama],
  ] as const)('on %s names nothing, and the engine and warmlane tell the same tokens', async (_, settings) => {
    const sim = await world.sim(settings);
    const proxy = await world.proxy([sim.url]);
    // Alone, then together, then streamed or not, with prefix hits and without.
    for (let i = 0; i < 4; i += 1) await chat(proxy.url, { prompt: words(30), maxTokens: 30 });
    await Promise.all(
      [1, 2, 3].map((i) => chat(proxy.url, { prompt: words(5, `n${i}`), maxTokens: 40, stream: i !== 2 })),
    );
    await sleep(2500);
    expect(await findingsOf(proxy)).toMatchObject({ active: [], ended: [] });
    const [engine] = await enginesOf(proxy);
    expect(engine).toMatchObject({ metrics: 'read', engine: settings.dialect });
    const { there, here } = engine?.windows?.['60m'] ?? { there: {}, here: {} };
    expect(here).toMatchObject({ requests: 7, outputTokens: 4 * 30 + 3 * 40, certain: true });
    // A reading is needed to begin from: on llama-server the first one comes with the first request.
    expect(there['generatedTokens']).toBeLessThanOrEqual(here['outputTokens'] ?? 0);
    expect(there['generatedTokens']).toBeGreaterThanOrEqual(3 * 40);
    if (settings.dialect === 'vllm') {
      expect(there).toMatchObject({ generatedTokens: here['outputTokens'], promptTokens: here['promptTokens'] });
      expect(there['cachedTokens']).toBe(here['cachedTokens']);
      expect(Math.abs((there['ttftMs'] ?? NaN) - (here['upstreamTtftMs'] ?? NaN))).toBeLessThan(50);
    }
    expect(proxy.logged.filter(({ msg }) => String(msg).startsWith('finding'))).toEqual([]);
  });
});

describe('a finding names', () => {
  it.each([
    ['R21 vLLM', vllm],
    ['R20 llama-server', llama],
  ] as const)('%s: who stood still by whose prefill', async (_, settings) => {
    const sim = await world.sim(settings);
    const proxy = await world.proxy([sim.url]);
    const stream = chat(proxy.url, { id: 'stream', prompt: 'short', maxTokens: 120 });
    await sleep(400);
    await chat(proxy.url, { id: 'long', prompt: words(1500), maxTokens: 1 });
    await stream;
    const found = await untilFound(proxy, 'prefill_stall');
    expect(found.evidence).toMatchObject({ worstStream: 'stream', worstCause: 'long', streams: 1 });
    expect(found.evidence['worstPromptTokens']).toBeGreaterThan(1400);
    expect(found.evidence['worstMs']).toBeGreaterThan(300);
    expect(names((await findingsOf(proxy)).active)).toEqual(['prefill_stall']);
    expect(proxy.logged.find(({ msg }) => msg === 'finding began')).toMatchObject({
      level: 'warn',
      finding: 'prefill_stall',
      worstCause: 'long',
    });
  });

  it('preemption and the full KV cache behind it, and the victim’s gap', async () => {
    const cache = { kind: 'blocks', blockTokens: 16, blocks: 40, prefixCaching: true } as const;
    const small: VllmServerSettings = { ...vllm, engine: { ...vllm.engine, cache, maxSequences: 4 } };
    const sim = await world.sim(small);
    const proxy = await world.proxy([sim.url]);
    const ids = ['a', 'b', 'c', 'd', 'e'];
    await Promise.all(ids.map((id) => chat(proxy.url, { id, prompt: `prompt ${id}`, maxTokens: 250 })));
    const preemption = await untilFound(proxy, 'preemption');
    expect(preemption.evidence['preemptions']).toBeGreaterThan(0);
    expect(preemption.evidence['victims']).toBeGreaterThan(0);
    expect(ids).toContain(preemption.evidence['victim']);
    expect(preemption.evidence['gapMs']).toBeGreaterThan(500);
    const exhaustion = await untilFound(proxy, 'kv_exhaustion');
    expect(exhaustion.evidence['kvUsedPercent']).toBeGreaterThan(90);
    expect(exhaustion.evidence['waiting']).toBeGreaterThan(0);
    expect(names((await findingsOf(proxy)).active).toSorted()).toEqual(['kv_exhaustion', 'preemption']);
  });

  it('R08 a llama-server whose slots share one context that ran full', async () => {
    const cache = { kind: 'slots', slotTokens: 256, unified: true, ramTokens: 0, minSimilarity: 0.1 } as const;
    const sim = await world.sim({ ...llama, engine: { ...llama.engine, cache, maxSequences: 2 } });
    const proxy = await world.proxy([sim.url]);
    await Promise.all(['a', 'b'].map((id) => chat(proxy.url, { prompt: `prompt ${id}`, maxTokens: 240 })));
    const found = await untilFound(proxy, 'kv_exhaustion', 15_000);
    expect(found.evidence).toMatchObject({ brokenAnswers: 2, contextLimitTokens: 256 });
  });

  it('foreign traffic: what comes past warmlane, beside its own requests', async () => {
    const sim = await world.sim(vllm);
    const proxy = await world.proxy([sim.url]);
    await Promise.all([chat(proxy.url, { maxTokens: 30 }), chat(sim.url, { prompt: 'past it', maxTokens: 120 })]);
    const found = await untilFound(proxy, 'foreign_traffic');
    expect(found.evidence).toMatchObject({ tokens: 'output' });
    expect(found.evidence['foreignTokens']).toBeGreaterThan(60);
    expect(found.evidence['foreignTokens']).toBeLessThanOrEqual(120);
    const counted = async () => {
      const { there, here } = (await enginesOf(proxy))[0]?.windows?.['1m'] ?? { there: {}, here: {} };
      return there['generatedTokens'] === 150 && here['outputTokens'] === 30;
    };
    await eventually(counted, 'both accounts to be complete');
  });

  it('foreign traffic on llama-server, which counts an answer at its end, and asks nothing while it idles', async () => {
    const sim = await world.sim(llama);
    const proxy = await world.proxy([sim.url]);
    await chat(proxy.url, { maxTokens: 10 });
    await sleep(400);
    await chat(sim.url, { prompt: 'past it', maxTokens: 100 });
    await sleep(400);
    expect((await findingsOf(proxy)).active).toEqual([]);
    for (let i = 0; i < 3; i += 1) await chat(proxy.url, { maxTokens: 30 });
    const found = await untilFound(proxy, 'foreign_traffic');
    expect(found.evidence['foreignTokens']).toBeLessThanOrEqual(100);
  });

  it('nothing foreign in what a client abandoned', async () => {
    const sim = await world.sim(llama);
    const proxy = await world.proxy([sim.url]);
    await chat(proxy.url, { maxTokens: 10 });
    for (let i = 0; i < 3; i += 1) {
      const leave = AbortSignal.timeout(150);
      const body = {
        model: 'simulated',
        stream: i > 0,
        max_tokens: 300,
        ignore_eos: true,
        messages: [{ role: 'user', content: 'go on' }],
      };
      const request = { method: 'POST', body: JSON.stringify(body), signal: leave };
      await fetch(`${proxy.url}/v1/chat/completions`, request)
        .then((answer) => answer.text())
        .catch(() => undefined);
    }
    for (let i = 0; i < 3; i += 1) await chat(proxy.url, { maxTokens: 30 });
    await sleep(2500);
    expect((await findingsOf(proxy)).active).toEqual([]);
  });
});

describe('what only the stream shows', () => {
  const tokens = (count: number, text = 'x') => Array.from({ length: count }, () => T(text));

  async function scripted(script: () => Script, metrics?: () => string) {
    const backend = await stage.backend({
      onRequest: script,
      probes: {
        engine: 'vllm',
        override: (request) =>
          metrics !== undefined && request.target === '/metrics' ? [wholeAnswer(200, metrics())] : undefined,
      },
    });
    const backends = [{ url: backend.url, name: 'b', engine: 'vllm' as const }];
    const proxy = await stage.proxy(backend, { change: { fleet: { ...quick.fleet, backends } } });
    return { backend, proxy };
  }

  it('buffering: all tokens in one burst after the time in which they were made, several times', async () => {
    const { proxy } = await scripted(() => [
      send(sseHead()),
      400,
      send(chunk(ROLE, ...tokens(20), FIN('length'), USE(5, 20), DONE)),
      send(lastChunk),
    ]);
    for (let i = 0; i < 2; i += 1) await chat(proxy.url);
    await sleep(1500);
    expect((await findingsOf(proxy)).active).toEqual([]);
    // An answer during which this very process lagged says nothing, so there may have to be some more.
    for (let i = 0; i < 8 && (await findingsOf(proxy)).active.length === 0; i += 1) {
      await chat(proxy.url);
      await sleep(1100);
    }
    const found = await untilFound(proxy, 'buffering');
    expect(found.evidence).toMatchObject({ buffered: 3, events: 20 });
    expect(found.evidence['waitMs']).toBeGreaterThan(390);
  });

  it('no buffering in answers of one token after a long prefill', async () => {
    const { proxy } = await scripted(() => [
      send(sseHead()),
      400,
      send(chunk(ROLE, T('y'), FIN('length'), USE(5, 1), DONE)),
      send(lastChunk),
    ]);
    for (let i = 0; i < 5; i += 1) await chat(proxy.url);
    await sleep(1500);
    expect((await findingsOf(proxy)).active).toEqual([]);
  });

  const spaced = (events: number, usage: number) => (): Script => [
    send(sseHead()),
    send(chunk(ROLE)),
    ...tokens(events).flatMap((event) => [10, send(chunk(event))]),
    send(chunk(FIN('length'), USE(5, usage), DONE)),
    send(lastChunk),
  ];

  it('R16 several tokens per event, without a word of speculation', async () => {
    const { proxy } = await scripted(spaced(40, 100));
    await chat(proxy.url);
    await chat(proxy.url);
    const found = await untilFound(proxy, 'several_tokens_per_event');
    expect(found.evidence).toEqual({ source: 'stream', events: 80, tokens: 200, tokensPerEvent: 2.5 });
    expect(names((await findingsOf(proxy)).active)).toEqual(['several_tokens_per_event']);
  });

  it('R16 speculation and its acceptance, where the engine counts them', async () => {
    let step = 0;
    const metrics = () => {
      const series = {
        spec_decode_num_drafts_total: 10,
        spec_decode_num_draft_tokens_total: 40,
        spec_decode_num_accepted_tokens_total: 15,
      };
      const lines = Object.entries(series).map(
        ([name, each]) => `vllm:${name}{engine="0",model_name="m"} ${each * step}.0`,
      );
      return `${lines.join('\n')}\nvllm:num_requests_running{engine="0",model_name="m"} 0.0\n`;
    };
    const { proxy } = await scripted(spaced(40, 100), metrics);
    await sleep(300);
    step = 1;
    await chat(proxy.url);
    await chat(proxy.url);
    const found = await untilFound(proxy, 'speculation');
    expect(found.evidence).toMatchObject({ source: 'engine', acceptedPercent: 37.5, tokensPerStep: 2.5 });
    expect(names((await findingsOf(proxy)).active)).toEqual(['speculation']);
    expect(proxy.logged.find(({ msg }) => msg === 'finding began')).toMatchObject({ level: 'info' });
  });

  it('a counter that falls is a restart: no negative tokens, nothing foreign, and counting goes on', async () => {
    let generated = 5000;
    const { proxy } = await scripted(
      spaced(10, 10),
      () => `vllm:generation_tokens_total{engine="0",model_name="m"} ${generated}.0\n`,
    );
    const generatedNow = async () => (await enginesOf(proxy))[0]?.totals?.['generatedTokens'];
    await eventually(async () => (await generatedNow()) === 0, 'a first reading');
    generated = 5010;
    await eventually(async () => (await generatedNow()) === 10, 'ten tokens');
    generated = 4;
    await sleep(300);
    generated = 9;
    await eventually(async () => (await generatedNow()) === 15, 'five more');
    const [engine] = await enginesOf(proxy, '?points=1');
    expect(engine?.windows?.['1m']?.restarted).toBe(true);
    expect(JSON.stringify(engine?.points)).not.toContain('-');
    expect((await findingsOf(proxy)).active).toEqual([]);
  });
});

describe('an engine without metrics', () => {
  it('is named on the page, and asked no more', async () => {
    const sim = await world.sim({ ...llama, metrics: false });
    const proxy = await world.proxy([sim.url]);
    for (let i = 0; i < 3; i += 1) await chat(proxy.url, { maxTokens: 20 });
    await eventually(async () => (await enginesOf(proxy))[0]?.metrics === 'none', 'the page to know');
    expect((await enginesOf(proxy))[0]?.why).toContain('start it with --metrics');
  });

  it('is one whose metrics are switched off, too', async () => {
    const sim = await world.sim(vllm);
    const proxy = await world.proxy([sim.url], { fleet: { engineMetrics: false } });
    await eventually(async () => (await enginesOf(proxy))[0]?.metrics === 'none', 'the page to know');
    expect((await enginesOf(proxy))[0]?.why).toContain('probes.engineMetrics');
  });
});
