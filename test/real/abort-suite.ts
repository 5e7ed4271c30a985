/**
 * A client that goes away reaches the engine, in whichever phase it leaves. The proof is the engine's own: its log names
 * the cancelled request, its gauges fall to nothing and its counter of generated tokens stands still far below what was
 * asked for. The engine is left alone while it notices: polling its pages can keep llama-server from seeing a closed
 * client at all.
 */
import { setTimeout as pause } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import type { Bench } from './bench.ts';
import { untilIdle } from './bench.ts';
import { until } from './child-process.ts';
import { freshPrompt, longPrompt, newRequestId, streamedChat, withId } from './dialects.ts';
import type { Engine } from './engine.ts';
import { send } from './raw-client.ts';

const rounds = 20;
const askedTokens = 400;

export function abortSuite(kind: Engine['kind'], bench: () => Bench): void {
  /** llama-server's head comes when a slot begins with the prompt; vLLM begins as soon as it has the request. */
  const prefills = (requestId: string) => {
    const [exchange] = bench().tap.find(requestId);
    return kind === 'vllm' ? exchange?.request.complete === true : exchange?.response !== undefined;
  };

  describe('aborts', () => {
    it(`R27 ${rounds} of ${rounds} streams left while decoding are stopped in the engine`, async () => {
      const { engine, warmlane } = bench();
      const before = await untilIdle(engine);
      const seenBefore = abortsInLog(engine);
      let produced = 0;
      for (let round = 1; round <= rounds; round += 1) {
        const requestId = newRequestId();
        const call = send(warmlane.url, withId(streamedChat(freshPrompt(), askedTokens), requestId));
        await call.untilEvents(4);
        call.abort();
        await untilAborts(engine, seenBefore + round);
        const record = await warmlane.record(requestId);
        expect(record).toMatchObject({ outcome: 'client_abort', phase: 'streaming' });
        expect(record.events).toBeGreaterThan(1);
        produced += record.events;
      }
      const after = await untilIdle(engine);
      expect(abortsInLog(engine) - seenBefore).toBe(rounds);
      expect(after.generated - before.generated).toBeGreaterThanOrEqual(produced);
      expect(after.generated - before.generated).toBeLessThan((rounds * askedTokens) / 4);
      await pause(500);
      expect((await engine.counters()).generated).toBe(after.generated);
    });

    it(`R10 R27 ${rounds} of ${rounds} streams left during the prefill are stopped in the engine before a token`, async () => {
      const { engine, warmlane } = bench();
      const before = await untilIdle(engine);
      const seenBefore = abortsInLog(engine);
      for (let round = 1; round <= rounds; round += 1) {
        const requestId = newRequestId();
        const call = send(warmlane.url, withId(streamedChat(longPrompt(1_900), askedTokens), requestId));
        call.done.catch(() => 'its end is not of interest');
        await until('the engine to have the request', () => (prefills(requestId) ? true : undefined), {
          timeoutMs: 10_000,
        });
        await pause(250);
        call.abort();
        await untilAborts(engine, seenBefore + round);
        const record = await warmlane.record(requestId);
        expect(record.outcome).toBe('client_abort');
        expect(record.events).toBe(0);
        expect(record.figures.ttftMs).toBeUndefined();
      }
      const after = await untilIdle(engine);
      expect(abortsInLog(engine) - seenBefore).toBe(rounds);
      // One token a prompt at most, for one whose last step was running when its client left.
      expect(after.generated - before.generated).toBeLessThanOrEqual(rounds);
    });

    it('R09 an answer that is not streamed is stopped too', async () => {
      const { engine, warmlane, tap } = bench();
      const before = await untilIdle(engine);
      const seenBefore = abortsInLog(engine);
      const requestId = newRequestId();
      const ask = streamedChat(freshPrompt(), 1_000, { stream: false });
      const call = send(warmlane.url, withId(ask, requestId));
      call.done.catch(() => 'its end is not of interest');
      await until('the engine to have the request', () => (tap.find(requestId).length > 0 ? true : undefined));
      await pause(500);
      call.abort();
      const record = await warmlane.record(requestId);
      expect(record).toMatchObject({ outcome: 'client_abort', streamed: false });
      if (kind === 'llama-server') expect(record.marks).toContain('engine_may_go_on');
      await untilAborts(engine, seenBefore + 1);
      const after = await untilIdle(engine);
      expect(after.generated - before.generated).toBeLessThan(600);
    });
  });
}

/** How many requests the engine's log calls cancelled so far. */
export function abortsInLog(engine: Engine): number {
  const pattern = engine.kind === 'vllm' ? /Aborted request\(s\) / : /stop: cancel task/;
  return engine.process
    .log()
    .split('\n')
    .filter((line) => pattern.test(line)).length;
}

/** Looks at the log only. llama-server polls for closed clients each second, and ends a prefill at the next step's border. */
export function untilAborts(engine: Engine, count: number): Promise<true> {
  return until(`the engine to log ${count} aborts`, () => (abortsInLog(engine) >= count ? true : undefined), {
    timeoutMs: 5_000,
    everyMs: 20,
  });
}
