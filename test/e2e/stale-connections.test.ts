/** R01, R02: connections that their server has closed, and what a request that meets one costs its client: nothing. */
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { fin, pause, reset, send, type ScriptStep } from '../../src/sim/fault-steps.ts';
import type { ScriptedConnection } from '../../src/sim/faults.ts';
import type { RawRequest } from '../../src/sim/raw-request.ts';
import { chunk, DONE, FIN, lastChunk, ROLE, sseHead, T, wholeAnswer } from '../../src/sim/sse-script.ts';
import { again, backendsAre, pass, scripted } from '../support/exchange.ts';
import { type SeveralBackends, severalBackends } from '../support/several-backends.ts';
import { parseAnswer, postBytes, R0, chatBody } from '../support/raw-http.ts';
import { createStage, type Stage, usersOf } from '../support/stage.ts';

let stage: Stage;
beforeEach(() => {
  stage = createStage();
});
afterEach(() => stage.close());

const short = postBytes('/v1/chat/completions', { ...chatBody, stream: false });
const events = [ROLE, T('a'), FIN('stop'), DONE];
const json = { choices: [{ index: 0, message: { content: 'a' }, finish_reason: 'stop' }] };
const keepAlive = { 'Keep-Alive': 'timeout=5, max=100' };

describe('a connection that its server has closed', () => {
  it('R01 costs nothing on llama-server: 200 short, streamed and refused requests in turn, none fails', async () => {
    const served = new Map<number, number>();
    /** As it really does: keep-alive announced, closed at once after a stream, an error, and the hundredth answer. */
    function answer(request: RawRequest, connection: ScriptedConnection): ScriptStep[] {
      const count = (served.get(connection.id) ?? 0) + 1;
      served.set(connection.id, count);
      const body = request.text();
      if (body.includes('"stream":true'))
        return [send(sseHead(keepAlive)), ...events.map((event) => send(chunk(event))), send(lastChunk), fin()];
      if (body.includes('"bad"'))
        return [send(wholeAnswer(400, { error: { code: 400, message: 'no' } }, keepAlive)), fin()];
      return [send(wholeAnswer(200, json, keepAlive)), ...(count >= 100 ? [fin()] : [])];
    }
    const backend = await scripted(stage, answer, 'llama-server');
    const proxy = await stage.proxy(backend, { change: backendsAre([backend], 'llama-server') });
    const client = await stage.client(proxy);
    const bad = postBytes('/v1/chat/completions', { ...chatBody, stream: false, model: 'bad' });
    const kinds = [R0, short, short, bad, short];
    const statuses: (number | undefined)[] = [];
    for (let i = 0; i < 200; i += 1) {
      const before = client.received.length;
      client.send(kinds[i % kinds.length] ?? R0);
      await client.until(() => parseAnswer(client.received.subarray(before))?.complete === true);
      statuses.push(parseAnswer(client.received.subarray(before))?.status);
    }
    expect(statuses).toEqual(Array.from({ length: 200 }, (_, i) => (kinds[i % kinds.length] === bad ? 400 : 200)));
    const records = await proxy.records(200);
    expect(
      records.every(({ outcome, attempts }) => attempts <= 2 && (outcome === 'ok' || outcome === 'client_error')),
    ).toBe(true);
    expect(Math.max(...served.values())).toBeGreaterThan(1);
  }, 60_000);

  it.each([
    ['R01', 'a FIN', [fin()]],
    ['R02', 'a FIN a moment later', [pause(150), fin()]],
    ['R01', 'a reset', [reset()]],
  ] as const)(
    '%s is met by a request (%s): sent again once on a fresh one, the client sees nothing',
    async (_, __, end) => {
      let stale = 0;
      const onRequest = (request: RawRequest, connection: ScriptedConnection): readonly ScriptStep[] => {
        if (connection.requests.indexOf(request) === 0) return [send(wholeAnswer(200, json, keepAlive))];
        stale += 1;
        return end;
      };
      const first = await pass(stage, onRequest, { request: short });
      await keptIdle(first.connection);
      const second = await again(stage, first, { request: short });
      expect(second.answer).toMatchObject({ status: 200, complete: true });
      expect(stale).toBe(1);
      expect(second.record).toMatchObject({ outcome: 'ok', attempts: 2 });
      const [, lost, repeated] = usersOf(first.backend);
      expect(usersOf(first.backend)).toHaveLength(3);
      expect(repeated?.rawBody.equals(lost?.rawBody ?? Buffer.alloc(0))).toBe(true);
      expect(repeated?.header('x-request-id')).toBe(lost?.header('x-request-id'));
      expect(lost?.connectionId).toBe(first.connection.id);
      expect(repeated?.connectionId).not.toBe(first.connection.id);
      expect(first.proxy.app.fleet.snapshot().backends[0]?.health).toBe('up');
    },
  );

  it('R01 is tried again once, not for ever: if the fresh one dies too, the client hears of it', async () => {
    let count = 0;
    const onRequest = (): ScriptStep[] => {
      count += 1;
      return count === 1 ? [send(wholeAnswer(200, json))] : [fin()];
    };
    const first = await pass(stage, onRequest, { request: short });
    await keptIdle(first.connection);
    const second = await again(stage, first, { request: short });
    expect(second.answer.status).toBe(502);
    expect(second.record).toMatchObject({ outcome: 'upstream_error', attempts: 2, reason: 'backend_closed_early' });
    expect(usersOf(first.backend)).toHaveLength(3);
  });

  it.each([
    ['after a byte of the answer', [send('HTTP/1.1 2'), fin()]],
    ['after more than a second of work', [pause(1300), reset()]],
  ] as const)('C071 was no stale one %s: the request is not sent again', async (_, end) => {
    const onRequest = (request: RawRequest, connection: ScriptedConnection): readonly ScriptStep[] =>
      connection.requests.indexOf(request) === 0 ? [send(wholeAnswer(200, json))] : end;
    const first = await pass(stage, onRequest, { request: short });
    await keptIdle(first.connection);
    const second = await again(stage, first, { request: short });
    expect(second.answer.status).toBe(502);
    expect(second.record).toMatchObject({ attempts: 1 });
    expect(usersOf(first.backend)).toHaveLength(2);
  });

  it('R01 is never given a body that can be sent only once', async () => {
    const onRequest = (request: RawRequest, connection: ScriptedConnection): ScriptStep[] =>
      connection.requests.indexOf(request) === 0 ? [send(wholeAnswer(200, json))] : [fin()];
    const first = await pass(stage, onRequest, { request: short });
    await keptIdle(first.connection);
    const size = 200_000;
    const upload = `POST /upload HTTP/1.1\r\nHost: test\r\nContent-Type: application/octet-stream\r\nContent-Length: ${size}\r\n\r\n${'u'.repeat(size)}`;
    const second = await again(stage, first, { request: upload });
    expect(second.answer.status).toBe(200);
    expect(second.record).toMatchObject({ outcome: 'ok', attempts: 1 });
    expect(second.asked.body).toHaveLength(size);
  });

  it('R02 is left before its server’s announced time is over', async () => {
    const first = await pass(stage, () => [send(wholeAnswer(200, json, { 'Keep-Alive': 'timeout=2' }))], {
      request: short,
    });
    const answeredMs = performance.now();
    await first.connection.closed;
    const goneMs = first.connection.goneMs ?? Number.NaN;
    expect(goneMs - answeredMs).toBeGreaterThan(500);
    expect(goneMs - answeredMs).toBeLessThan(1900);
  });
});

