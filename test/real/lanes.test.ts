/**
 * Proof 3 of lanes, on a real llama-server with two slots: filled by batch lines that decode, with a slot in reserve and
 * without; filled by lines that prefill, with borders of 128 and of 2048 tokens. `LANES_TRIALS=50` for the published figures.
 */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { untilIdle } from './bench.ts';
import { withBatchWarmlane } from './batch-work.ts';
import { longPrompt, streamedChat } from './dialects.ts';
import type { Engine } from './engine.ts';
import { installed, longForm } from './installed.ts';
import {
  besideBatch,
  decodingLines,
  laneFigures,
  prefillingLines,
  rest,
  runTrials,
  tell,
  trialCount,
  untilDecoding,
  untilPrefilling,
  type Trials,
} from './lanes-suite.ts';
import { startLlamaServer } from './llama-server.ts';
import { ask } from './raw-client.ts';
import { known } from './reading.ts';
import { at, parseJson } from './stream-events.ts';

const flags = (border: number) => [
  ...['-np', '2', '-c', '16384', '-b', String(border), '-t', '1', '-cram', '0'],
  ...['--metrics', '--slots', '--sse-ping-interval', '2'],
];

/** Of a line: more than one border, so that waiting for one is told from waiting for the prompt. */
const promptTokensFor = (border: number) => Math.max(1800, Math.ceil(1.7 * border));
/** A border of 2048 takes ten seconds and more on a slow machine. */
const prefillTrialsFor = (border: number) => (longForm || border < 1000 ? trialCount : Math.min(2, trialCount));
/** What one trial may take when all goes as badly as it can. */
const longestTrialMs = 40_000;
/** llama-server looks for clients that left while it computes a prompt so often. */
const lookMs = 1000;
const limitMs = 60_000 + trialCount * longestTrialMs;

describe.runIf(installed('llama-server')).each([128, 2048])('two slots, a border every %d prompt tokens', (border) => {
  let engine: Engine | undefined;
  let idle: Trials | undefined;
  const promptTokens = promptTokensFor(border);
  let prefillMs = 0;
  let borderMs = 0;
  const url = () => known(engine, 'the engine').url;

  beforeAll(async () => {
    engine = await startLlamaServer(flags(border));
    prefillMs = await prefillTime(engine.url, promptTokens);
    // The last one takes longest, since its tokens look at all before them, but not by half: more is something else's doing.
    const restMs = await prefillTime(engine.url, promptTokens - border);
    const evenMs = (prefillMs * border) / promptTokens;
    borderMs = Math.min(1.5 * evenMs, Math.max(prefillMs - restMs, evenMs));
    idle = await withBatchWarmlane(engine.url, {}, (warmlane) => runTrials(warmlane, rest));
    tell(`-b ${border}, idle`, idle);
  }, limitMs);
  afterAll(() => engine?.stop());

  const beside = async (lanes: object, work: Parameters<typeof withBatchWarmlane<Trials>>[2]) => {
    await untilIdle(known(engine, 'the engine'));
    return withBatchWarmlane(url(), { lanes }, work);
  };

  it(
    'lines that decode, one slot in reserve: the online request finds a free one',
    async () => {
      const trials = await beside({ batch: { reserveSlots: 1 } }, async (warmlane) => {
        // The first online request of all finds both slots taken: nobody was online before it.
        await runTrials(warmlane, rest, 1);
        return besideBatch(warmlane, decodingLines(40 + 4 * trialCount, 300), () =>
          runTrials(warmlane, untilDecoding(warmlane, 1)),
        );
      });
      tell(`-b ${border}, decoding, reserve 1`, trials, idle);
      // 1.5 is the goal, for figures of many trials on a machine that does nothing else; few trials beside other work show only
      // that nobody waited for a line.
      const bound = trialCount >= 50 ? 1.5 : 5;
      expect(trials.medianMs).toBeLessThanOrEqual(bound * known(idle, 'idle trials').medianMs);
    },
    limitMs,
  );

  it(
    "lines that decode in both slots: one is taken back, and the abort's own time is all that it costs",
    async () => {
      // As often as it takes: by default a line that was taken back twice stays, and its end would be waited for.
      const trials = await beside({ reclaim: { maxTimes: 1000 } }, async (warmlane) => {
        const found = await besideBatch(warmlane, decodingLines(40 + 6 * trialCount, 300), () =>
          runTrials(warmlane, untilDecoding(warmlane, 2)),
        );
        const figures = await laneFigures(warmlane);
        console.info(`-b ${border}, decoding: ${figures.reclaimed} taken back, ${figures.wastedTokens} tokens wasted`);
        expect(figures.reclaimed).toBeGreaterThan(0);
        expect(figures.abortsWork).toBe(true);
        return found;
      });
      tell(`-b ${border}, decoding, no reserve`, trials, idle);
      const { medianMs } = known(idle, 'idle trials');
      console.info(
        `-b ${border}, decoding, no reserve: the abort's own time ${Math.round(trials.medianMs - medianMs)} ms`,
      );
      expect(trials.medianMs - medianMs).toBeLessThan(1500);
    },
    limitMs,
  );

  it(
    'R10 lines that prefill: the worst online request waits for one look and one border, as warmlane comes',
    async () => {
      const count = prefillTrialsFor(border);
      const trials = await beside({}, async (warmlane) => {
        const found = await besideBatch(warmlane, prefillingLines(10 + 4 * count, promptTokens), () =>
          runTrials(warmlane, untilPrefilling(warmlane, prefillMs), count),
        );
        const figures = await laneFigures(warmlane);
        console.info(
          `-b ${border}, prefilling: ${figures.reclaimed} taken back, ${figures.wastedTokens} tokens wasted`,
        );
        return found;
      });
      const { worstMs } = known(idle, 'idle trials');
      // What has less of a step before it than a look takes may share the step behind it with the line's prompt; what has more
      // finds it gone by then. Either way that is a look, a border and its own prompt. A quarter of a border and half a second are for a
      // machine that does other things as well.
      const boundMs = worstMs + lookMs + 1.25 * borderMs + 500;
      tell(
        `-b ${border}, a line prefills (${Math.round(prefillMs)} ms, a border ${Math.round(borderMs)}, bound ${Math.round(boundMs)})`,
        trials,
        idle,
      );
      expect(promptTokens).toBeGreaterThan(1.5 * border);
      expect(trials.worstMs).toBeLessThan(boundMs);
    },
    limitMs,
  );
});

/** Of a prompt of so many tokens, alone, by the engine's own clock. */
async function prefillTime(engineUrl: string, tokens: number): Promise<number> {
  const request = streamedChat(longPrompt(tokens), 1, { stream: false });
  const answer = await ask(engineUrl, request);
  return Number(at(parseJson(answer.text), 'timings', 'prompt_ms'));
}
