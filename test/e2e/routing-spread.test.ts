/**
 * A hot prefix must not gather all work on one backend, on whatever path it comes, and yet a conversation stays where it was:
 * warm routing over real sockets, before simulated and scripted backends.
 */
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { until, type Script } from '../../src/sim/fault-steps.ts';
import type { SimServer } from '../../src/sim/server.ts';
import { laptopVllmServer, type VllmServerSettings } from '../../src/sim/server-settings.ts';
import { chunk, DONE, FIN, lastChunk, ROLE, sseEvent, sseHead, T } from '../../src/sim/sse-script.ts';
import { quantile, recordsOf, stickShare, talk, words, type Talk, type Turn } from '../support/conversations.ts';
import { createFindingWorld, type FindingWorld } from '../support/finding-world.ts';
import { createStage, eventually, sleep, untilIdle, usersOf, type Stage } from '../support/stage.ts';

/** Eight sequences at once; 10 ms a step, 5,000 prompt tokens a second. */
const capacity = 8;
const server: VllmServerSettings = {
  ...laptopVllmServer,
  frontendMs: 1,
  engine: {
    ...laptopVllmServer.engine,
    maxSequences: capacity,
    cache: { kind: 'blocks', blockTokens: 16, blocks: 4096, prefixCaching: true },
    stepTime: { ...laptopVllmServer.engine.stepTime, baseMs: 10, perSequenceMs: 0.2, perPrefillTokenMs: 0.2 },
  },
};

const shared = words(750, 'Rules for everybody:');

describe('a hot prefix', () => {
  let world: FindingWorld;
  beforeEach(() => {
    world = createFindingWorld();
  });
  afterEach(() => world.close());

  /**
   * 32 users, nine in ten of them with the same 4 KB before what is their own: a text that they work on, and what they say of it.
   * Clients name their conversations.
   */
  const hot: Omit<Talk, 'name'> = {
    users: 32,
    turns: 4,
    system: (user) =>
      `${user % 10 === 9 ? words(750, `Rules for user ${user}:`) : shared} ${words(800, `User ${user} works on this:`)}`,
    questionTokens: 50,
    answerTokens: 12,
    named: true,
    pauseMs: (user, turn) => (turn === 0 ? user * 60 : 250 + ((user * 37) % 250)),
  };

  async function spread(policy: 'warm' | 'round-robin', told: boolean) {
    const sims = await Promise.all(Array.from({ length: 4 }, () => world.sim(server)));
    const places = { backends: sims.map(({ url, port }) => ({ url, name: `b${port}`, maxInFlight: capacity })) };
    const proxy = await world.proxy(
      sims.map(({ url }) => url),
      { route: { policy }, ...(told ? { fleet: places } : {}) },
    );
    const crowd = watchCrowd(sims);
    const turns = await talk(proxy, { ...hot, name: policy });
    const { samples, crowded } = crowd.stop();
    expect(turns.filter(({ ok }) => !ok)).toEqual([]);
    expect(samples).toBeGreaterThan(20);
    const records = await recordsOf(proxy, turns);
    const made = {
      p95Ms: quantile(ttfts(turns), 0.95),
      crowdedShare: crowded / samples,
      stayedShare: stickShare(turns, records),
    };
    const requests = sims.map(({ engine }) => engine.view().counters.submitted);
    console.info(
      `${policy}, ${told ? 'capacity told' : 'nothing told'}: TTFT p95 ${Math.round(made.p95Ms)} ms, ` +
        `crowded ${made.crowdedShare.toFixed(3)}, stayed ${made.stayedShare.toFixed(2)}, requests ${requests.join(' ')}`,
    );
    return made;
  }

  it.each([
    { told: true, what: 'whose capacity the config tells' },
    { told: false, what: 'of which nobody tells what they take at once' },
  ])(
    'C140 loads none of four backends $what past it while another is half empty',
    async ({ told }) => {
      const warm = await spread('warm', told);
      const turned = await spread('round-robin', told);
      // A decision that rests on load may come a step before the engine's own count.
      expect(warm.crowdedShare).toBeLessThan(told ? 0.02 : 0.2);
      expect(warm.stayedShare).toBeGreaterThanOrEqual(0.9);
      // On a busy machine some milliseconds come on top of both.
      expect(warm.p95Ms).toBeLessThan(1.5 * turned.p95Ms + 30);
    },
    60_000,
  );

  it('C144 a growing conversation goes where its last turn went', async () => {
    const sims = await Promise.all(Array.from({ length: 4 }, () => world.sim(server)));
    const proxy = await world.proxy(
      sims.map(({ url }) => url),
      { route: { policy: 'warm' } },
    );
    const turns = await talk(proxy, {
      ...{ name: 'grow', users: 20, turns: 5, questionTokens: 60, answerTokens: 6 },
      system: (user) => words(100, `You help user ${user}.`),
      // Idle enough: each backend has about one request at a time.
      pauseMs: (user, turn) => (turn === 0 ? user * 45 : 800),
    });
    expect(turns.filter(({ ok }) => !ok)).toEqual([]);
    const records = await recordsOf(proxy, turns);
    expect(stickShare(turns, records)).toBeGreaterThanOrEqual(0.9);
    // And not because all went to one.
    expect(new Set([...records.values()].map(({ backend }) => backend)).size).toBe(4);
    const later = turns.filter(({ turn }) => turn > 0).map(({ requestId }) => records.get(requestId));
    expect(later.every((record) => (record?.routing?.predictedTokens ?? 0) > 0)).toBe(true);
  }, 60_000);
});

