import type { IncomingMessage } from 'node:http';
import { describe, expect, it } from 'vitest';

import { clientHead } from '../../../src/http/front.ts';
import { createFakeClock } from '../../support/fake-clock.ts';

function headOf(headers: IncomingMessage['headers']) {
  // Of Node's class only what is read.
  const incoming = { headers, rawHeaders: [], socket: {}, httpVersion: '1.1' } as unknown as IncomingMessage;
  return clientHead(incoming, { clock: createFakeClock(), makeId: () => 'made' });
}

describe("a client's head", () => {
  it('has the headers that were sent, and nothing that an object has of itself', () => {
    const head = headOf({ 'x-session-id': 's', 'set-cookie': ['a', 'b'] });
    expect(head.header('x-session-id')).toBe('s');
    expect(head.header('set-cookie')).toBe('a, b');
    for (const name of ['__proto__', 'constructor', 'tostring', 'toString']) expect(head.header(name)).toBeUndefined();
  });

  it('keeps a request id that can stand in a header and a log line, and makes one in place of others', () => {
    expect(headOf({ 'x-request-id': 'a-1' }).requestId).toBe('a-1');
    for (const id of ['', 'a b', 'ü', 'x'.repeat(129)]) expect(headOf({ 'x-request-id': id }).requestId).toBe('made');
  });
});
