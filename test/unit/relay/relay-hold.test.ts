/** An error answer that is held back to be judged: it is judged once, whole or by what came in time. */
import { describe, expect, it } from 'vitest';
import { bodyRead } from '../../support/body-read.ts';
import { createRelayWorld } from '../../support/relay-world.ts';

const errorHead = {
  status: 503,
  reason: '',
  rawHeaders: ['Content-Type', 'application/json'],
  httpVersion: '1.1',
  framing: 'chunked',
} as const;

function heldError() {
  const calls: string[] = [];
  const world = createRelayWorld({ onCall: (call) => calls.push(call) });
  world.handler.connected({ reused: false, address: '' });
  world.handler.sent();
  world.handler.head(errorHead);
  world.handler.body(bodyRead(Buffer.from('{"error":')));
  return { world, judged: () => calls.filter((call) => call === 'answered').length };
}

describe('an error answer that is held back', () => {
  it('is judged by what came when its time is over, once, and passed on', () => {
    const { world, judged } = heldError();
    expect(judged()).toBe(0);
    world.clock.advance(1100);
    expect(judged()).toBe(1);
    expect(world.written.join('')).toBe('{"error":');
    world.handler.body(bodyRead(Buffer.from('{}}')));
    world.handler.end([]);
    expect(judged()).toBe(1);
    expect(world.ends).toMatchObject([{ kind: 'answered', outcome: 'rejected', status: 503 }]);
  });

  it('is judged once when it came whole', () => {
    const { world, judged } = heldError();
    world.handler.end([]);
    expect(judged()).toBe(1);
    expect(world.ends).toMatchObject([{ kind: 'answered', aborted: false }]);
  });
});
