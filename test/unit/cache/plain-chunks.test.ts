import fc from 'fast-check';
import { describe, expect, it } from 'vitest';

import { plainChunks } from '../../../src/cache/plain-chunks.ts';
import { chunk } from '../../../src/sim/sse-script.ts';

describe('the payload of plain chunks', () => {
  it('is what was put into them, in order', () => {
    fc.assert(
      fc.property(fc.array(fc.uint8Array({ minLength: 1, maxLength: 40 }), { maxLength: 8 }), (payloads) => {
        const wire = Buffer.concat(payloads.map((payload) => chunk(Buffer.from(payload))));
        expect(plainChunks(wire)?.map((piece) => [...piece])).toEqual(payloads.map((payload) => [...payload]));
      }),
    );
  });

  it.each([
    ['a last chunk', '0\r\n\r\n'],
    ['an extension', '1;a=b\r\nx\r\n'],
    ['a cut chunk', '5\r\nabc'],
    ['a cut size', '5'],
    ['no end of line after the payload', '1\r\nxyz'],
    ['no chunk at all', 'hello'],
  ])('is not read out of %s', (_what, wire) => {
    expect(plainChunks(Buffer.from(wire))).toBeUndefined();
  });
});
