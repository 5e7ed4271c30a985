import { describe, expect, it } from 'vitest';
import type { AskPlace, LoadView } from '../../src/admit/owner.ts';
import type { BackendView } from '../../src/domain/fleet.ts';
import type { Job } from '../../src/domain/job.ts';
import { isRefusal } from '../../src/domain/refusal.ts';
import type { Errand } from '../../src/domain/routing.ts';
import { createRouting, type RoutingDeps } from '../../src/routing.ts';
import { type RouteSettings, routeDefaults } from '../../src/route/settings.ts';
import { createFakeClock } from '../support/fake-clock.ts';
import { createFakeIndex, sampleChain } from '../support/fake-index.ts';
import { sampleBackend, sampleJob } from '../support/sample.ts';

const idle: LoadView = {
  jobs: 0,
  slots: 0,
  lastUsed: 0,
  pendingTokens: 0,
  pendingJobs: 0,
  decoding: 0,
  contextTokens: 0,
};

interface World {
  readonly backends?: BackendView[];
  readonly settings?: Partial<RouteSettings>;
  readonly deps?: Partial<RoutingDeps>;
}

function setUp({
  backends = ['a', 'b', 'c'].map((name) => sampleBackend(name)),
  settings = {},
  deps = {},
}: World = {}) {
  const clock = createFakeClock();
  const index = createFakeIndex();
  const world = { backends };
  const loads = new Map<string, LoadView>();
  const load = (name: string) => loads.get(name) ?? idle;
  const snapshots = new Map<BackendView[], { atMs: number; backends: BackendView[] }>();
  const fleet = () => {
    const known = snapshots.get(world.backends) ?? { atMs: 1, backends: world.backends };
    snapshots.set(world.backends, known);
    return known;
  };
  const routing = createRouting({ ...routeDefaults, ...settings }, { clock, fleet, index, ...deps });
  const choose = (job: Job, over: { exclude?: string[]; place?: AskPlace } = {}) => {
    const choice = routing.choose({ job, exclude: over.exclude ?? [] }, load, over.place);
    if (isRefusal(choice)) throw new Error(choice.code);
    return choice;
  };
  /** Chooses and sends, as the owner does. */
  const send = (
    job: Job,
    over: { computed?: () => void } = {},
  ): { errand: Errand; backend: string; reason: string } => {
    const ask = { job, exclude: [] };
    const choice = routing.choose(ask, load);
    if (isRefusal(choice)) throw new Error(choice.code);
    const [target] = choice.ranked;
    if (target === undefined) throw new Error('nobody');
    const errand = routing.sent(ask, target, {
      load: load(target.backend.name),
      computed: over.computed ?? (() => {}),
      overdue() {},
    });
    if (errand === undefined) throw new Error('no errand');
    return { errand, backend: target.backend.name, reason: target.reason };
  };
  return { clock, index, world, loads, routing, choose, send };
}

const prompt = (bytes: number, over: Partial<Job> = {}) =>
  sampleJob({ bodyBytes: bytes, prefix: sampleChain(bytes), ...over });

