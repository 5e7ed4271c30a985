/**
 * A fleet that changes under load, with warm routing, over real sockets before simulated engines: a backend lost, started
 * anew, added. Nothing that could be saved may fail, and what is believed to be cached comes to be true again. How long that
 * took is measured and told; the bounds are loose, since a busy machine takes longer.
 */
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { RequestRecord } from '../../src/domain/record.ts';
import { createSimServer, type SimServer } from '../../src/sim/server.ts';
import { laptopVllmServer, type VllmServerSettings } from '../../src/sim/server-settings.ts';
import { predictionOf, recordsOf, talk, words, type Talk, type Turn } from '../support/conversations.ts';
import { createFindingWorld, type FindingWorld } from '../support/finding-world.ts';
import type { ConfigChange, Proxy } from '../support/proxy.ts';
import { eventually, sleep } from '../support/stage.ts';

/** 8 ms a step, 10,000 prompt tokens a second: quick, and yet prefills are seen. */
const server: VllmServerSettings = {
  ...laptopVllmServer,
  frontendMs: 1,
  engine: {
    ...laptopVllmServer.engine,
    maxSequences: 16,
    cache: { kind: 'blocks', blockTokens: 16, blocks: 4096, prefixCaching: true },
    stepTime: { ...laptopVllmServer.engine.stepTime, baseMs: 8, perSequenceMs: 0.2, perPrefillTokenMs: 0.1 },
  },
};

/** A user's talk: a system prompt of one of three kinds, questions of 60 tokens, answers of 20. */
const chatter: Omit<Talk, 'name' | 'users' | 'turns'> = {
  system: (user) => words(300, `Kind ${user % 3}:`),
  questionTokens: 60,
  answerTokens: 20,
  pauseMs: (user, turn) => (turn === 0 ? user * 20 : 60 + ((user * 13) % 60)),
};

let world: FindingWorld;
let extra: SimServer[];
beforeEach(() => {
  world = createFindingWorld();
  extra = [];
});
afterEach(async () => {
  await world.close();
  await Promise.all(extra.map((sim) => sim.close()));
});

async function startFleet(
  count: number,
  change: ConfigChange = {},
): Promise<{ proxy: Proxy; sims: readonly SimServer[] }> {
  const sims = await Promise.all(Array.from({ length: count }, () => world.sim(server)));
  const proxy = await world.proxy(
    sims.map(({ url }) => url),
    { ...change, route: { policy: 'warm' } },
  );
  return { proxy, sims };
}

/** A prompt that an engine died on is asked once more elsewhere only where that was said. */
const savesAll: ConfigChange = { relay: { retryAfterCrash: true } };

const nameOf = ({ port }: SimServer) => `127.0.0.1:${port}`;
const viewOf = (proxy: Proxy, name: string) => proxy.app.fleet.snapshot().backends.find((view) => view.name === name);

/** Talks until it is stopped; resolves to all turns. */
function talkOn(proxy: Proxy, name: string, users = 12): { stop(): Promise<readonly Turn[]> } {
  let over = false;
  const done = talk(proxy, { ...chatter, name, users, turns: 200, until: () => over });
  return {
    stop() {
      over = true;
      return done;
    },
  };
}

const tell = (what: string, ms: number) => console.info(`${what}: ${Math.round(ms)} ms`);