/** How often a backend had more than it can run while another was less than half full. */
function watchCrowd(sims: readonly SimServer[]) {
  let [samples, crowded] = [0, 0];
  const timer = setInterval(() => {
    const loads = sims.map(({ engine }) => {
      const { running, waiting } = engine.view();
      return running + waiting;
    });
    if (loads.every((load) => load === 0)) return;
    samples += 1;
    if (Math.max(...loads) > capacity && Math.min(...loads) < capacity / 2) crowded += 1;
  }, 10);
  return {
    stop() {
      clearInterval(timer);
      return { samples, crowded };
    },
  };
}

function ttfts(turns: readonly Turn[]): number[] {
  return turns.map(({ firstMs = Number.NaN, sentMs }) => firstMs - sentMs);
}

describe('200 streams with the same 8 KB before them', () => {
  let stage: Stage;
  beforeEach(() => {
    stage = createStage();
  });
  afterEach(() => stage.close());

  const text = words(2000, 'The same for all:');
  const prompt = { model: 'm', stream: true, prompt: text };
  const asks = [
    {
      path: '/v1/chat/completions',
      body: { model: 'm', stream: true, messages: [{ role: 'user', content: text }] },
      events: [`${ROLE}${T('a')}`, FIN('stop')],
    },
    {
      path: '/v1/completions',
      body: prompt,
      events: [
        sseEvent({ choices: [{ index: 0, text: 'a', finish_reason: null }] }),
        sseEvent({ choices: [{ index: 0, text: '', finish_reason: 'stop' }] }),
      ],
    },
    {
      path: '/inference/v1/generate',
      body: prompt,
      events: [
        sseEvent({ choices: [{ index: 0, token_ids: [5], finish_reason: null }] }),
        sseEvent({ choices: [{ index: 0, token_ids: [], finish_reason: 'stop' }] }),
      ],
    },
    // Of which nothing is known, neither what it asks nor what it answers.
    { path: '/unheard/of/generate', body: prompt, events: [sseEvent({ made: 'a' }), sseEvent({ end: true })] },
  ];

  it.each(asks)('C136 to $path are spread over all, and counted while they run', async ({ path, body, events }) => {
    const streams = 200;
    let open = (): void => {};
    const gate = new Promise<void>((resolve) => {
      open = resolve;
    });
    const onRequest = function* (): Script {
      yield sseHead();
      yield chunk(events[0] ?? '');
      yield until(gate);
      yield chunk(`${events[1] ?? ''}${DONE}`);
      yield lastChunk;
    };
    const backends = await Promise.all(
      Array.from({ length: 4 }, () => stage.backend({ onRequest, probes: { engine: 'vllm' } })),
    );
    const proxy = await stage.proxy(backends, { change: { route: { policy: 'warm' } } });
    const answers: Promise<number>[] = [];
    for (let n = 0; n < streams; n += 1) {
      answers.push(readStatus(proxy.url + path, body));
      // A burst, and yet each choice sees the one before it.
      if (n % 10 === 9) await sleep(1);
    }
    await eventually(
      () => backends.reduce((sum, backend) => sum + usersOf(backend).length, 0) === streams,
      'all there',
    );
    const jobs = await jobsOf(proxy.adminUrl);
    const mean = streams / backends.length;
    expect(jobs.reduce((sum, each) => sum + each, 0)).toBe(streams);
    expect(Math.min(...jobs)).toBeGreaterThan(0);
    expect(Math.max(...jobs)).toBeLessThanOrEqual(1.5 * mean);
    open();
    expect(await Promise.all(answers)).toEqual(Array.from({ length: streams }, () => 200));
    await untilIdle(proxy);
    expect(await jobsOf(proxy.adminUrl)).toEqual([0, 0, 0, 0]);
  });
});

/** Of an answer that came whole; 0 else. */
async function readStatus(url: string, body: object): Promise<number> {
  try {
    const answer = await fetch(url, {
      method: 'POST',
      headers: { 'Content-Type': 'application/json' },
      body: JSON.stringify(body),
    });
    await answer.arrayBuffer();
    return answer.status;
  } catch {
    return 0;
  }
}

async function jobsOf(adminUrl: string): Promise<number[]> {
  const answer = await fetch(`${adminUrl}/backends`);
  const { backends } = (await answer.json()) as { backends: { load: { jobs: number } }[] };
  return backends.map(({ load }) => load.jobs);
}
