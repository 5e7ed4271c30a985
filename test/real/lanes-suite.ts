/**
 * What online users feel of batch on a real engine: the time to the first token of one online request after the other, while
 * lines of a batch fill the engine. All times are the client's own, from the request's first byte to its first token.
 */
import { setTimeout as pause } from 'node:timers/promises';

import type { RunningView } from '../../src/domain/running-view.ts';
import { until } from './child-process.ts';
import { freshPrompt, longPrompt, newRequestId, streamedChat, withId } from './dialects.ts';
import { modelName } from './engine.ts';
import { send } from './raw-client.ts';
import { median } from './reading.ts';
import { submit, type Line } from './batch-work.ts';
import type { Warmlane } from './warmlane.ts';

/** Fifty for figures that are shown to people; five say whether it works. */
export const trialCount = Number(process.env['LANES_TRIALS'] ?? 5);

export interface Trials {
  readonly medianMs: number;
  readonly worstMs: number;
  readonly allMs: readonly number[];
}

const onlineTokens = 8;

/** One online request after the other. @param ready settles when the engine is as the trial wants it */
export async function runTrials(
  warmlane: Warmlane,
  ready: (trial: number) => Promise<void>,
  count = trialCount,
): Promise<Trials> {
  const allMs: number[] = [];
  for (let trial = 0; trial < count; trial += 1) {
    await ready(trial);
    allMs.push(await onlineTtftMs(warmlane));
  }
  return { medianMs: median(allMs), worstMs: Math.max(...allMs), allMs };
}

async function onlineTtftMs({ url }: Warmlane): Promise<number> {
  const beganMs = performance.now();
  const call = send(url, withId(streamedChat(freshPrompt(), onlineTokens), newRequestId()));
  // The role and the first token.
  await call.untilEvents(2);
  const ttftMs = performance.now() - beganMs;
  const answer = await call.done;
  if (answer.status !== 200 || !answer.complete) throw new Error(`the online request ended with ${answer.status}`);
  return ttftMs;
}

/** Between two trials on an idle engine. */
export const rest = async (): Promise<void> => {
  await pause(100);
};

/** Lines that decode for long: a short prompt, and as many tokens as said. */
export function decodingLines(count: number, tokens: number): readonly Line[] {
  return Array.from({ length: count }, (_, n) => line(n, freshPrompt(), tokens));
}

/** Lines that prefill for long: a prompt of so many tokens that no cache holds, and one token of answer. */
export function prefillingLines(count: number, tokens: number): readonly Line[] {
  return Array.from({ length: count }, (_, n) => line(n, longPrompt(tokens), 1));
}

function line(n: number, prompt: string, maxTokens: number): Line {
  return {
    id: `line-${n}`,
    path: '/v1/chat/completions',
    body: {
      ...{ model: modelName, messages: [{ role: 'user', content: prompt }], temperature: 0 },
      ...{ max_tokens: maxTokens, ignore_eos: true },
    },
  };
}

/** @returns until so many lines decode, and have done so for a moment that differs from trial to trial */
export function untilDecoding(warmlane: Warmlane, count: number): (trial: number) => Promise<void> {
  return async (trial) => {
    await untilRunning(warmlane, count, ['streaming']);
    await pause(200 + ((trial * 67) % 200));
  };
}

/** @returns until so many lines compute their prompts, at moments spread over a prefill of `spanMs` */
export function untilPrefilling(warmlane: Warmlane, spanMs: number): (trial: number) => Promise<void> {
  return async (trial) => {
    await untilRunning(warmlane, 1, ['waiting_head', 'waiting_first_token']);
    await pause(0.7 * spanMs * ((trial * 0.618) % 1));
  };
}

async function untilRunning(warmlane: Warmlane, count: number, phases: readonly string[]): Promise<void> {
  await until(
    `${count} lines to be ${phases.join(' or ')}`,
    async () => {
      const running = (await warmlane.running()) as readonly RunningView[];
      return running.filter(({ phase }) => phases.includes(phase)).length >= count ? true : undefined;
    },
    { timeoutMs: 60_000, everyMs: 20 },
  );
}

/** Runs trials beside a batch that is stopped afterwards. */
export async function besideBatch(
  warmlane: Warmlane,
  lines: readonly Line[],
  trials: () => Promise<Trials>,
): Promise<Trials & { readonly doneLines: number }> {
  const batch = await submit(warmlane, lines);
  const found = await trials();
  await batch.cancel();
  const end = await batch.untilOver(60_000);
  return { ...found, doneLines: end.request_counts.completed };
}

export interface LaneFigures {
  readonly reclaimed: number;
  readonly wastedTokens: number;
  readonly abortsWork?: boolean;
}

/** What warmlane's own page says of its one backend. */
export async function laneFigures({ adminUrl }: Warmlane): Promise<LaneFigures> {
  const answer = await fetch(`${adminUrl}/lanes`, { signal: AbortSignal.timeout(10_000) });
  const { backends } = (await answer.json()) as { readonly backends: readonly LaneFigures[] };
  const [only] = backends;
  if (only === undefined) throw new Error('/lanes shows no backend');
  return only;
}

export function tell(what: string, { medianMs, worstMs, allMs }: Trials, idle?: Trials): void {
  const times = idle === undefined ? '' : `, ${(medianMs / idle.medianMs).toFixed(2)} × idle`;
  console.info(
    `${what}: online TTFT median ${Math.round(medianMs)} ms${times}, worst ${Math.round(worstMs)} ms, ${allMs.length} trials`,
  );
}