describe('a backend that is lost under load', () => {
  it('costs only the answers that had begun there; its conversations go on elsewhere', async () => {
    const { proxy, sims } = await startFleet(3, savesAll);
    const talking = talkOn(proxy, 'lost');
    await sleep(1500);
    const victim = busiest(sims);
    const lostMs = performance.now();
    await victim.close();
    await eventually(() => viewOf(proxy, nameOf(victim))?.health === 'down', 'seen to be down');
    tell('lost, seen to be down after', performance.now() - lostMs);
    await sleep(2500);
    const turns = await talking.stop();
    const records = await recordsOf(proxy, turns);

    const failed = turns.filter(({ ok }) => !ok);
    // What failed had already shown its client an answer's beginning: nobody could have begun it again unseen.
    for (const turn of failed) {
      expect(records.get(turn.requestId)).toMatchObject({
        backend: nameOf(victim),
        outcome: expect.stringMatching(/^upstream_/) as string,
      });
      expect(records.get(turn.requestId)?.events).toBeGreaterThan(0);
      expect(turn.status).toBe(200);
      expect(turn.sentMs).toBeLessThan(lostMs);
      expect(turn.endMs).toBeGreaterThanOrEqual(lostMs);
    }
    expect(failed.length).toBeLessThan(12);
    const after = turns.filter(({ sentMs }) => sentMs > lostMs + 500);
    expect(after.length).toBeGreaterThan(12);
    expect(after.filter(({ requestId }) => records.get(requestId)?.backend === nameOf(victim))).toEqual([]);
    // Those who had been there found a new home: from their second turn on the prompt is warm again.
    const homes = usersAt(turns, records, { backend: nameOf(victim), beforeMs: lostMs });
    expect(homes.size).toBeGreaterThan(0);
    const again = secondTurns(after.filter(({ user }) => homes.has(user)));
    expect(again.length).toBeGreaterThan(0);
    expect(predictionOf(recordsFor(again, records)).delivered).toBeGreaterThan(0.6);
  }, 60_000);

  it('what had not been answered yet is answered by another', async () => {
    const { proxy, sims } = await startFleet(2, savesAll);
    // Warm on one of them, so that it is known where the next ones go.
    await talk(proxy, { ...chatter, name: 'seed', users: 1, turns: 3, system: () => words(300, 'One kind:') });
    const [first] = await proxy.records(1);
    const home = sims.find((sim) => nameOf(sim) === first?.backend);
    if (home === undefined) throw new Error('the first request has no backend');
    // Its engine stands still: prompts wait there unanswered, as in a long step.
    home.engine.freeze();
    const waiting = talk(proxy, {
      ...chatter,
      name: 'wait',
      users: 6,
      turns: 1,
      system: () => words(300, 'One kind:'),
    });
    await eventually(() => home.openSockets > 1, 'requests at the frozen one');
    await sleep(200);
    await home.close();
    const turns = await waiting;
    expect(turns.filter(({ ok }) => !ok)).toEqual([]);
    const records = await recordsOf(proxy, turns);
    expect([...records.values()].some(({ attempts }) => attempts > 1)).toBe(true);
    expect([...records.values()].every(({ backend }) => backend !== nameOf(home))).toBe(true);
  }, 60_000);
});

describe('a backend that is started anew under load', () => {
  it('is recognised: what was believed to be cached there is forgotten, and prediction comes true again', async () => {
    const { proxy, sims } = await startFleet(3);
    const talking = talkOn(proxy, 'anew');
    await sleep(1500);
    const victim = busiest(sims);
    const restartMs = performance.now();
    await victim.close();
    extra.push(await createSimServer(server, { port: victim.port }));
    await eventually(() => (viewOf(proxy, nameOf(victim))?.restarts ?? 0) > 0, 'the restart recognised');
    const knownMs = performance.now();
    tell('started anew, recognised after', knownMs - restartMs);
    await sleep(2500);
    const turns = await talking.stop();
    const records = await recordsOf(proxy, turns);

    const there = turns.filter(({ requestId }) => records.get(requestId)?.backend === nameOf(victim));
    const after = there.filter(({ sentMs, ok }) => ok && sentMs > knownMs);
    expect(after.length).toBeGreaterThan(3);
    // The first ones after it are not taken for warm beyond what came there since.
    const [next] = after.map(({ requestId }) => records.get(requestId));
    expect(next?.routing?.predictedTokens ?? 0).toBeLessThanOrEqual((next?.tokens.cached?.value ?? 0) + 16);
    const { bias, delivered } = predictionOf(recordsFor(after, records));
    console.info(`started anew, from then on: delivered ${delivered.toFixed(3)}, bias ${bias.toFixed(3)}`);
    expect(Math.abs(bias)).toBeLessThan(0.15);
    const convergedMs = lastWrongMs(there, records, restartMs) - restartMs;
    tell('started anew, last prediction off by a tenth of its prompt after', convergedMs);
    expect(convergedMs).toBeLessThan(4000);
    // No request was lost but those that ran when it went.
    const lost = turns.filter(({ ok, sentMs }) => !ok && sentMs > restartMs);
    expect(lost).toEqual([]);
  }, 60_000);
});

