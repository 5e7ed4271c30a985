import fc from 'fast-check';
import { describe, expect, it } from 'vitest';

import { randomSpanId, randomTraceId, readTraceContext, traceparentOf } from '../../../src/platform/trace-context.ts';

const traceId = '0af7651916cd43dd8448eb211c80319c';
const spanId = 'b7ad6b7169203331';
const valid = `00-${traceId}-${spanId}-01`;

describe('a `traceparent` that came', () => {
  it('is read: trace id, the sender’s span, and the sampled bit alone of the flags', () => {
    expect(readTraceContext(['traceparent', valid])).toEqual({ traceId, parentSpanId: spanId, sampled: true });
    expect(readTraceContext(['TraceParent', `00-${traceId}-${spanId}-00`])).toMatchObject({ sampled: false });
    expect(readTraceContext(['Traceparent', `00-${traceId}-${spanId}-fe`])).toMatchObject({ sampled: false });
    expect(readTraceContext(['traceparent', `00-${traceId}-${spanId}-03`])).toMatchObject({ sampled: true });
  });

  it('of a later version is read for what it shares with this one', () => {
    expect(readTraceContext(['traceparent', `cc-${traceId}-${spanId}-01`])).toMatchObject({ traceId });
    expect(readTraceContext(['traceparent', `cc-${traceId}-${spanId}-01-what-the-future-holds`])).toMatchObject({
      traceId,
    });
    expect(readTraceContext(['traceparent', `cc-${traceId}-${spanId}-01.what`])).toBeUndefined();
  });

  it.each([
    ['nothing', []],
    ['an all-zero trace id', ['traceparent', `00-${'0'.repeat(32)}-${spanId}-01`]],
    ['an all-zero span id', ['traceparent', `00-${traceId}-${'0'.repeat(16)}-01`]],
    ['garbage', ['traceparent', 'garbage']],
    ['an empty value', ['traceparent', '']],
    ['version ff', ['traceparent', `ff-${traceId}-${spanId}-01`]],
    ['version 00 with more behind it', ['traceparent', `${valid}-x`]],
    ['capital digits', ['traceparent', valid.toUpperCase()]],
    ['no flags', ['traceparent', `00-${traceId}-${spanId}`]],
    ['a digit too few', ['traceparent', `00-${traceId.slice(1)}-${spanId}-01`]],
    ['two headers', ['traceparent', valid, 'x', 'y', 'traceparent', valid]],
    ['two in one header', ['traceparent', `${valid},${valid}`]],
    ['only a tracestate', ['tracestate', 'v=1']],
  ])('C194 counts as none: %s', (_, rawHeaders) => {
    expect(readTraceContext(rawHeaders)).toBeUndefined();
  });

  it('property: whatever stands in the header, reading gives a valid context or none', () => {
    const bits = fc.stringMatching(/^[0-9a-fA-F-]{0,70}$/);
    fc.assert(
      fc.property(fc.oneof(bits, fc.string(), fc.constant(valid)), (text) => {
        const read = readTraceContext(['traceparent', text]);
        if (read === undefined) return;
        expect(read.traceId).toMatch(/^(?!0+$)[0-9a-f]{32}$/);
        expect(read.parentSpanId).toMatch(/^(?!0+$)[0-9a-f]{16}$/);
      }),
    );
  });
});

describe('a `tracestate` beside it', () => {
  const read = (...states: string[]) =>
    readTraceContext(['traceparent', valid, ...states.flatMap((state) => ['tracestate', state])])?.state;

  it('is kept as it came', () => {
    expect(read('v=1')).toBe('v=1');
    expect(read('rojo=00f067aa0ba902b7,congo=t61rcWkgMzE')).toBe('rojo=00f067aa0ba902b7,congo=t61rcWkgMzE');
    expect(read('tenant@system=a b c, other=!#')).toBe('tenant@system=a b c, other=!#');
  });

  it('in several headers is joined in their order', () => {
    expect(read('a=1', 'b=2')).toBe('a=1,b=2');
    expect(read('a=1, ', 'b=2')).toBe('a=1,b=2');
  });

  it.each(['', ' ', ',', 'a', 'A=1', '=1', 'a=', 'a=1,a=2', 'a=x=y', 'a=\u00e9'])(
    'that is not valid is left out, and the trace goes on: %j',
    (state) => {
      expect(read(state)).toBeUndefined();
      expect(readTraceContext(['traceparent', valid, 'tracestate', state])).toMatchObject({ traceId });
    },
  );

  it('with more than 32 members is not valid', () => {
    const members = (count: number) => Array.from({ length: count }, (_, i) => `k${i}=1`).join(',');
    expect(read(members(32))).toBe(members(32));
    expect(read(members(33))).toBeUndefined();
  });

  it('that is very long loses its longest members first, then the last ones', () => {
    const long = Array.from({ length: 20 }, (_, i) => `l${i}=${'x'.repeat(200)}`);
    expect(read(['a=1', ...long, 'b=2'].join(','))).toBe('a=1,b=2');
    const short = Array.from({ length: 32 }, (_, i) => `s${i}=${'x'.repeat(100)}`);
    const kept = read(short.join(','));
    expect(short.join(',').startsWith(kept ?? '-')).toBe(true);
    expect(kept?.length).toBeGreaterThan(1900);
    expect(kept?.length).toBeLessThanOrEqual(2048);
  });
});

describe('what is made here', () => {
  it('is what is read here', () => {
    for (const sampled of [true, false]) {
      const [trace, span] = [randomTraceId(), randomSpanId()];
      expect(readTraceContext(['traceparent', traceparentOf(trace, span, sampled)])).toEqual({
        traceId: trace,
        parentSpanId: span,
        sampled,
      });
    }
  });

  it('does not repeat, over many fillings of the pool', () => {
    const ids = new Set(Array.from({ length: 2000 }, () => [randomTraceId(), randomSpanId()]).flat());
    expect(ids.size).toBe(4000);
  });
});