describe('routing', () => {
  it('sends a prompt where its prefix is, and says what it predicts, what it costs and what else there was', () => {
    const { index, send } = setUp();
    index.held.set('b', 3000);
    const { errand, backend, reason } = send(prompt(16_000));
    expect([backend, reason]).toEqual(['b', 'prefix']);
    expect(errand).toMatchObject({
      promptTokens: 4000,
      uncachedTokens: 1000,
      note: {
        policy: 'warm',
        promptTokens: 4000,
        reusableTokens: 3000,
        reusableAt: 'b',
        predictedTokens: 3000,
        cause: 'new',
        cost: { prefill: 1.5 * (1000 / 8000) },
        considered: [{ backend: 'b', heldTokens: 3000 }, { heldTokens: 0 }, { heldTokens: 0 }],
      },
    });
  });

  it('counts what was sent to a backend of late, less what the engine had cached after all, until it fades', () => {
    const { clock, index, send, routing, world } = setUp({ backends: [sampleBackend('a')] });
    const [a] = world.backends;
    const costNow = () => send(prompt(4000, { prefix: sampleChain(4000, clock.nowMs()) })).errand;
    const alone = costNow();
    alone.ended({ computed: false });
    const before = alone.note?.cost?.prefill ?? 0;
    const rate = a === undefined ? 0 : routing.speed(a).prefillTokensPerSecond;
    // as much as it computes in 7.5 s, half of the time that is remembered
    const big = () => send(prompt(rate * 7.5 * 4, { prefix: sampleChain(rate * 7.5 * 4, clock.nowMs() + 0.5) })).errand;
    const first = big();
    clock.advance(1);
    expect(costNow().note?.cost?.prefill).toBeGreaterThan(1.9 * before);
    first.ended({ computed: true, promptTokens: rate * 7.5, cachedTokens: rate * 7.5 - 1 });
    clock.advance(1);
    expect(costNow().note?.cost?.prefill).toBeLessThan(1.1 * before);
    big();
    clock.advance(100_000);
    expect(costNow().note?.cost?.prefill).toBeLessThan(1.1 * before);
    expect(index.told).not.toEqual([]);
  });

  it('looks up what is held of the prompt of a job that waits no more often than every 50 ms', () => {
    const { clock, index, choose } = setUp();
    let looks = 0;
    const { look } = index;
    index.look = (...asked) => {
      looks += 1;
      return look(...asked);
    };
    const job = prompt(16_000);
    const wait = (waitedMs: number) => choose(job, { place: { waitedMs, ahead: new Map() } });
    wait(0);
    wait(0);
    expect(looks).toBe(2);
    for (let waitedMs = 10; waitedMs <= 100; waitedMs += 10) {
      clock.advance(10);
      wait(waitedMs);
    }
    expect(looks).toBe(4);
    index.held.set('b', 3000);
    expect(wait(101).ranked[0]?.reason).toBe('least_load');
    clock.advance(50);
    expect(wait(151).ranked[0]?.reason).toBe('prefix');
  });

  it('says that a prompt was rerouted where another backend held more of it', () => {
    const { index, loads, send } = setUp();
    index.held.set('a', 2000).set('b', 500);
    loads.set('a', { ...idle, jobs: 9, pendingTokens: 60_000, pendingJobs: 9 });
    const { errand, backend, reason } = send(prompt(16_000));
    expect([backend, reason]).toEqual(['b', 'load_over_prefix']);
    expect(errand.note).toMatchObject({
      reusableTokens: 2000,
      reusableAt: 'a',
      predictedTokens: 500,
      cause: 'rerouted',
    });
  });

  it('knows of what a backend holds that takes no work now', () => {
    const { index, send } = setUp({ backends: [sampleBackend('a', { health: 'down' }), sampleBackend('b')] });
    index.held.set('a', 2000);
    expect(send(prompt(16_000)).errand.note).toMatchObject({
      reusableTokens: 2000,
      cause: 'rerouted',
      considered: [{ backend: 'b' }, { backend: 'a', heldTokens: 2000, left: 'takes_no_work' }],
    });
  });

  it('has no note where nothing is known of the prompt, and takes four bytes for a token', () => {
    const { errand } = setUp().send(sampleJob({ bodyBytes: 4000 }));
    expect(errand).toMatchObject({ promptTokens: 1000, uncachedTokens: 1000 });
    expect(errand.note).toBeUndefined();
  });

  it('notes the capacity that costs were counted with, where it is not one, and whether that is for a slow start', () => {
    const backends = [
      sampleBackend('a', { weight: 2 }),
      sampleBackend('b', { backSinceMs: 1 }),
      sampleBackend('c', { weight: 0.5, backSinceMs: -1e9 }),
      sampleBackend('d'),
    ];
    const considered = setUp({ backends, settings: { slowStartMs: 30_000 } }).send(prompt(4000)).errand.note
      ?.considered;
    const of = (name: string) => {
      const { weight, startsSlowly } = considered?.find(({ backend }) => backend === name) ?? {};
      return { weight, startsSlowly };
    };
    expect(of('a')).toEqual({ weight: 2, startsSlowly: undefined });
    expect(of('b')).toEqual({ weight: 0.1, startsSlowly: true });
    expect(of('c')).toEqual({ weight: 0.5, startsSlowly: undefined });
    expect(considered?.find(({ backend }) => backend === 'd')).not.toHaveProperty('weight');
  });

  it('notes at most sixteen backends', () => {
    const backends = Array.from({ length: 64 }, (_, index) => sampleBackend(`b${index}`));
    expect(setUp({ backends }).send(prompt(4000)).errand.note?.considered).toHaveLength(16);
  });

  it('tells the index of each visit and its end, once', () => {
    const { index, send } = setUp();
    const { errand, backend } = send(prompt(4000));
    errand.ended({ computed: true });
    errand.ended({ computed: false });
    expect(index.told).toEqual([`visit ${backend}`, `end ${backend} computed`]);
  });

  it('asking moves nothing: the same job gets the same choice, whatever was asked before', () => {
    const { index, choose } = setUp();
    const first = choose(prompt(4000));
    for (let seed = 2; seed < 20; seed += 1) choose(prompt(4000, { prefix: sampleChain(4000, seed) }));
    expect(choose(prompt(4000))).toEqual(first);
    expect(index.told).toEqual([]);
  });

  it('takes the pace of a backend from its answers', () => {
    const { routing, send, world } = setUp();
    const { errand, backend } = send(prompt(16_000));
    errand.ended({ computed: true, promptTokens: 4000, cachedTokens: 0, upstreamTtftMs: 4015 });
    const view = world.backends.find(({ name }) => name === backend);
    expect(view && routing.speed(view).prefillTokensPerSecond).toBe(1000);
  });

  it('lays what prompts take from the answers beside them to the prompts, not to the steps', () => {
    const { routing, send, world } = setUp({ backends: [sampleBackend('a')] });
    const [view] = world.backends;
    if (view === undefined) throw new Error('nobody');
    const told = { computed: true, promptTokens: 1000, cachedTokens: 0, outputTokens: 101 };
    for (let round = 0; round < 60; round += 1) {
      const { errand } = send(prompt(4000));
      errand.computed?.();
      // Every other answer meets a prompt of 4,000 tokens, which takes 4 s: 40 ms of each of its hundred steps.
      if (round % 2 === 1) {
        const beside = send(prompt(16_000)).errand;
        beside.computed?.();
        beside.ended({ computed: true });
      }
      errand.ended({ ...told, tpotMs: round % 2 === 1 ? 55 : 15 });
    }
    const { decodeBaseMs, decodePerStreamMs, decodePerContextTokenMs } = routing.speed(view);
    const aloneMs = decodeBaseMs + decodePerStreamMs + 1050 * decodePerContextTokenMs;
    expect(aloneMs).toBeGreaterThan(14);
    expect(aloneMs).toBeLessThan(17);
  });

  it('an answer that failed teaches nothing', () => {
    const { routing, send, world } = setUp();
    send(prompt(16_000)).errand.ended({ computed: false, upstreamTtftMs: 4015 });
    expect(world.backends.map((view) => routing.speed(view).prefillTokensPerSecond)).toEqual([8000, 8000, 8000]);
  });

  it('a session is drawn to where it was, and goes elsewhere when that is busy', () => {
    const { loads, send, choose } = setUp();
    const job = sampleJob({ session: 'header:s', bodyBytes: 400 });
    const { backend } = send(job);
    loads.set(backend, { ...idle, jobs: 1, lastUsed: 9 });
    expect(choose(job).ranked[0]).toMatchObject({ backend: { name: backend }, reason: 'session' });
    loads.set(backend, { ...idle, jobs: 1, lastUsed: 9, pendingTokens: 20_000 });
    expect(choose(job).ranked[0]?.backend.name).not.toBe(backend);
  });

  it('what yields no tokens goes by load, whatever the policy', () => {
    for (const policy of ['warm', 'session', 'chwbl'] as const) {
      const { loads, choose } = setUp({ settings: { policy } });
      loads.set('a', { ...idle, jobs: 3 }).set('b', { ...idle, jobs: 2 });
      const { ranked } = choose(sampleJob({ endpoint: 'embeddings', generates: false, session: 's' }));
      expect(ranked.map(({ backend, reason }) => `${backend.name}:${reason}`)).toEqual([
        'c:least_load',
        'b:least_load',
        'a:least_load',
      ]);
    }
  });

  it('each pool has its policy', () => {
    const { choose, routing } = setUp({ settings: { pools: [{ models: ['small'], policy: 'round-robin' }] } });
    expect(choose(sampleJob({ model: 'small' })).ranked[0]?.reason).toBe('round_robin');
    expect(choose(sampleJob({ model: 'large' })).ranked[0]?.reason).toBe('least_load');
    expect([routing.policyName('small'), routing.policyName(undefined)]).toEqual(['round-robin', 'warm']);
  });

  it('an answer that shows no first token counts as computed after the time that its prompt takes', () => {
    const { clock, loads, send } = setUp();
    for (const name of ['a', 'b', 'c']) loads.set(name, { ...idle, jobs: 1, pendingTokens: 8000, pendingJobs: 1 });
    let computed = 0;
    const count = () => void (computed += 1);
    send(prompt(16_000, { stream: false }), { computed: count });
    clock.advance(1499);
    expect(computed).toBe(0);
    clock.advance(1);
    expect(computed).toBe(1);
    send(prompt(16_000), { computed: count });
    send(prompt(16_000, { stream: false }), { computed: count }).errand.ended({ computed: true });
    clock.advance(60_000);
    expect(computed).toBe(1);
    expect(clock.pending()).toBe(0);
  });
});