describe('a backend that is added under load', () => {
  it('takes its share soon, without being flooded', async () => {
    const { proxy, sims } = await startFleet(2);
    let over = false;
    // A new conversation every 50 ms, each about something else.
    const talking = talk(proxy, {
      ...{ name: 'more', users: 200, turns: 4, questionTokens: 60, answerTokens: 20, until: () => over },
      system: (user) => words(300, `Matter ${user}:`),
      pauseMs: (user, turn) => (turn === 0 ? user * 50 : 100),
    });
    await sleep(1200);
    const added = await world.sim(server);
    const addedMs = performance.now();
    const answer = await fetch(`${proxy.adminUrl}/backends`, {
      method: 'POST',
      headers: { 'Content-Type': 'application/json' },
      body: JSON.stringify({ url: added.url }),
    });
    expect(answer.ok).toBe(true);
    const crowds = new Map<SimServer, number>();
    const watch = setInterval(() => {
      for (const sim of [...sims, added]) {
        const { running, waiting } = sim.engine.view();
        crowds.set(sim, Math.max(crowds.get(sim) ?? 0, running + waiting));
      }
    }, 5);
    await eventually(() => added.engine.view().counters.submitted >= 10, 'ten requests at the new one', 10_000);
    tell('added, ten requests there after', performance.now() - addedMs);
    await sleep(2500);
    clearInterval(watch);
    over = true;
    const turns = await talking;
    const records = await recordsOf(proxy, turns);
    expect(turns.filter(({ ok }) => !ok)).toEqual([]);
    const begun = turns.filter(({ turn, sentMs }) => turn === 0 && sentMs > addedMs + 500);
    const there = begun.filter(({ requestId }) => records.get(requestId)?.backend === nameOf(added));
    // A third would be its even share; at first it starts slowly, then it is the emptiest.
    expect(there.length / begun.length).toBeGreaterThan(0.1);
    expect(there.length / begun.length).toBeLessThan(0.8);
    const usual = Math.max(...sims.map((sim) => crowds.get(sim) ?? 0));
    expect(crowds.get(added)).toBeLessThanOrEqual(1.5 * usual + 4);
  }, 60_000);
});

function recordsFor(turns: readonly Turn[], records: ReadonlyMap<string, RequestRecord>): RequestRecord[] {
  return turns.flatMap(({ requestId }) => records.get(requestId) ?? []);
}

/** The one that got most of the work. */
function busiest(sims: readonly SimServer[]): SimServer {
  const [most] = sims.toSorted((a, b) => b.engine.view().counters.submitted - a.engine.view().counters.submitted);
  if (most === undefined) throw new Error('no backend');
  return most;
}

/** All of each user's but the first. */
function secondTurns(turns: readonly Turn[]): readonly Turn[] {
  const seen = new Set<number>();
  return turns.filter(({ user }) => seen.has(user) || !seen.add(user));
}

/** Users whose last turn before that moment was served there. */
function usersAt(
  turns: readonly Turn[],
  records: ReadonlyMap<string, RequestRecord>,
  at: { readonly backend: string; readonly beforeMs: number },
): ReadonlySet<number> {
  const last = new Map<number, string | undefined>();
  for (const { user, endMs, requestId } of turns) {
    if (endMs < at.beforeMs) last.set(user, records.get(requestId)?.backend);
  }
  return new Set([...last].filter(([, backend]) => backend === at.backend).map(([user]) => user));
}

/** When the last request was sent there of which a tenth of the prompt was believed to be cached and was not; the given moment without one. */
function lastWrongMs(turns: readonly Turn[], records: ReadonlyMap<string, RequestRecord>, fromMs: number): number {
  const wrong = turns.filter(({ requestId, sentMs }) => {
    const { routing, tokens } = records.get(requestId) ?? {};
    const over = (routing?.predictedTokens ?? 0) - (tokens?.cached?.value ?? 0);
    return sentMs > fromMs && tokens?.cached !== undefined && over > 0.1 * (tokens.prompt?.value ?? 0);
  });
  return Math.max(fromMs, ...wrong.map(({ sentMs }) => sentMs));
}