describe('a request that kills each backend it meets, on a warm connection', () => {
  /** Three backends that have answered once each; from then on each dies of what it gets, port and all. */
  async function killable(retryAfterCrash: boolean): Promise<SeveralBackends> {
    async function* die(): AsyncGenerator<ScriptStep> {
      await fleet.backends[fleet.asked.at(-1) ?? -1]?.refuse();
      yield reset();
    }
    const fleet: SeveralBackends = await severalBackends(
      stage,
      { count: 3, change: { relay: { retryAfterCrash }, route: { policy: 'round-robin' } } },
      (nth) => (nth <= 3 ? [wholeAnswer(200, json, keepAlive)] : die()),
    );
    for (let i = 0; i < 3; i += 1) await fleet.send(short);
    expect(fleet.asked.toSorted((a, b) => a - b)).toEqual([0, 1, 2]);
    return fleet;
  }

  it('decision 11: has killed one, by default', async () => {
    const fleet = await killable(false);
    const { answer, record } = await fleet.send(short);
    expect(answer.status).toBe(502);
    expect(JSON.parse(answer.body.toString())).toMatchObject({ error: { code: 'backend_closed_early' } });
    expect(fleet.asked).toHaveLength(4);
    expect(record).toMatchObject({ outcome: 'upstream_error', attempts: 2 });
  });

  it('decision 11: has killed two with `retry.afterCrash`, and is refused to the third', async () => {
    const fleet = await killable(true);
    const { answer } = await fleet.send(short);
    expect(JSON.parse(answer.body.toString())).toMatchObject({ error: { code: 'prompt_killed_engine' } });
    expect(fleet.asked).toHaveLength(5);
  });
});

/** Waits until the proxy can take this connection again. */
async function keptIdle(connection: ScriptedConnection): Promise<void> {
  await new Promise((resolve) => void setTimeout(resolve, 30));
  expect(connection.open).toBe(true);
}
