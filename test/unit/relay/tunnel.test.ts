import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';
import { afterEach, describe, expect, it } from 'vitest';
import type { ClientHead } from '../../../src/platform/client-port.ts';
import { createTunnels, type TunnelObserver } from '../../../src/relay/tunnel.ts';
import { createFakeClock } from '../../support/fake-clock.ts';
import { modelNotFound } from '../../../src/route/refusals.ts';
import { systemClock } from '../../../src/platform/clock.ts';
import { sampleBackend, sampleJob } from '../../support/sample.ts';

const closers: (() => void)[] = [];
afterEach(() => {
  for (const close of closers.splice(0)) close();
});

/** Two ends of one connection. */
async function pair(): Promise<{ near: Socket; far: Socket }> {
  const server = createServer();
  await once(server.listen(0, '127.0.0.1'), 'listening');
  const far = connect((server.address() as AddressInfo).port, '127.0.0.1');
  const [near] = (await once(server, 'connection')) as [Socket];
  closers.push(() => {
    far.destroy();
    near.destroy();
    server.close();
  });
  return { near, far };
}

const head: ClientHead = {
  requestId: 'r',
  method: 'GET',
  target: '/ws',
  httpVersion: '1.1',
  rawHeaders: [],
  header: () => undefined,
  remoteAddress: '127.0.0.1',
  secure: false,
  receivedMs: 1,
};

describe('the number of tunnels', () => {
  it('is bounded: one more gets 503, and may come once another has ended', async () => {
    const endings: object[] = [];
    const observer: TunnelObserver = {
      classified() {},
      attempt() {},
      attemptEnd() {},
      mark() {},
      responseBytes() {},
      finish: (ending) => void endings.push(ending),
    };
    let asked = 0;
    const tunnels = createTunnels({
      clock: createFakeClock(),
      classify: () => sampleJob(),
      targetOf: () => '/ws',
      // All wait.
      owner: {
        ask() {
          asked += 1;
          return { leave() {} };
        },
      },
      link: () => {
        throw new Error('nobody is let in');
      },
      settings: () => ({
        deadlines: { connectMs: 0, headMs: 0, contentStallMs: 0, clientStallMs: 0, totalMs: 0 },
        passConversationId: false,
      }),
      observe: () => observer,
      closing: () => undefined,
      maxTunnels: 1,
    });
    const [first, second, third] = [await pair(), await pair(), await pair()];
    tunnels.open(head, first.near, Buffer.alloc(0));
    tunnels.open(head, second.near, Buffer.alloc(0));
    const [answer] = (await once(second.far, 'data')) as [Buffer];
    expect(answer.toString()).toMatch(/^HTTP\/1\.1 503 /);
    expect(endings).toMatchObject([{ outcome: 'rejected', status: 503, spokenBy: 'warmlane' }]);
    expect(asked).toBe(1);
    first.far.destroy();
    second.far.destroy();
    await tunnels.idle();
    tunnels.open(head, third.near, Buffer.alloc(0));
    expect(asked).toBe(2);
  });
});

it('C147 a port that refuses is told to who watched it at the grant, whoever has its name by then', async () => {
  const closed = createServer();
  await once(closed.listen(0, '127.0.0.1'), 'listening');
  const { port } = closed.address() as AddressInfo;
  closed.close();
  const told: string[] = [];
  let watchedBy = 'first';
  const endings: object[] = [];
  const tunnels = createTunnels({
    clock: systemClock,
    classify: () => sampleJob(),
    targetOf: () => '/ws',
    owner: {
      ask({ exclude }, answer) {
        const permit = { backend: sampleBackend('a'), reason: 'only_backend', waitedMs: 0, settle() {} };
        answer(exclude.length === 0 ? permit : modelNotFound('m', []));
        // By the time that the port refuses another server has the name.
        watchedBy = 'second';
        return { leave() {} };
      },
    },
    link: () => {
      const name = watchedBy;
      return {
        target: { secure: false, host: '127.0.0.1', port, authority: `127.0.0.1:${port}`, pathPrefix: '' },
        witness: { faulted: ({ kind }) => void told.push(`${name} ${kind}`) },
      };
    },
    settings: () => ({
      deadlines: { connectMs: 2000, headMs: 2000, contentStallMs: 0, clientStallMs: 0, totalMs: 0 },
      passConversationId: false,
    }),
    observe: () => ({
      classified() {},
      attempt: () => undefined,
      attemptEnd() {},
      mark() {},
      responseBytes() {},
      finish: (ending) => void endings.push(ending),
    }),
    closing: () => undefined,
  });
  const { near } = await pair();
  tunnels.open(head, near, Buffer.alloc(0));
  await tunnels.idle();
  expect(told).toEqual(['first refused']);
  expect(endings).toMatchObject([{ outcome: 'upstream_error' }]);
});
