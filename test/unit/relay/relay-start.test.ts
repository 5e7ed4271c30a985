/** A relay whose turn to begin comes after it was ended: requests take their steps together, and much happens between two of them. */
import { describe, expect, it } from 'vitest';
import { createRelayWorld } from '../../support/relay-world.ts';

describe('a relay that begins', () => {
  it('leaves the client to whoever listens to it since the relay was taken back', () => {
    let left = 0;
    const world = createRelayWorld({
      before(relay, client) {
        relay.takeBack();
        client.onGone(() => (left += 1));
      },
    });
    expect(world.ends).toMatchObject([{ kind: 'failed' }]);
    expect(() => world.handler).toThrow('no exchange');
    world.leave();
    expect(left).toBe(1);
  });
});
