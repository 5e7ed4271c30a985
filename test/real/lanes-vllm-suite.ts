/**
 * C162 on a real vLLM that runs four sequences: online requests beside batch lines that decode, with a fixed cap of four and
 * nothing taken back, then as warmlane comes. Priorities are told to the engine by header; whether it heeds them is its own
 * (`--scheduling-policy`). The tap shows what it was told.
 */
import { setTimeout as pause } from 'node:timers/promises';
import { expect, it } from 'vitest';
import { untilIdle, type Bench } from './bench.ts';
import { submit, withBatchWarmlane } from './batch-work.ts';
import { longForm } from './installed.ts';
import { freshPrompt, longPrompt, newRequestId, streamedChat, withId } from './dialects.ts';
import {
  besideBatch,
  decodingLines,
  prefillingLines,
  rest,
  runTrials,
  tell,
  trialCount,
  untilDecoding,
  untilPrefilling,
  type Trials,
} from './lanes-suite.ts';
import { ask, send } from './raw-client.ts';
import { only } from './reading.ts';
import type { Warmlane } from './warmlane.ts';

const sequences = 4;
/** `--max-num-batched-tokens` of `vllm.ts`. */
const stepTokens = 128;
/** Of a line's prompt: five steps, and as many more as a prompt of ten seconds has, within the model's context. */
const fewestTokens = 5 * stepTokens;
const mostTokens = 1800;
const longMs = 10_000;
const lineTokens = 120;
/** Without control each waits for a prompt of ten seconds and more. */
const prefillTrials = longForm ? trialCount : Math.min(2, trialCount);
/** A line of an engine that is busy takes its time. */
const limitMs = 120_000 + trialCount * 60_000;

/** The tests' engine refuses more than twelve at once, which nobody tells warmlane; alone batch would fill it to the last. */
const bounded = { control: { maxPerBackend: 2 * sequences } };

const uncontrolled = {
  control: { cap: sequences, gate: false, enginePriority: false },
  reclaim: { enabled: false },
};

export function vllmLanesSuite(policy: 'fcfs' | 'priority', bench: () => Bench): void {
  const run = async (more: object, trials: (warmlane: Warmlane) => Promise<Trials>) => {
    await untilIdle(bench().engine);
    return withBatchWarmlane(bench().tap.url, { lanes: { ...bounded, ...more } }, trials);
  };

  it(
    `C162 ${policy}: the cap and taking back make online requests quicker beside batch`,
    async () => {
      const lines = () => decodingLines(20 + 6 * trialCount, lineTokens);
      const beside = (filled: number) => (warmlane: Warmlane) =>
        besideBatch(warmlane, lines(), () => runTrials(warmlane, untilDecoding(warmlane, filled)));
      const idle = await run({}, (warmlane) => runTrials(warmlane, rest));
      tell(`vLLM ${policy}, idle`, idle);
      const plain = await run(uncontrolled, beside(sequences));
      tell(`vLLM ${policy}, four lines decode, no control`, plain, idle);
      const controlled = await run({}, beside(1));
      tell(`vLLM ${policy}, as warmlane comes`, controlled, idle);
      expect(controlled.medianMs).toBeLessThan(plain.medianMs);
    },
    limitMs,
  );

  it(
    `${policy}: an online request does not wait for a line's prompt`,
    async () => {
      await untilIdle(bench().engine);
      const fewMs = await prefillTime(bench().engine.url, fewestTokens);
      const promptTokens = Math.round(Math.min(mostTokens, Math.max(1, longMs / fewMs) * fewestTokens));
      const prefillMs = await prefillTime(bench().engine.url, promptTokens);
      const stepMs = (prefillMs * stepTokens) / promptTokens;
      console.info(
        `vLLM ${policy}: a prompt of ${promptTokens} tokens takes ${Math.round(prefillMs)} ms, a step ${Math.round(stepMs)}`,
      );
      const beside = (warmlane: Warmlane) =>
        besideBatch(warmlane, prefillingLines(10 + 3 * prefillTrials, promptTokens), () =>
          runTrials(warmlane, untilPrefilling(warmlane, prefillMs), prefillTrials),
        );
      const idle = await run({}, (warmlane) => runTrials(warmlane, rest, prefillTrials));
      tell(`vLLM ${policy}, idle`, idle);
      const plain = await run({ reclaim: { enabled: false } }, beside);
      tell(`vLLM ${policy}, a line prefills, nothing taken back`, plain, idle);
      const controlled = await run({}, beside);
      tell(`vLLM ${policy}, a line prefills, as warmlane comes`, controlled, idle);
      // Of a prompt that is thought to be quick: until half of the TTFT bound and a look at the lanes have passed. Then the step that
      // runs, the one that was made ready behind it, and its own; and what an idle server's worst was.
      expect(controlled.worstMs).toBeLessThan(idle.worstMs + 1000 + 250 + 3 * stepMs);
      if (prefillMs > 4000) expect(controlled.medianMs).toBeLessThan(plain.medianMs);
    },
    limitMs,
  );

  it(`${policy}: the engine is told who goes first, by header`, async () => {
    await untilIdle(bench().engine);
    await withBatchWarmlane(bench().tap.url, {}, async (warmlane) => {
      const { tap } = bench();
      const batch = await submit(warmlane, decodingLines(2, 40));
      await untilDecoding(warmlane, 1)(0);
      const online = newRequestId();
      const chat = streamedChat(freshPrompt(), 4);
      const own = { ...withId(chat, online), headers: { 'X-Request-Id': online, 'X-Vllm-Priority': '-1000' } };
      expect(await ask(warmlane.url, own)).toMatchObject({ status: 200, complete: true });
      expect((await batch.untilOver(60_000)).status).toBe('completed');
      const priority = (requestId: string) =>
        Number(tap.find(requestId)[0]?.request.headers.get('x-vllm-priority') ?? Number.NaN);
      expect(only(tap.find(online)).request.headers.get('x-vllm-priority')).not.toBe('-1000');
      // Lower is sooner.
      expect(priority(online)).toBeLessThan(priority(`${batch.id}-1`));
      await pause(100);
    });
  }, 120_000);
}

/** To the first token of a prompt of so many tokens, alone. */
async function prefillTime(engineUrl: string, tokens: number): Promise<number> {
  const beganMs = performance.now();
  const call = send(engineUrl, streamedChat(longPrompt(tokens), 1));
  await call.untilEvents(2);
  const tookMs = performance.now() - beganMs;
  await call.done;
  return tookMs;
}
