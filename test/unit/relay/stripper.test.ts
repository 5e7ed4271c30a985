import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { EventFlag } from '../../../src/domain/tap.ts';
import { createAnswerReader } from '../../../src/relay/answer-reader.ts';
import { bodyRead } from '../../support/body-read.ts';

/** A tap that takes `usage` events for usage-only and `finish` events for a finish reason. */
function fakeTap() {
  return {
    beginRead() {},
    endRead() {},
    gaveUp() {},
    answer() {},
    failed() {},
    answerEnd() {},
    error: undefined,
    event(data: Buffer, start: number, end: number) {
      const text = data.toString('utf8', start, end);
      if (text.startsWith('usage')) return EventFlag.usageOnly;
      return text.startsWith('finish') ? EventFlag.finish : EventFlag.token;
    },
  };
}

function passThrough(pieces: readonly Buffer[]): string {
  const reader = createAnswerReader(
    { medium: 'sse', format: 'chat', maxEventBytes: 4096, strip: true, measured: true },
    fakeTap(),
  );
  const out: Buffer[] = [];
  for (const piece of pieces) out.push(...(reader.read(bodyRead(piece), 1) ?? [Buffer.from(piece)]));
  const rest = reader.end(1);
  if (rest !== undefined) out.push(rest);
  return Buffer.concat(out).toString();
}

function cutAt(text: string, cuts: readonly number[]): Buffer[] {
  const bytes = Buffer.from(text);
  const borders = [0, ...cuts.map((cut) => cut % (bytes.length + 1)).toSorted((a, b) => a - b), bytes.length];
  return borders.slice(1).map((border, index) => bytes.subarray(borders[index], border));
}

describe('the usage event that warmlane asked for', () => {
  for (const [name, eol] of [
    ['LF', '\n'],
    ['CRLF', '\r\n'],
    ['CR', '\r'],
  ] as const) {
    const event = (text: string) => `data: ${text}${eol}${eol}`;
    const before = event('a') + event('b') + event('finish');
    const after = event('[DONE]');

    it(`goes and nothing else changes, wherever the reads are cut (${name})`, () => {
      fc.assert(
        fc.property(fc.array(fc.nat({ max: 200 }), { maxLength: 8 }), (cuts) => {
          expect(passThrough(cutAt(before + event('usage') + after, cuts))).toBe(before + after);
        }),
      );
    });

    it(`may be missing, and everything passes (${name})`, () => {
      fc.assert(
        fc.property(fc.array(fc.nat({ max: 200 }), { maxLength: 8 }), (cuts) => {
          expect(passThrough(cutAt(before + after, cuts))).toBe(before + after);
        }),
      );
    });
  }

  it('never keeps a token back: an unfinished event passes at once before the first finish reason', () => {
    const reader = createAnswerReader(
      { medium: 'sse', format: 'chat', maxEventBytes: 4096, strip: true, measured: true },
      fakeTap(),
    );
    expect(reader.read(bodyRead(Buffer.from('data: {"cont')), 1)).toBeUndefined();
  });

  it('an unfinished event at the end of a broken stream still comes out', () => {
    expect(passThrough([Buffer.from('data: finish\n\nda'), Buffer.from('ta: [DO')])).toBe('data: finish\n\ndata: [DO');
  });
});
