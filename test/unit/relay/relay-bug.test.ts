/** A bug inside a relay, played by a call out of it that throws: it must end its own request, and nothing else. */
import { describe, expect, it } from 'vitest';
import { tickMs } from '../../../src/relay/ticker.ts';
import { createRelayWorld, createSharedTime, streamHead } from '../../support/relay-world.ts';

function throwing(in_: string): (call: string) => void {
  return (call) => {
    if (call === in_) throw new Error(`bug in ${call}`);
  };
}

describe('a bug inside a relay', () => {
  it.each(['mark connected', 'mark sent', 'mark head', 'answered', 'mark end'])(
    'in "%s" ends its request as broken, once, and aborts the exchange',
    (call) => {
      const world = createRelayWorld({ onCall: throwing(call) });
      world.handler.connected({ reused: false, address: '' });
      world.handler.sent();
      world.handler.head(streamHead);
      world.handler.end([]);
      expect(world.ends).toMatchObject([{ kind: 'broken' }]);
      expect(world.exchange.aborts).toBe(1);
      world.clock.advance(tickMs);
      expect(world.clock.pending()).toBe(0);
    },
  );

  it('in a tick leaves the other relays their ticks', () => {
    const shared = createSharedTime();
    const world = createRelayWorld({ shared, onCall: throwing('quiet') });
    let asked = 0;
    const other = createRelayWorld({ shared, onCall: (call) => void (asked += call === 'quiet' ? 1 : 0) });
    for (const { handler } of [world, other]) {
      handler.connected({ reused: false, address: '' });
      handler.sent();
    }
    shared.clock.advance(1000 + 2 * tickMs);
    expect(world.ends).toMatchObject([{ kind: 'broken' }]);
    expect(world.exchange.aborts).toBe(1);
    expect(other.ends).toEqual([]);
    expect(asked).toBe(1);
    const before = shared.clock.pending();
    shared.clock.advance(tickMs);
    expect(shared.clock.pending()).toBe(before);
  });

  it('does not hide a client that leaves', () => {
    const world = createRelayWorld();
    world.handler.connected({ reused: false, address: '' });
    world.leave();
    expect(world.ends).toMatchObject([{ kind: 'client_gone' }]);
    expect(world.exchange.aborts).toBe(1);
  });
});