describe('a fleet that changes', () => {
  it('drops what was believed of a backend that was started anew', () => {
    const { index, routing, world } = setUp();
    routing.fleetChanged();
    world.backends = world.backends.map((one) => (one.name === 'b' ? { ...one, restarts: 1 } : one));
    routing.fleetChanged();
    routing.fleetChanged();
    expect(index.told).toEqual(['flush b restarted']);
  });

  it('keeps what it knows of one that left for a minute, under its name', () => {
    const { clock, index, routing, world } = setUp();
    const all = world.backends;
    const change = (backends: BackendView[]) => {
      world.backends = backends;
      routing.fleetChanged();
    };
    routing.fleetChanged();
    change(all.slice(0, 2));
    clock.advance(59_000);
    change([...all]);
    clock.advance(120_000);
    expect(index.told).toEqual([]);
    change(all.slice(1));
    clock.advance(60_000);
    expect(index.told).toEqual(['flush a removed']);
    change(all.slice(0, 3));
    expect(clock.pending()).toBe(0);
  });

  it('learns nothing from the late answer of one that left, nor of one that has its name now', () => {
    const { routing, send, world } = setUp({ backends: [sampleBackend('a')] });
    const [first] = world.backends;
    if (first === undefined) throw new Error('nobody');
    const late = send(prompt(8000)).errand;
    const later = send(prompt(8000)).errand;
    const told = { computed: true, upstreamTtftMs: 20_000, promptTokens: 2000, cachedTokens: 0, outputTokens: 10 };
    const usual = routing.speed(first).prefillTokensPerSecond;
    world.backends = [];
    late.ended(told);
    world.backends = [sampleBackend('a', { url: 'http://10.0.0.9:1' })];
    later.ended(told);
    expect(routing.speed(first).prefillTokensPerSecond).toBe(usual);
  });

  it('believes nothing of another server under a name it knew, whether that one was away in between or not', () => {
    const { clock, index, routing, world, send } = setUp({ backends: [sampleBackend('a')] });
    const change = (backends: BackendView[]) => {
      world.backends = backends;
      routing.fleetChanged();
    };
    const { errand } = send(prompt(16_000));
    errand.ended({ computed: true, promptTokens: 4000, cachedTokens: 0, prefillTokensPerSecond: 100 });
    const before = routing.speed(sampleBackend('a'));
    change([sampleBackend('a', { url: 'http://elsewhere' })]);
    expect(index.told.at(-1)).toBe('flush a removed');
    expect(routing.speed(sampleBackend('a', { url: 'http://elsewhere' }))).not.toEqual(before);
    change([]);
    clock.advance(1000);
    change([sampleBackend('a', { url: 'http://third' })]);
    expect(index.told.filter((told) => told === 'flush a removed')).toHaveLength(2);
    clock.advance(120_000);
    expect(index.told.filter((told) => told === 'flush a removed')).toHaveLength(2);
    expect(clock.pending()).toBe(0);
  });

  it('one that comes back takes its full share only after a while', () => {
    const back = sampleBackend('a', { backSinceMs: 1 });
    const { clock, loads, send } = setUp({ backends: [back, sampleBackend('b')], settings: { slowStartMs: 10_000 } });
    loads.set('b', { ...idle, jobs: 3, pendingTokens: 3000, pendingJobs: 3 });
    expect(send(prompt(4000)).backend).toBe('b');
    clock.advance(10_000);
    loads.set('b', { ...idle, jobs: 3, pendingTokens: 9000, pendingJobs: 3 });
    expect(send(prompt(4000, { prefix: sampleChain(4000, 9) })).backend).toBe('a');
  });
});

describe('somebody else who could take a job', () => {
  it('is one that takes work, serves the model and has not failed it', () => {
    const backends = [
      sampleBackend('a', { models: ['m'] }),
      sampleBackend('b', { models: ['m'], health: 'down' }),
      sampleBackend('c', { models: ['other'] }),
    ];
    const { routing } = setUp({ backends });
    const hasOther = (exclude: string[], model = 'm') => routing.hasOther(sampleJob({ model }), exclude, () => idle);
    expect(hasOther([])).toBe(true);
    expect(hasOther(['a'])).toBe(false);
    expect(hasOther(['a', 'b', 'c'])).toBe(false);
    expect(hasOther(['a'], 'other')).toBe(true);
  });
});
