/**
 * What one play comes to: hits, times, goodput, spread of load, and how well hits were foretold. Counts; knows no router and no
 * clock. Shares are 0 to 1.
 */
import type { RouteNote } from '../../domain/routing.ts';
import { Sketch } from '../../platform/sketch.ts';
import type { Engine } from '../../sim/engine.ts';
import { coldPrefillMs } from '../../sim/fleet/engine-models.ts';
import type { SequenceEnd } from '../../sim/sequence.ts';
import type { PlaySettings } from './play.ts';

export interface Slo {
  readonly ttftMs: number;
  readonly tpotMs: number;
}

export interface Spread {
  readonly p50: number;
  readonly p99: number;
}

export interface PlayFigures {
  readonly requests: number;
  /** refused by the router, failed by the engine, or never answered */
  readonly unserved: number;
  /** of all requests, those inside both bounds: time to the first token, and mean time of each further one */
  readonly goodShare: number;
  readonly ttftGoodShare: number;
  readonly tpotGoodShare: number;
  /** good requests over the time from the first arrival to the last answer */
  readonly goodPerSecond: number;
  /** prompt tokens that came from a cache, of all prompt tokens */
  readonly hitShare: number;
  readonly ttftMs: Spread;
  /** time to the first token over what the prompt takes on an idle engine that holds nothing of it */
  readonly slowdown: Spread;
  readonly tpotMs: Spread;
  readonly itlMs: Spread;
  /** computed prompt tokens of the backend with most of them, over the mean */
  readonly imbalance: number;
  /** predicted less delivered tokens, of all prompt tokens, and the same without signs; absent where nothing was foretold */
  readonly bias?: number;
  readonly error?: number;
  readonly preemptions: number;
  /** from the first arrival to the last answer */
  readonly seconds: number;
  /** generated tokens a second, of all engines together */
  readonly outputPerSecond: number;
}

export interface Answered {
  readonly askedMs: number;
  readonly backend: string;
  readonly note: RouteNote | undefined;
}

export interface Figures {
  /** between two tokens of one answer */
  gap(ms: number): void;
  refused(): void;
  answered(end: SequenceEnd, about: Answered): void;
  end(about: { readonly seconds: number; readonly engines: ReadonlyMap<string, Engine> }): PlayFigures;
}

export function createFigures({ slo, fleet }: PlaySettings, requests: number): Figures {
  const ttft = new Sketch();
  const slowdown = new Sketch();
  const tpot = new Sketch();
  const itl = new Sketch();
  const sums = { good: 0, ttftGood: 0, tpotGood: 0, served: 0, prompt: 0, cached: 0, output: 0 };
  const foretold = { any: false, prompt: 0, bias: 0, error: 0 };
  const computed = new Map<string, number>();

  function foretell(note: RouteNote, { cachedTokens, promptTokens }: SequenceEnd): void {
    foretold.any = true;
    foretold.prompt += promptTokens;
    foretold.bias += note.predictedTokens - cachedTokens;
    foretold.error += Math.abs(note.predictedTokens - cachedTokens);
  }

  return {
    gap: (ms) => itl.add(ms),
    refused() {},
    answered(end, { askedMs, backend, note }) {
      const { firstTokenMs, lastTokenMs, promptTokens, cachedTokens, outputTokens } = end;
      if (firstTokenMs === undefined || lastTokenMs === undefined || end.reason === 'failed') return;
      const ttftMs = firstTokenMs - askedMs;
      const tpotMs = outputTokens < 2 ? undefined : (lastTokenMs - firstTokenMs) / (outputTokens - 1);
      ttft.add(ttftMs);
      slowdown.add(ttftMs / coldPrefillMs(promptTokens, fleet.engine));
      if (tpotMs !== undefined) tpot.add(tpotMs);
      const inTtft = ttftMs <= slo.ttftMs;
      const inTpot = (tpotMs ?? 0) <= slo.tpotMs;
      sums.served += 1;
      sums.ttftGood += inTtft ? 1 : 0;
      sums.tpotGood += inTpot ? 1 : 0;
      sums.good += inTtft && inTpot ? 1 : 0;
      sums.prompt += promptTokens;
      sums.cached += cachedTokens;
      sums.output += outputTokens;
      computed.set(backend, (computed.get(backend) ?? 0) + promptTokens - cachedTokens);
      if (note !== undefined) foretell(note, end);
    },
    end({ seconds, engines }) {
      const loads = [...engines.keys()].map((name) => computed.get(name) ?? 0);
      const mean = loads.reduce((sum, load) => sum + load, 0) / loads.length;
      let preemptions = 0;
      for (const engine of engines.values()) preemptions += engine.view().counters.preemptions;
      return {
        requests,
        unserved: requests - sums.served,
        goodShare: sums.good / requests,
        ttftGoodShare: sums.ttftGood / requests,
        tpotGoodShare: sums.tpotGood / requests,
        goodPerSecond: sums.good / seconds,
        hitShare: sums.prompt === 0 ? 0 : sums.cached / sums.prompt,
        ttftMs: spreadOf(ttft),
        slowdown: spreadOf(slowdown),
        tpotMs: spreadOf(tpot),
        itlMs: spreadOf(itl),
        imbalance: mean === 0 ? 1 : Math.max(...loads) / mean,
        ...(foretold.any ? { bias: foretold.bias / foretold.prompt, error: foretold.error / foretold.prompt } : {}),
        preemptions,
        seconds,
        outputPerSecond: sums.output / seconds,
      };
    },
  };
}

/** 0 where there was nothing. */
function spreadOf(sketch: Sketch): Spread {
  return { p50: sketch.quantile(0.5) ?? 0, p99: sketch.quantile(0.99) ?? 0 };
}
