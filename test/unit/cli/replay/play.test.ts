import { describe, expect, it } from 'vitest';
import { findCapacity } from '../../../../src/cli/replay/capacity.ts';
import { play, type MakeRouter, type PlaySettings } from '../../../../src/cli/replay/play.ts';
import { routerFor } from '../../../../src/cli/replay/routers.ts';
import { prepareWorkload } from '../../../../src/cli/replay/workload.ts';
import type { AnswerTold } from '../../../../src/domain/routing.ts';
import { changed, engineModels } from '../../../../src/sim/fleet/engine-models.ts';
import { generators } from '../../../../src/sim/traces/generators/generator.ts';
import type { Trace, TraceRequest } from '../../../../src/sim/traces/trace.ts';

const engine = engineModels['vllm-h100'].settings;
const slo = { ttftMs: 5000, tpotMs: 100 };

function settings(backends: number, over: Partial<PlaySettings> = {}): PlaySettings {
  return { fleet: { backends, engine, tellsCapacity: false }, scale: 1, slo, ...over };
}

function traceOf(...requests: Partial<TraceRequest>[]): Trace {
  const whole = requests.map((request) => ({ atMs: 0, promptTokens: 512, outputTokens: 2, hashIds: [1], ...request }));
  return { name: 'test', hashTokens: 512, requests: whole };
}

/** Everything to the first backend; keeps what it heard. */
function toFirst(heard: { told: AnswerTold[]; askedMs: number[] }): MakeRouter {
  return ({ clock, fleet }) => ({
    choose: () => ({
      ranked: fleet()
        .backends.slice(0, 1)
        .map((backend) => ({ backend, reason: 'test' })),
      hold: false,
    }),
    sent() {
      heard.askedMs.push(clock.nowMs());
      return { promptTokens: 0, uncachedTokens: 0, ended: (told) => void heard.told.push(told) };
    },
  });
}

describe('a play', () => {
  it('answers every request, and tells the router what an engine would have told', () => {
    const heard = { told: [] as AnswerTold[], askedMs: [] as number[] };
    const workload = prepareWorkload(
      traceOf(
        { promptTokens: 1000, hashIds: [1, 2] },
        { atMs: 5000, promptTokens: 1000, hashIds: [1, 3], outputTokens: 9 },
      ),
    );
    const figures = play(workload, toFirst(heard), settings(2));
    expect(figures).toMatchObject({ requests: 2, unserved: 0, goodShare: 1, imbalance: 2 });
    expect(
      heard.told.map(({ promptTokens, cachedTokens, outputTokens }) => [promptTokens, cachedTokens, outputTokens]),
    ).toEqual([
      [1000, 0, 2],
      [1000, 512, 9],
    ]);
    expect(heard.told[0]?.upstreamTtftMs).toBeGreaterThan(50);
    expect(heard.told[0]?.tpotMs).toBeGreaterThan(10);
    expect(figures.hitShare).toBeCloseTo(0.256);
  });

  it('brings requests closer together by the scale, but not the pauses between turns', () => {
    const heard = { told: [] as AnswerTold[], askedMs: [] as number[] };
    const workload = prepareWorkload(
      traceOf({}, { after: { request: 0, delayMs: 4000 } }, { atMs: 10_000, hashIds: [7] }),
    );
    play(workload, toFirst(heard), settings(1, { scale: 2 }));
    const [first = 0, turn = 0, other = 0] = heard.askedMs;
    expect(first).toBe(1);
    expect(turn - first).toBeGreaterThan(4000);
    expect(turn - first).toBeLessThan(4300);
    expect(other - first).toBe(5000);
  });

  it('counts what never fits as unserved, and goes on', () => {
    const workload = prepareWorkload(
      traceOf({ promptTokens: 400_000, hashIds: Array.from({ length: 800 }, (_, id) => id) }, {}),
    );
    const figures = play(workload, toFirst({ told: [], askedMs: [] }), settings(1));
    expect(figures).toMatchObject({ requests: 2, unserved: 1, goodShare: 0.5 });
  });

  it('ends though its router keeps a timer for ever', () => {
    const router: MakeRouter = (deps) => {
      const again = () => void deps.clock.timer(1000, again);
      again();
      return toFirst({ told: [], askedMs: [] })(deps);
    };
    expect(play(prepareWorkload(traceOf({})), router, settings(1)).unserved).toBe(0);
  });

  it('is the same each time', () => {
    const { make, ratePerSecond } = generators.conversation;
    const workload = prepareWorkload(make({ requests: 150, ratePerSecond, seed: 3 }));
    const once = play(workload, routerFor('warm', workload, slo), settings(3));
    expect(play(workload, routerFor('warm', workload, slo), settings(3))).toEqual(once);
    expect(once.unserved).toBe(0);
  });

  it('with an index that sees into the engines foretells every hit', () => {
    const { make } = generators['shared-prompts'];
    const workload = prepareWorkload(make({ requests: 400, ratePerSecond: 1, seed: 2 }));
    const small = { fleet: { backends: 2, engine: changed(engine, { kvTokens: 250_000 }), tellsCapacity: false } };
    const figures = play(workload, routerFor('perfect', workload, slo), settings(2, small));
    expect(figures.hitShare).toBeGreaterThan(0.15);
    expect(figures.error ?? 1).toBeLessThan(0.02);
  });

  it('works with slots as well', () => {
    const { make } = generators.smooth;
    const workload = prepareWorkload(make({ requests: 100, ratePerSecond: 2, seed: 2 }));
    const llama = { fleet: { backends: 3, engine: engineModels['llama-l40s'].settings, tellsCapacity: false } };
    expect(play(workload, routerFor('warm', workload, slo), settings(3, llama)).unserved).toBe(0);
  });
});

describe('the search for capacity', () => {
  const search = { enough: 0.9, precision: 0.01 };
  const kneeAt = (knee: number) => (scale: number) => (scale <= knee ? 1 : 0.5);

  it.each([0.07, 0.9, 1, 3.3, 40])('finds the knee at %s, wherever it begins', (knee) => {
    for (const start of [0.5, 1, 5]) {
      const found = findCapacity(kneeAt(knee), start, search);
      expect(found / knee).toBeGreaterThan(0.985);
      expect(found / knee).toBeLessThanOrEqual(1);
    }
  });

  it('says when there is none within reach', () => {
    expect(findCapacity(() => 1, 1, search)).toBe(Infinity);
    expect(findCapacity(() => 0, 1, search)).toBe(0);
  });
});
