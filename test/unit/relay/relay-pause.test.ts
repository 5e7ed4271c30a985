/** A relay whose client is slow: when the backend is held back, whose silence counts, and when the client is given up. */
import { describe, expect, it } from 'vitest';
import { EventFlag } from '../../../src/domain/tap.ts';
import { tickMs } from '../../../src/relay/ticker.ts';
import { bodyRead } from '../../support/body-read.ts';
import { createRelayWorld, type RelayWorld, type RelayWorldOptions, streamHead } from '../../support/relay-world.ts';

const token = bodyRead(Buffer.from('data: {"x":1}\n\n'));

/** A stream whose latest token the client has not taken. */
function pausedStream(deadlines: RelayWorldOptions['deadlines']): RelayWorld {
  const world = createRelayWorld({ eventFlags: EventFlag.token, ...(deadlines === undefined ? {} : { deadlines }) });
  world.handler.connected({ reused: false, address: '' });
  world.handler.sent();
  world.handler.head(streamHead);
  world.bufferedBytes = 1001;
  world.handler.body(token);
  expect(world.exchange.pauses).toBe(1);
  return world;
}

describe('a client that is slow', () => {
  it('C126 makes no silent backend, and after it has drained the limit counts anew, tokens or not', () => {
    const world = pausedStream({ contentStallMs: 700 });
    world.clock.advance(10_000);
    expect(world.ends).toEqual([]);
    world.bufferedBytes = 0;
    world.drain();
    expect(world.exchange.resumes).toBe(1);
    world.clock.advance(600);
    expect(world.ends).toEqual([]);
    world.clock.advance(300);
    expect(world.ends).toMatchObject([{ kind: 'answered', outcome: 'timeout', reason: 'content_stall' }]);
    expect(world.written.at(-1)).toContain('"code":"content_stall"');
    expect(world.cuts).toBe(1);
  });

  it('C082 is cut when it takes nothing for so long; each byte that it takes begins the time anew', () => {
    const world = pausedStream({ clientStallMs: 1000 });
    world.clock.advance(900);
    world.bufferedBytes = 1000;
    world.clock.advance(900);
    expect(world.ends).toEqual([]);
    world.clock.advance(400);
    expect(world.ends).toMatchObject([{ kind: 'client_gone', reason: 'client_stalled' }]);
    expect(world.exchange.aborts).toBe(1);
    expect(world.cuts).toBe(1);
  });

  it('C126 the limit for everything holds', () => {
    const world = pausedStream({ totalMs: 2000, clientStallMs: 60_000 });
    world.clock.advance(2200);
    expect(world.ends).toMatchObject([{ kind: 'answered', outcome: 'timeout', reason: 'total_timeout' }]);
  });

  it('goes on without being told that it has drained: a bound below the socket’s own has no drain', () => {
    const world = pausedStream({ clientStallMs: 1000 });
    world.bufferedBytes = 501;
    world.clock.advance(tickMs);
    expect(world.exchange.resumes).toBe(0);
    world.bufferedBytes = 500;
    world.clock.advance(tickMs);
    expect(world.exchange.resumes).toBe(1);
    world.clock.advance(5000);
    expect(world.exchange.resumes).toBe(1);
    expect(world.ends).toEqual([]);
  });

  it('is not held back for less than the bound', () => {
    const world = createRelayWorld({ eventFlags: EventFlag.token });
    world.handler.connected({ reused: false, address: '' });
    world.handler.sent();
    world.handler.head(streamHead);
    world.bufferedBytes = 1000;
    world.handler.body(token);
    expect(world.exchange.pauses).toBe(0);
  });
});
