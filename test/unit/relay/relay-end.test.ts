/** Answers that aren't streamed end together, in a step of their own; what happens to one between its last byte and that step. */
import { describe, expect, it } from 'vitest';
import type { UpstreamHead } from '../../../src/platform/upstream/port.ts';
import { bodyRead } from '../../support/body-read.ts';
import { createRelayWorld, streamHead } from '../../support/relay-world.ts';

const jsonHead = {
  status: 200,
  reason: 'OK',
  rawHeaders: ['Content-Type', 'application/json'],
  httpVersion: '1.1',
  framing: 'length',
  contentLength: 2,
} as const satisfies UpstreamHead;

function answered(head: typeof jsonHead | typeof streamHead = jsonHead, body = '{}') {
  const calls: string[] = [];
  const waiting: (() => void)[] = [];
  const world = createRelayWorld({
    onCall: (call) => calls.push(call),
    takeEnd: (end) => waiting.push(end),
    deadlines: { totalMs: 50 },
  });
  world.handler.connected({ reused: false, address: '' });
  world.handler.sent();
  world.handler.head(head);
  world.handler.body(bodyRead(Buffer.from(body)));
  world.handler.end([]);
  return {
    world,
    heard: () => calls.filter((call) => call === 'client end' || call === 'answerEnd'),
    step: () => waiting.splice(0).forEach((end) => end()),
  };
}

describe('the end of an answer that is not streamed', () => {
  it('waits for its step; then the client has it before it is read', () => {
    const { world, heard, step } = answered();
    expect(heard()).toEqual([]);
    expect(world.ends).toEqual([]);
    step();
    expect(heard()).toEqual(['client end', 'answerEnd']);
    expect(world.ends).toMatchObject([{ kind: 'answered', outcome: 'ok', aborted: false }]);
  });

  it("is the client's going where that comes first: counted to its end, and nothing of it is left to run at the engine", () => {
    const { world, heard, step } = answered();
    world.leave();
    expect(heard()).toEqual(['answerEnd']);
    expect(world.ends).toMatchObject([{ kind: 'client_gone', aborted: false }]);
    step();
    expect(heard()).toEqual(['answerEnd']);
    expect(world.ends).toHaveLength(1);
  });

  it('is not undone by the drain deadline: all of it is here', () => {
    const { world, step } = answered();
    world.shutdown();
    expect(world.ends).toEqual([]);
    step();
    expect(world.cuts).toBe(0);
    expect(world.ends).toMatchObject([{ kind: 'answered', outcome: 'ok' }]);
  });

  it('is no silence: the total deadline does not cut what is all here', () => {
    const { world, step } = answered();
    world.clock.advance(2000);
    expect(world.cuts).toBe(0);
    step();
    expect(world.ends).toMatchObject([{ kind: 'answered', outcome: 'ok' }]);
  });
});

describe('the end of a stream', () => {
  it('waits for nothing', () => {
    const { world, heard } = answered(streamHead, 'data: {}\n\n');
    expect(heard()).toEqual(['client end']);
    expect(world.ends).toHaveLength(1);
  });
});
