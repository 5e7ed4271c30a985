/** An event that never ends: it passes at full speed, and the memory that reading it takes stays bounded. */
import { connect } from 'node:net';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { send } from '../../src/sim/fault-steps.ts';
import { chunk, DONE, FIN, lastChunk, ROLE, sseHead, T, USE } from '../../src/sim/sse-script.ts';
import { again, pass, scripted } from '../support/exchange.ts';
import { R0, R1 } from '../support/raw-http.ts';
import { createStage, type Stage } from '../support/stage.ts';

let stage: Stage;
beforeEach(() => {
  stage = createStage();
});
afterEach(() => stage.close());

/** Memory that something still holds, in bytes. */
function liveBytes(): number {
  setFlagsFromString('--expose-gc');
  (runInNewContext('gc') as () => void)();
  const { heapUsed, arrayBuffers } = process.memoryUsage();
  return heapUsed + arrayBuffers;
}

describe('an event without an end', () => {
  it('C019 passes whole, is given up by the reading, and costs no memory', async () => {
    const piece = chunk(Buffer.alloc(64 * 1024, 'x'));
    const pieces = 1536;
    let before = 0;
    const samples: number[] = [];
    function* script() {
      yield send(sseHead());
      yield send(chunk(ROLE, T('a'), 'data: '));
      before = liveBytes();
      for (let i = 0; i < pieces; i += 1) {
        yield send(piece);
        if (i % 128 === 127) samples.push(liveBytes() - before);
      }
      yield send(chunk('\n\n', T('b'), FIN('stop'), USE(3, 2), DONE));
      yield send(lastChunk);
    }
    const backend = await scripted(stage, script);
    const proxy = await stage.proxy(backend);
    const socket = connect({ port: proxy.port, host: '127.0.0.1' });
    let bytes = 0;
    let tail = '';
    socket.on('data', (data) => {
      bytes += data.length;
      tail = (tail + data.toString('latin1', Math.max(0, data.length - 2000))).slice(-2000);
    });
    socket.write(R1);
    const [record] = await proxy.records(1, 30_000);
    await new Promise((resolve) => void setTimeout(resolve, 50));
    socket.destroy();
    expect(bytes).toBeGreaterThan(pieces * 64 * 1024);
    expect(tail.endsWith(`${DONE}\r\n0\r\n\r\n`)).toBe(true);
    // The median, which is half of the event where it is held: now and then the sweeper has not yet given back what is already
    // dead, and what is under way between the three sockets of this process counts, too.
    expect(samples.toSorted((a, b) => a - b)[samples.length >> 1]).toBeLessThan((pieces * 64 * 1024) / 4);
    expect(record).toMatchObject({
      outcome: 'ok',
      events: 2,
      finishReasons: ['stop'],
      tokens: { output: { value: 2, source: 'usage' } },
    });
    expect(record?.marks).toContain('event_too_large');
    expect(record?.responseBytes).toBeGreaterThan(pieces * 64 * 1024);
  }, 60_000);

  it('C019 may be its answer’s last: what was counted stays, the end is what the backend made it', async () => {
    const change = { measure: { maxEventBytes: 4096 } };
    const endless = `data: ${'x'.repeat(20_000)}`;
    const first = await pass(
      stage,
      () => [send(sseHead()), send(chunk(ROLE, T('a'), T('b'), endless)), send(lastChunk)],
      { change },
    );
    expect(first.answer).toMatchObject({ complete: true });
    expect(first.answer.body.toString()).toBe([ROLE, T('a'), T('b'), endless].join(''));
    expect(first.record).toMatchObject({ outcome: 'upstream_truncated', reason: 'no_finish', events: 2 });
    expect(first.record.marks).toContain('event_too_large');
    const second = await again(stage, first, { request: R0 });
    expect(second.answer.complete).toBe(true);
  });

  it('C019 at its bound is read, one byte past it is not', async () => {
    const padded = (bytes: number) => {
      const bare = T('');
      return T('y'.repeat(bytes - Buffer.byteLength(bare)));
    };
    const change = { measure: { maxEventBytes: 1000 } };
    const { record } = await pass(
      stage,
      () => [send(sseHead()), send(chunk(padded(1000), padded(1001), FIN('stop'), DONE)), send(lastChunk)],
      { change },
    );
    expect(record).toMatchObject({ outcome: 'ok', events: 1 });
    expect(record.marks).toContain('event_too_large');
  });
});
