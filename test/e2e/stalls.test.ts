/** R20, R21: a stream that stands still while its backend computes another request's prompt; the record says whose. */
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { run, send, until, type Script } from '../../src/sim/fault-steps.ts';
import { chunk, DONE, FIN, lastChunk, ROLE, sseHead, T, USE } from '../../src/sim/sse-script.ts';
import { backendsAre, scripted } from '../support/exchange.ts';
import { slackMs, watchLoop } from '../support/moments.ts';
import { chatBody, postBytes } from '../support/raw-http.ts';
import { loadRecorded } from '../support/recorded.ts';
import { startReplaying } from '../support/replaying.ts';
import { createStage, sleep, type Stage, usersOf } from '../support/stage.ts';

let stage: Stage;
beforeEach(() => {
  stage = createStage();
  watchLoop();
});
afterEach(() => stage.close());

describe('a stall', () => {
  it('R20 of llama-server, as it was recorded, is told with its cause, its length and its prompt', async () => {
    const speed = 3;
    const replaying = await startReplaying('llama-server');
    try {
      const stream = replaying.play(loadRecorded('llama-server', 'stall-stream'), { kind: 'recorded', speed });
      // The recordings' clocks are apart by what the two ends of the prefill show.
      await sleep(957.6 / speed);
      const prefill = replaying.play(loadRecorded('llama-server', 'stall-prefill'), { kind: 'recorded', speed });
      const [{ record }, { record: cause }] = await Promise.all([stream, prefill]);
      expect(record.stalls).toHaveLength(1);
      expect(record.stalls?.[0]).toMatchObject({ requestId: cause.requestId, promptTokens: 908 });
      expect(record.stalls?.[0]?.durationMs).toBeGreaterThan(2800 / speed - 60);
      expect(record.stalls?.[0]?.durationMs).toBeLessThan(2900 / speed + 100 + slackMs());
      expect(record.figures.maxItlMs).toBeGreaterThan(2800 / speed - 60);
      expect(cause.stalls).toBeUndefined();
    } finally {
      await replaying.close();
    }
  });

  async function beside(engine: 'vllm' | 'llama-server', options: { readonly same: boolean }) {
    let askOther = (): void => {};
    const stalled = new Promise<void>((resolve) => (askOther = resolve));
    let goOn = (): void => {};
    const prefilled = new Promise<void>((resolve) => (goOn = resolve));
    const events = (count: number): (number | ReturnType<typeof send>)[] =>
      Array.from({ length: count }, () => [15, send(chunk(T('x')))]).flat();
    const script = (request: { text(): string }): Script =>
      request.text().includes('long prompt')
        ? [
            send(sseHead()),
            500,
            send(chunk(ROLE, T('y'))),
            run(goOn),
            30,
            send(chunk(T('z'), FIN('stop'), USE(1850, 2), DONE)),
            send(lastChunk),
          ]
        : [
            send(sseHead()),
            send(chunk(ROLE)),
            ...events(20),
            run(askOther),
            until(prefilled),
            ...events(20),
            send(chunk(FIN('length'), USE(5, 40), DONE)),
            send(lastChunk),
          ];
    const backends = [
      await scripted(stage, script, engine),
      ...(options.same ? [] : [await scripted(stage, script, engine)]),
    ];
    const proxy = await stage.proxy(backends, { change: backendsAre(backends, engine) });
    const stream = await stage.client(proxy);
    stream.send(
      postBytes(
        '/v1/chat/completions',
        { ...chatBody, stream_options: { include_usage: true } },
        { 'X-Request-Id': 'stream' },
      ),
    );
    await stalled;
    const other = await stage.client(proxy);
    other.send(
      postBytes(
        '/v1/chat/completions',
        {
          ...chatBody,
          messages: [{ role: 'user', content: 'a long prompt' }],
          stream_options: { include_usage: true },
        },
        { 'X-Request-Id': 'prefill' },
      ),
    );
    await Promise.all([stream.answer(), other.answer()]);
    const records = await proxy.records(2);
    const record = records.find(({ requestId }) => requestId === 'stream');
    if (record === undefined) throw new Error('no record');
    return { record, sharedBackend: backends.some((backend) => usersOf(backend).length === 2) };
  }

  it.each(['vllm', 'llama-server'] as const)(
    'R21 by a prompt beside the stream on %s is one stall, with the prompt’s tokens',
    async (engine) => {
      const { record } = await beside(engine, { same: true });
      expect(record.stalls).toHaveLength(1);
      expect(record.stalls?.[0]).toMatchObject({ requestId: 'prefill', promptTokens: 1850 });
      expect(record.stalls?.[0]?.durationMs).toBeGreaterThan(420);
      expect(record.stalls?.[0]?.durationMs).toBeLessThan((record.figures.maxItlMs ?? 0) + 1);
      expect(record.stalls?.[0]?.atMs).toBe(record.stamps?.atMs[19]);
    },
  );

  it('R21 without another’s prefill on the same backend is a slow token, and nobody is blamed', async () => {
    const { record, sharedBackend } = await beside('vllm', { same: false });
    expect(sharedBackend).toBe(false);
    expect(record.figures.maxItlMs).toBeGreaterThan(450);
    expect(record.stalls).toBeUndefined();
  });
});
