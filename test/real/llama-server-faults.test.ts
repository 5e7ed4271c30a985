/** What must be proven on a llama-server that dies, drains, overflows or is one of two: each test has its own. */
import { setTimeout as pause } from 'node:timers/promises';
import { afterEach, describe, expect, it } from 'vitest';
import { untilIdle, startBench, type Bench } from './bench.ts';
import { until } from './child-process.ts';
import { freshPrompt, streamedChat } from './dialects.ts';
import type { Engine } from './engine.ts';
import { installed } from './installed.ts';
import { llamaServerFlags, startLlamaServer } from './llama-server.ts';
import { ask, type Answer } from './raw-client.ts';
import { expectedPayload, known, only, relay, sha256, start } from './reading.ts';
import { at, normalise, parseJson } from './stream-events.ts';
import { startWarmlane, type Warmlane } from './warmlane.ts';

describe.runIf(installed('llama-server'))('llama-server in trouble', () => {
  const toStop: { stop(): Promise<void> }[] = [];
  afterEach(async () => {
    for (const started of toStop.splice(0).toReversed()) await started.stop();
  });

  async function bench(flags?: readonly string[]): Promise<Bench> {
    const made = await startBench(() => startLlamaServer(flags));
    toStop.push(made);
    return made;
  }
  async function server(flags?: readonly string[]): Promise<Engine> {
    const made = await startLlamaServer(flags);
    toStop.push(made);
    return made;
  }
  async function proxy(urls: readonly string[]): Promise<Warmlane> {
    const made = await startWarmlane(urls);
    toStop.push(made);
    return made;
  }

  it('R07 SIGTERM in the middle of a stream ends it uncleanly, with an error event and no finish', async () => {
    const { engine, warmlane, tap } = await bench();
    const { call, requestId } = start({ warmlane }, streamedChat(freshPrompt(), 1_500));
    await call.untilEvents(6);
    engine.process.signal('SIGTERM');
    const answer = await call.done;
    expectBroken(answer);
    const record = await warmlane.record(requestId);
    expect(['upstream_error', 'upstream_truncated']).toContain(record.outcome);
    expect(record.events).toBeGreaterThan(4);
    expect(record.finishReasons).toEqual([]);
    const sent = known(only(tap.find(requestId)).response, 'response').payload;
    expect(answer.payload.subarray(0, sent.length).equals(sent)).toBe(true);
    await until('the backend to be seen as down', async () =>
      (await warmlane.backends())[0]?.health === 'down' ? true : undefined,
    );
    const next = await ask(warmlane.url, streamedChat(freshPrompt(), 2));
    expect([502, 503]).toContain(next.status);
    expect(at(parseJson(next.text), 'error', 'message')).toBeTypeOf('string');
  });

  it('R07 with the usual 30 s between pings the silence is cut short once the port refuses', async () => {
    const flags = llamaServerFlags.filter(
      (flag, index) => flag !== '--sse-ping-interval' && llamaServerFlags[index - 1] !== '--sse-ping-interval',
    );
    // No tap: it would go on accepting connections for a server that is gone.
    const engine = await server(flags);
    const warmlane = await proxy([engine.url]);
    const { call, requestId } = start({ warmlane }, streamedChat(freshPrompt(), 1_500));
    await call.untilEvents(6);
    const killedMs = performance.now();
    engine.process.signal('SIGTERM');
    expectBroken(await call.done);
    expect(performance.now() - killedMs).toBeLessThan(20_000);
    const { outcome, reason } = await warmlane.record(requestId);
    // Now and then the server cuts the stream at once instead of falling silent.
    expect([outcome, reason]).toEqual(
      outcome === 'upstream_truncated' ? [outcome, 'eof'] : ['upstream_error', 'backend_lost'],
    );
  });

  it('R08 an error in the middle of a stream passes unchanged and is not taken for success', async () => {
    const { warmlane, tap, engine } = await bench(['-np', '2', '-c', '512', '-kvu', '-t', '1', '--metrics']);
    await untilIdle(engine);
    const pair = [1, 2].map(() => start({ warmlane }, streamedChat(freshPrompt(), 400)));
    const answers = await Promise.all(pair.map(({ call }) => call.done));
    const records = await Promise.all(pair.map(({ requestId }) => warmlane.record(requestId)));
    const failed = answers.flatMap((answer, index) =>
      answer.events.at(-1)?.data === '[DONE]' ? [] : [{ answer, index }],
    );
    expect(failed.length).toBeGreaterThan(0);
    for (const { answer, index } of failed) {
      const exchange = only(tap.find(known(pair[index], 'call').requestId));
      expect(answer.text).toContain('Context size has been exceeded');
      expect(sha256(answer.payload)).toBe(sha256(expectedPayload(exchange, false)));
      expect(records[index]).toMatchObject({ outcome: 'upstream_error', finishReasons: [] });
      expect(known(records[index], 'record').events).toBeGreaterThan(50);
    }
  });

  it('a server that is killed breaks its streams, and serves again once it is back', async () => {
    const engine = await server();
    const warmlane = await proxy([engine.url]);
    const { call, requestId } = start({ warmlane }, streamedChat(freshPrompt(), 1_500));
    await call.untilEvents(6);
    engine.process.signal('SIGKILL');
    expectBroken(await call.done);
    expect((await warmlane.record(requestId)).outcome).toMatch(/^upstream_/);
    await server([...llamaServerFlags, '--port', new URL(engine.url).port]);
    await until(
      'the backend to be up again',
      async () => ((await warmlane.backends())[0]?.health === 'up' ? true : undefined),
      {
        timeoutMs: 20_000,
      },
    );
    expect(await ask(warmlane.url, streamedChat(freshPrompt(), 4))).toMatchObject({ status: 200, complete: true });
  });

  it('of two servers the less loaded one is chosen, and the one that is left takes all', async () => {
    const [first, second] = [await server(), await server()];
    const warmlane = await proxy([first.url, second.url]);
    const streams = [1, 2, 3, 4].map(() => start({ warmlane }, streamedChat(freshPrompt(), 100)));
    for (const answer of await Promise.all(streams.map(({ call }) => call.done))) expect(answer.complete).toBe(true);
    const backends = await Promise.all(
      streams.map(async ({ requestId }) => (await warmlane.record(requestId)).backend),
    );
    expect(new Set(backends).size).toBe(2);
    expect(backends.filter((backend) => backend === backends[0])).toHaveLength(2);
    first.process.signal('SIGKILL');
    await first.process.ended(5_000);
    for (let turn = 0; turn < 6; turn += 1) {
      expect(await ask(warmlane.url, streamedChat(freshPrompt(), 2))).toMatchObject({ status: 200, complete: true });
    }
  });

  it('SIGTERM lets warmlane finish its streams, then it ends with 0', async () => {
    const { warmlane } = await bench();
    const { call } = start({ warmlane }, streamedChat(freshPrompt(), 150));
    await call.untilEvents(6);
    warmlane.process.signal('SIGTERM');
    const answer = await call.done;
    expect(answer.complete).toBe(true);
    expect(answer.events.at(-1)?.data).toBe('[DONE]');
    expect(await warmlane.process.ended(10_000)).toBe(0);
  });

  it('a second SIGTERM ends warmlane and its streams at once, and the server stops working on them', async () => {
    const { warmlane, engine } = await bench();
    const { call } = start({ warmlane }, streamedChat(freshPrompt(), 1_500));
    await call.untilEvents(6);
    warmlane.process.signal('SIGTERM');
    await pause(200); // two signals in one moment would be taken for one
    warmlane.process.signal('SIGTERM');
    expect((await call.done).complete).toBe(false);
    await warmlane.process.ended(2_000);
    const idle = await untilIdle(engine);
    expect(idle.generated).toBeLessThan(1_000);
  });

  it('embeddings are the same as from the server itself, and counted', async () => {
    const { engine, warmlane, tap } = await bench([
      '--embeddings',
      '--pooling',
      'mean',
      '-c',
      '512',
      '-t',
      '1',
      '-np',
      '1',
      '--metrics',
    ]);
    const request = { path: '/v1/embeddings', body: { model: 'smollm2', input: ['water under bridges', 'rain'] } };
    const direct = await ask(engine.url, request);
    const { answer, record } = await relay({ engine, warmlane, tap, stop: () => Promise.resolve() }, request);
    expect(normalise(parseJson(answer.text))).toEqual(normalise(parseJson(direct.text)));
    expect(record).toMatchObject({ endpoint: 'embeddings', outcome: 'ok', streamed: false });
    expect(record.tokens.prompt?.value).toBe(at(parseJson(answer.text), 'usage', 'prompt_tokens'));
  });
});

/** A stream that ended as a broken one must: no end marker, no finish reason, an error event last, no proper end. */
function expectBroken(answer: Answer): void {
  expect(answer.status).toBe(200);
  expect(answer.complete).toBe(false);
  expect(answer.text).not.toContain('[DONE]');
  expect(answer.text).not.toMatch(/"finish_reason":\s*"/);
  expect(at(parseJson(known(answer.events.at(-1), 'last event').data), 'error', 'message')).toBeTypeOf('string');
}
