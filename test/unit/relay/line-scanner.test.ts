import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { createLineScanner } from '../../../src/relay/line-scanner.ts';
import { everyByte, scan } from '../../support/scan.ts';

const scanText = (text: string, cuts: readonly number[] = []) => scan(createLineScanner, Buffer.from(text), cuts);

describe('lines of JSON', () => {
  it('tells each line without its line end', () => {
    const { events } = scanText('{"a":1}\n{"b":2}\r\n\n{"c":3}');
    expect(events).toEqual([
      { data: '{"a":1}', name: '', rawStart: 0, rawEnd: 8 },
      { data: '{"b":2}', name: '', rawStart: 8, rawEnd: 17 },
      { data: '{"c":3}', name: '', rawStart: 18, rawEnd: 25 },
    ]);
  });

  it('stands at a boundary only after a line end', () => {
    expect(scanText('{"a":1}\n').boundaries).toEqual([true]);
    expect(scanText('{"a":1}').boundaries).toEqual([false]);
    expect(scanText('{"a":1}\n{', [8]).boundaries).toEqual([true, false]);
  });

  it('C019 gives up a line past its bound once, and reads on after it', () => {
    const bytes = Buffer.from(`${'x'.repeat(50)}\n{"a":1}\n${'y'.repeat(50)}\n`);
    for (const cuts of [[], [10, 20, 40], everyByte(bytes)]) {
      const found = scan(createLineScanner, bytes, cuts, 20);
      expect(found.events.map((event) => event.data)).toEqual(['{"a":1}']);
      expect(found.gaveUps).toBe(1);
      expect(found.mostPending).toBeLessThanOrEqual(20);
    }
  });

  it('cut anywhere gives the same lines with the same extents', () => {
    const piece = fc.constantFrom('\n', '\r\n', '\r', '{"a":1}', 'x', 'longer text');
    fc.assert(
      fc.property(fc.array(piece, { maxLength: 20 }), fc.constantFrom(6, 12, 1000), (pieces, maxEventBytes) => {
        const bytes = Buffer.from(pieces.join(''));
        const whole = scan(createLineScanner, bytes, [], maxEventBytes);
        const lines = bytes.toString('latin1').split(/(?<=\n)/);
        const fits = lines.filter((line) => line.length <= maxEventBytes);
        expect(whole.events.map((event) => event.data)).toEqual(
          fits.map((line) => line.replace(/\r?\n$|\r$/, '')).filter((line) => line !== ''),
        );
        expect(scan(createLineScanner, bytes, everyByte(bytes), maxEventBytes)).toMatchObject({
          events: whole.events,
          gaveUps: whole.gaveUps,
        });
      }),
      { numRuns: 2000 },
    );
  });
});
