import { untilTrue } from './sim-rig.ts';
import { afterEach, describe, expect, it } from 'vitest';
import { systemClock } from '../../../src/platform/clock.ts';
import { answerText } from '../../../src/sim/demo-client.ts';
import { startDemoFleet, startDemoTraffic, type DemoFleet, type DemoTraffic } from '../../../src/sim/demo-fleet.ts';
import { createScriptedServer } from '../../../src/sim/faults.ts';
import { hang } from '../../../src/sim/fault-steps.ts';
import { createVirtualClock } from '../../../src/sim/virtual-clock.ts';
import { chunk, DONE, FIN, lastChunk, ROLE, sseHead, T } from '../../../src/sim/sse-script.ts';

let fleet: DemoFleet | undefined;
let traffic: DemoTraffic | undefined;
afterEach(async () => {
  traffic?.stop();
  await fleet?.close();
  fleet = undefined;
});

describe('demo', () => {
  it('starts one simulated server in each dialect, each with its own voice', async () => {
    fleet = await startDemoFleet({ clock: systemClock });
    const answers = await Promise.all(
      fleet.backends.map(async ({ url }) => [
        (await fetch(`${url}/version`)).status,
        (await fetch(`${url}/props`)).status,
      ]),
    );
    expect(answers).toEqual([
      [200, 404],
      [404, 200],
    ]);
    expect(fleet.backends.map((backend) => backend.name)).toEqual(['simulated-vllm', 'simulated-llama']);
  });

  it('sends conversations that grow turn by turn with the answers in them, until it is stopped', async () => {
    const server = await createScriptedServer({
      onRequest: (request) => [
        sseHead(),
        chunk(ROLE),
        chunk(T(`answer ${request.number}`)),
        chunk(FIN('stop'), DONE),
        lastChunk,
      ],
    });
    traffic = startDemoTraffic({ url: server.url, clock: systemClock, meanGapMs: 5 });
    await server.waitForRequests(30);
    traffic.stop();
    const prompts = server.requests.map(
      (request) => (request.json() as { messages: { role: string; content: string }[] }).messages,
    );
    expect(prompts.every((messages) => messages[0]?.role === 'system')).toBe(true);
    const longest = prompts.toSorted((left, right) => right.length - left.length)[0] ?? [];
    expect(longest.length).toBeGreaterThan(4);
    expect(longest[2]?.content).toMatch(/^answer \d+$/);
    // It continues an earlier request of the same conversation.
    expect(
      prompts.some(
        (messages) =>
          messages.length === longest.length - 2 &&
          JSON.stringify(longest).startsWith(JSON.stringify(messages).slice(0, -1)),
      ),
    ).toBe(true);
    const sent = traffic.sent;
    await untilTrue(() => server.openSockets === 0);
    await new Promise((resolve) => setTimeout(resolve, 40));
    expect(traffic.sent).toBe(sent);
    await server.close();
  });

  it('asks the same questions in each run', async () => {
    const first = async () => {
      const server = await createScriptedServer({ onRequest: () => [hang()] });
      const clock = createVirtualClock();
      const own = startDemoTraffic({ url: server.url, clock });
      clock.runUntil(60_000);
      // Three conversations, none answered: no fourth request.
      const requests = await server.waitForRequests(3);
      own.stop();
      await server.close();
      return requests.map((request) => request.text()).toSorted();
    };
    expect(await first()).toEqual(await first());
  });

  it('is answered by its own fleet', async () => {
    fleet = await startDemoFleet({ clock: systemClock });
    traffic = startDemoTraffic({ url: fleet.backends[0]?.url ?? '', clock: systemClock, meanGapMs: 50 });
    await untilTrue(() => (traffic?.answered ?? 0) >= 3);
    expect(fleet.servers[0]?.engine.view().counters.prefixHits).toBeGreaterThan(0);
  });

  it('survives a proxy that is not there', async () => {
    traffic = startDemoTraffic({ url: 'http://127.0.0.1:9', clock: systemClock, meanGapMs: 5 });
    await untilTrue(() => (traffic?.sent ?? 0) > 5);
    expect(traffic.answered).toBe(0);
  });

  it('reads the text of a stream and forgives what it can not read', () => {
    expect(answerText(`${ROLE}${T('a')}data: {broken\n\n${T('b')}${DONE}`)).toBe('ab');
    expect(answerText('nothing')).toBeUndefined();
  });
});
