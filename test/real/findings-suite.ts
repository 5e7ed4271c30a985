/**
 * Findings on a real engine: a quiet run names none, and a long prompt beside a stream is named with its cause (R20, R21).
 * On a warmlane of its own before the engine, so that what other tests did is not in its hour.
 */
import { setTimeout as pause } from 'node:timers/promises';
import { expect, it } from 'vitest';
import { untilIdle, type Bench } from './bench.ts';
import { until } from './child-process.ts';
import { freshPrompt, longPrompt, newRequestId, streamedChat, withId } from './dialects.ts';
import { ask, send as call } from './raw-client.ts';
import { startWarmlane, type Warmlane } from './warmlane.ts';

export interface ShownFinding {
  readonly finding: string;
  readonly says: string;
  readonly evidence: Readonly<Record<string, number | string>>;
}

interface Side {
  readonly [figure: string]: number | undefined;
}

interface ShownEngine {
  readonly metrics: string;
  readonly windows?: Readonly<Record<string, { readonly there: Side; readonly here: Side }>>;
}

/** A reading every two seconds, a look every second. */
const settleMs = 6500;

export function findingsSuite(kind: 'llama-server' | 'vllm', bench: () => Bench): void {
  it('findings: a quiet run names none, and both accounts agree', async () => {
    await untilIdle(bench().engine);
    await withWarmlane(bench().engine.url, async (warmlane) => {
      // The first reading to count from; a llama-server is read only while it works.
      await send(warmlane, streamedChat(freshPrompt(), 8));
      await pause(settleMs);
      for (let i = 0; i < 3; i += 1) await send(warmlane, streamedChat(freshPrompt(), 16));
      const prompt = freshPrompt();
      await send(warmlane, streamedChat(prompt, 16, { stream: false }));
      await send(warmlane, streamedChat(prompt, 16));
      await pause(settleMs);
      expect(await findings(warmlane)).toEqual([]);
      const engine = await shownEngine(warmlane);
      expect(engine.metrics).toBe('read');
      const { there, here } = engine.windows?.['60m'] ?? { there: {}, here: {} };
      if (kind === 'vllm') {
        expect(there['generatedTokens']).toBe(5 * 16 + (here['requests'] === 6 ? 8 : 0));
        expect(there['promptTokens']).toBe(here['promptTokens']);
        expect(there['cachedTokens']).toBe(here['cachedTokens']);
      } else expect(there['generatedTokens']).toBe(5 * 16);
    });
  });

  it(`${kind === 'vllm' ? 'R21' : 'R20'} findings: a prefill stall names who stood still, by whom, and for how long`, async () => {
    await untilIdle(bench().engine);
    await withWarmlane(bench().engine.url, async (warmlane) => {
      const [stream, prefill] = [newRequestId(), newRequestId()];
      const streaming = call(warmlane.url, withId(streamedChat(freshPrompt(), 300), stream));
      // It decodes, and has long to go.
      await streaming.untilEvents(20);
      await send(warmlane, withId(streamedChat(longPrompt(1200), 2), prefill));
      await streaming.done;
      const found = await untilFound(warmlane, 'prefill_stall');
      expect(found.evidence).toMatchObject({ worstStream: stream, worstCause: prefill });
      expect(found.evidence['worstPromptTokens']).toBeGreaterThan(1000);
      expect(found.evidence['worstMs']).toBeGreaterThan(500);
      expect((await findings(warmlane)).map(({ finding }) => finding)).toEqual(['prefill_stall']);
      // The page is one process's answer, the log another one's pipe: the line may come after.
      await until('the line in the log', () => warmlane.process.log().includes('"msg":"finding began"') || undefined);
    });
  });
}

export async function withWarmlane(url: string, test: (warmlane: Warmlane) => Promise<void>): Promise<void> {
  const warmlane = await startWarmlane([url]);
  try {
    await test(warmlane);
  } finally {
    await warmlane.stop();
  }
}

export async function send(warmlane: Warmlane, what: Parameters<typeof ask>[1]): Promise<void> {
  await ask(warmlane.url, what);
}

/** Those that hold, and those that ended. */
export async function findings(warmlane: Warmlane): Promise<readonly ShownFinding[]> {
  const answer = await fetch(`${warmlane.adminUrl}/findings`, { signal: AbortSignal.timeout(10_000) });
  const page = (await answer.json()) as { active: ShownFinding[]; ended: ShownFinding[] }; // as findings-page.ts writes it
  return [...page.active, ...page.ended];
}

/** @param known evidence that may come later than the finding: a victim is told when its request is over */
export function untilFound(warmlane: Warmlane, name: string, known?: string): Promise<ShownFinding> {
  const look = async () =>
    (await findings(warmlane)).find(
      ({ finding, evidence }) => finding === name && (known === undefined || evidence[known] !== undefined),
    );
  return until(`the finding ${name}`, look, { timeoutMs: 20_000, everyMs: 250 });
}

async function shownEngine(warmlane: Warmlane): Promise<ShownEngine> {
  const answer = await fetch(`${warmlane.adminUrl}/engines`, { signal: AbortSignal.timeout(10_000) });
  const page = (await answer.json()) as { engines: ShownEngine[] }; // as engines-page.ts writes it
  const [engine] = page.engines;
  if (engine === undefined) throw new Error('no engine on the page');
  return engine;
}
